// Decides from an insert's error whether a row or the server is at fault. An error's text may quote a row: trust only
// the code, and text after any quote.

import { ClickHouseError } from '@clickhouse/client';

export type Blame = 'data' | 'server';

// From isParseError in IRowInputFormat.cpp. Not TYPE_MISMATCH etc.: a table changed by hand gives them for every row.
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

// The shop's own materialized view may fail with these codes; then the text ends with the view. For a bad row it ends
// with the format, so no row can pass for a view.
const IN_A_VIEW = /: while pushing to view (?![\s\S]*(?:InputFormat|\(at row))/;

export const MEMORY_LIMIT_EXCEEDED = 241;

export function blame(error: unknown): Blame {
  if (!DATA.has(errorCode(error))) return 'server';
  return IN_A_VIEW.test((error as Error).message) ? 'server' : 'data';
}

/** 0 if ClickHouse did not answer. */
export function errorCode(error: unknown): number {
  return error instanceof ClickHouseError ? Number(error.code) : 0;
}
