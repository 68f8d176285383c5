// Log lines: JSON, for people where a terminal shows them, and without personal data or secrets. Libraries hang what
// they were doing on their errors (ioredis the command with its arguments, the ClickHouse client the query), and
// messages quote what could not be read, so of an error only what is known to be harmless is written.

import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import { PinoPretty as pretty } from 'pino-pretty';

const NOT_WRITTEN = 'not written here: it may quote data';

interface LoggedError {
  readonly type: string;
  readonly message: string;
  /** `ECONNREFUSED`, or ClickHouse's number. */
  readonly code?: string;
  /** Where it was thrown; without the message, which comes first in V8's. */
  readonly stack?: string;
  readonly causes?: readonly LoggedError[];
}

/** @param level `trace` to `fatal`, or `silent`; `destination` is stdout where it is not given */
export function createLog(level: string, name: string, destination?: DestinationStream): Logger {
  const options: LoggerOptions = { level, name, serializers: { err: describeError } };
  return destination === undefined ? pino(options) : pino(options, destination);
}

/** Lines for people, on stdout: time, level, what, with colour where the terminal has it. */
export function terminal(): DestinationStream {
  return pretty({ translateTime: 'SYS:HH:MM:ss', ignore: 'pid,hostname', singleLine: true, sync: true });
}

function describeError(error: unknown): LoggedError {
  if (!(error instanceof Error)) return { type: typeof error, message: 'thrown, and not an Error' };
  const { code, cause, errors } = error as { code?: unknown; cause?: unknown; errors?: unknown };
  const causes = [cause, ...(Array.isArray(errors) ? errors : [])].filter((one) => one instanceof Error);
  const frames = error.stack?.split('\n').filter((line) => line.startsWith('    at '));
  return {
    type: error.constructor.name,
    message: harmless(error),
    ...(typeof code === 'string' ? { code } : {}),
    ...(frames === undefined || frames.length === 0 ? {} : { stack: frames.join('\n') }),
    ...(causes.length === 0 ? {} : { causes: causes.map(describeError) }),
  };
}

function harmless(error: Error): string {
  switch (error.constructor.name) {
    case 'SyntaxError': // JSON.parse quotes what it could not read
    case 'ClickHouseError': // quotes values, rows, queries; its number says what it was
      return NOT_WRITTEN;
    default:
      // Redis quotes the arguments of a command that it does not know.
      return error.message.replace(/, with args beginning with:.*/s, '');
  }
}
