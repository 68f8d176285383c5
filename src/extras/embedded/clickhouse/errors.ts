// Errors in the format of ClickHouse's HTTP interface: `Code: 47. DB::Exception: <text>. (UNKNOWN_IDENTIFIER)`. Some
// errors that a ClickHouse server answers with 400 or 404 have 500 here.

const OWN_CODES = {
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

const STATUSES: Readonly<Record<string, number>> = {
  SYNTAX_ERROR: 400,
  ACCESS_DENIED: 403,
  AUTHENTICATION_FAILED: 403,
  TIMEOUT_EXCEEDED: 408,
  QUERY_IS_TOO_LARGE: 413,
  NOT_IMPLEMENTED: 501,
};

const UNKNOWN_EXCEPTION = { code: 1002, name: 'UNKNOWN_EXCEPTION' };

export class ClickHouseError extends Error {
  readonly code: number;
  readonly status: number;

  private constructor(code: number, name: string, text: string) {
    super(text);
    this.name = name;
    this.code = code;
    this.status = STATUSES[name] ?? 500;
  }

  static of(name: keyof typeof OWN_CODES, sentence: string): ClickHouseError {
    const code = OWN_CODES[name];
    return new ClickHouseError(code, name, `Code: ${code}. DB::Exception: ${sentence} (${name})`);
  }

  static from(error: unknown): ClickHouseError {
    if (error instanceof ClickHouseError) return error;
    const text = (error instanceof Error ? error.message : String(error)).trimEnd();
    const code = /^Code: (\d+)\. /.exec(text)?.[1];
    if (code !== undefined)
      return new ClickHouseError(Number(code), /\(([A-Z0-9_]+)\)$/.exec(text)?.[1] ?? '', text);
    const { code: unknown, name } = UNKNOWN_EXCEPTION;
    return new ClickHouseError(unknown, name, `Code: ${unknown}. DB::Exception: ${text} (${name})`);
  }
}
