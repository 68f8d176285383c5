// Decides from an insert's error whether a row or the server is at fault. Our encoder writes the rows, so only a few codes
// mean a bad row; after any other error the same rows are tried again. The text of an error may quote a row, so only the
// code is trusted, and text that ClickHouse adds after any quote.

import { ClickHouseError } from '@clickhouse/client';

/** `data`: a row that ClickHouse can't read; other rows pass. `server`: the connection, the server or its set-up. */
export type Blame = 'data' | 'server';

// Codes for a bad row (isParseError in ClickHouse's IRowInputFormat.cpp) with the types of our columns; names from
// ErrorCodes.cpp. Not TYPE_MISMATCH and the like: a table that was changed by hand answers them to every row.
const DATA = new Set([
  6, // CANNOT_PARSE_TEXT
  25, // CANNOT_PARSE_ESCAPE_SEQUENCE
  26, // CANNOT_PARSE_QUOTED_STRING
  27, // CANNOT_PARSE_INPUT_ASSERTION_FAILED
  32, // ATTEMPT_TO_READ_AFTER_EOF
  33, // CANNOT_READ_ALL_DATA
  41, // CANNOT_PARSE_DATETIME
  69, // ARGUMENT_OUT_OF_BOUND: of a Decimal
  72, // CANNOT_PARSE_NUMBER
  117, // INCORRECT_DATA
  376, // CANNOT_PARSE_UUID
  407, // DECIMAL_OVERFLOW
  467, // CANNOT_PARSE_BOOL
  632, // UNEXPECTED_DATA_AFTER_PARSED_VALUE
]);

// The shop's own materialized view may fail with the same codes: then ClickHouse names the view at the end of the text. For
// a bad row the format's name comes last, so a row that contains the first phrase is not mistaken for a view.
const IN_A_VIEW = /: while pushing to view (?![\s\S]*(?:InputFormat|\(at row))/;

/** An error without a code of ClickHouse comes from the connection or a proxy. */
export function blame(error: unknown): Blame {
  if (!DATA.has(errorCode(error))) return 'server';
  return IN_A_VIEW.test((error as Error).message) ? 'server' : 'data';
}

/** ClickHouse's error code; 0 if ClickHouse did not answer. */
export function errorCode(error: unknown): number {
  return error instanceof ClickHouseError ? Number(error.code) : 0;
}
