// The functions that statements may use. All others are refused, because ClickHouse has no grants for functions. None
// of the allowed ones reads files, server settings or other processes, calls a service, loads code, or runs text as
// code. An alias is judged as its function. Combinators (-If, -Merge) need no entry.

/** ClickHouse's categories of functions that only compute. */
const CATEGORIES = [
  ...['Aggregate Functions', 'Arithmetic', 'Arrays', 'Bit', 'Bitmap', 'Comparison', 'Conditional'],
  ...['Dates and Times', 'Distance', 'Encoding', 'Encryption', 'Financial', 'Geo', 'Geo Polygon', 'Hash'],
  ...['IP Address', 'JSON', 'Logical', 'Map', 'Mathematical', 'Null', 'NumericIndexedVector', 'QBit'],
  ...['Random Number', 'Rounding', 'String', 'String Replacement', 'String Search', 'String Splitting'],
  ...['Time Series', 'Time Window', 'Tuple', 'Type Conversion', 'URL', 'UUID'],
];

/** Functions in these categories that call a function by name, run SQL, or are about the server. */
const REFUSED = ['aggThrow', 'arrayReduce', 'arrayReduceInRanges', 'chdb', 'flameGraph'];

/** Allowed functions in none of these categories, or only by an alias (`groupArrayArray`). */
const OTHERS = `
MACNumToString MACStringToNum MACStringToOUI authenticatedUser bar blockNumber blockSerializedSize blockSize byteSize
caseWithExpression colorOKLABToSRGB colorOKLCHToSRGB colorSRGBToOKLAB colorSRGBToOKLCH connectionId countDigits
currentDatabase currentProfiles currentQueryID currentRoles currentSchemas currentUser defaultProfiles defaultRoles
defaultValueOfArgumentType defaultValueOfTypeName digits displayName dumpColumnStructure enabledProfiles enabledRoles
errorCodeToName finalizeAggregation flipCoordinates formatQuery formatQueryOrNull formatQuerySingleLine
formatQuerySingleLineOrNull formatReadableDecimalSize formatReadableQuantity formatReadableSize formatReadableTimeDelta
getSetting getSettingOrDefault getSizeOfEnumType getSubcolumn globalVariable hostName icebergBucket icebergTruncate
groupArrayArray identity ignore indexHint initialQueryID initialQueryStartTime isConstant isDecimalOverflow lowCardinalityIndices
lowCardinalityKeys materialize minSampleSizeContinuous minSampleSizeConversion neighbor normalizeQuery
normalizeQueryKeepNames normalizedQueryHash normalizedQueryHashKeepNames parseReadableSize parseReadableSizeOrNull
parseReadableSizeOrZero parseTimeDelta partitionId queryID revision rowNumberInAllBlocks rowNumberInBlock
runningAccumulate runningDifference runningDifferenceStartingWithFirstValue shardCount shardNum sleep sleepEachRow
throwIf toColumnTypeName toTypeName tokenizeQuery transform uptime variantElement variantType version visibleWidth
`;

const listed = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');

/** Selects refused functions and their aliases, in lower case: some aliases spell their function in another case. */
export const REFUSED_FUNCTIONS = `SELECT lower(name) FROM
  (SELECT name, lower(if(alias_to = '', name, alias_to)) AS meant FROM system.functions)
  WHERE meant NOT IN (${listed(OTHERS.toLowerCase().trim().split(/\s+/))})
    AND meant NOT IN (SELECT lower(name) FROM system.functions
      WHERE categories IN (${listed(CATEGORIES)}) AND name NOT IN (${listed(REFUSED)}))`;
