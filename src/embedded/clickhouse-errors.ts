// Errors as ClickHouse's HTTP interface tells them: `Code: 47. DB::Exception: <text>. (UNKNOWN_IDENTIFIER)`,
// and the HTTP status of each (the server's own table, src/Server/HTTP/exceptionCodeToHTTPStatus.cpp).

/** Errors that this interface raises itself; those of the engine come with code and name. */
const OWN_CODES = {
  BAD_ARGUMENTS: 36,
  SYNTAX_ERROR: 62,
  NOT_IMPLEMENTED: 48,
  UNKNOWN_COMPRESSION_METHOD: 89,
  UNKNOWN_SETTING: 115,
  TIMEOUT_EXCEEDED: 159,
  READONLY: 164,
  QUERY_IS_TOO_LARGE: 229,
  INTO_OUTFILE_NOT_ALLOWED: 358,
  ACCESS_DENIED: 497,
  AUTHENTICATION_FAILED: 516,
} as const;

const STATUSES: Readonly<Record<number, string>> = {
  401: 'REQUIRED_PASSWORD',
  403: 'UNKNOWN_USER WRONG_PASSWORD AUTHENTICATION_FAILED SET_NON_GRANTED_ROLE ACCESS_DENIED',
  400: `BAD_ARGUMENTS CANNOT_COMPILE_REGEXP CANNOT_PARSE_TEXT CANNOT_PARSE_ESCAPE_SEQUENCE
    CANNOT_PARSE_QUOTED_STRING CANNOT_PARSE_DATE CANNOT_PARSE_DATETIME CANNOT_PARSE_NUMBER
    CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING CANNOT_PARSE_IPV4 CANNOT_PARSE_IPV6
    CANNOT_PARSE_INPUT_ASSERTION_FAILED CANNOT_PARSE_UUID DUPLICATE_COLUMN ILLEGAL_COLUMN
    UNKNOWN_ELEMENT_IN_AST UNKNOWN_TYPE_OF_AST_NODE THERE_IS_NO_COLUMN TOO_DEEP_AST TOO_BIG_AST
    UNEXPECTED_AST_STRUCTURE SYNTAX_ERROR INCORRECT_DATA TYPE_MISMATCH VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE`,
  404: `UNKNOWN_TABLE UNKNOWN_FUNCTION UNKNOWN_IDENTIFIER UNKNOWN_TYPE UNKNOWN_STORAGE UNKNOWN_DATABASE
    UNKNOWN_SETTING UNKNOWN_DIRECTION_OF_SORTING UNKNOWN_AGGREGATE_FUNCTION UNKNOWN_FORMAT
    UNKNOWN_DATABASE_ENGINE UNKNOWN_TYPE_OF_QUERY UNKNOWN_ROLE`,
  413: 'QUERY_IS_TOO_LARGE',
  501: 'NOT_IMPLEMENTED',
  503: 'SOCKET_TIMEOUT CANNOT_OPEN_FILE CANNOT_SCHEDULE_TASK',
  411: 'HTTP_LENGTH_REQUIRED',
  408: 'TIMEOUT_EXCEEDED',
  415: 'UNSUPPORTED_MEDIA_TYPE',
};

const STATUS_OF = new Map(
  Object.entries(STATUSES).flatMap(([status, names]) =>
    names.split(/\s+/).map((name) => [name, Number(status)] as const),
  ),
);

/** An error that a caller of the HTTP interface sees. */
export class ClickHouseError extends Error {
  readonly code: number;
  readonly status: number;

  /** `text` is what stands in the body, without the version. */
  private constructor(code: number, name: string, text: string) {
    super(text);
    this.name = name;
    this.code = code;
    this.status = STATUS_OF.get(name) ?? 500;
  }

  /** One of our own. */
  static of(name: keyof typeof OWN_CODES, sentence: string): ClickHouseError {
    const code = OWN_CODES[name];
    return new ClickHouseError(code, name, `Code: ${code}. DB::Exception: ${sentence} (${name})`);
  }

  /** What chDB threw; a text of another kind is a 1002, UNKNOWN_EXCEPTION. */
  static from(error: unknown): ClickHouseError {
    if (error instanceof ClickHouseError) return error;
    const text = error instanceof Error ? error.message : String(error);
    const code = /^Code: (\d+)\. /.exec(text)?.[1];
    if (code === undefined) {
      const whole = `Code: 1002. DB::Exception: ${text} (UNKNOWN_EXCEPTION)`;
      return new ClickHouseError(1002, 'UNKNOWN_EXCEPTION', whole);
    }
    return new ClickHouseError(
      Number(code),
      /\(([A-Z0-9_]+)\)$/.exec(text.trimEnd())?.[1] ?? '',
      text.trimEnd(),
    );
  }
}
