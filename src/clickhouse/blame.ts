// Whose fault a failed insert is. Our own encoder writes the rows, so the codes of a row's faults are few and known;
// everything else counts as the server's fault, and the same rows pass later.
// The text may quote a row, so only the code is trusted, and the part of the text that ClickHouse adds after any quote.

import { ClickHouseError } from '@clickhouse/client';

/** `data`: a row that ClickHouse can't read; other rows pass. `server`: the connection, the server or its set-up. */
export type Blame = 'data' | 'server';

// What ClickHouse answers to a damaged row (isParseError in its IRowInputFormat.cpp), for the types of our columns; the
// names are those of ErrorCodes.cpp. Without TYPE_MISMATCH and the like: a table that was changed by hand answers them to
// every row.
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

// A materialized view of the shop's own fails with the same codes. ClickHouse names the view at the end of the text. If
// the row can't be read, the format's name comes last, so a row that quotes the first phrase is not mistaken for a view.
const IN_A_VIEW = /: while pushing to view (?![\s\S]*(?:InputFormat|\(at row))/;

/** An error without ClickHouse's code is the connection's, or of something in between. */
export function blame(error: unknown): Blame {
  if (!DATA.has(errorCode(error))) return 'server';
  return IN_A_VIEW.test((error as Error).message) ? 'server' : 'data';
}

/** ClickHouse's number for an error; 0 where ClickHouse did not answer. */
export function errorCode(error: unknown): number {
  return error instanceof ClickHouseError ? Number(error.code) : 0;
}
