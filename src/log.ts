// Log lines without personal data or secrets. Only harmless parts of an error are logged: libraries attach data to
// errors (ioredis a command's arguments, the ClickHouse client the query), and messages may quote bad input.

import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';

const NOT_WRITTEN = 'not written here: it may quote data';

interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  /** V8's stack trace, without the message. */
  readonly stack?: string;
  readonly causes?: readonly LoggedError[];
}

export function createLog(level: string, name: string, destination?: DestinationStream): Logger {
  const options: LoggerOptions = { level, name, serializers: { err: describeError } };
  return destination === undefined ? pino(options) : pino(options, destination);
}

export async function terminal(): Promise<DestinationStream> {
  const { PinoPretty: pretty } = await import('pino-pretty');
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
    case 'SyntaxError': // JSON.parse quotes its input
    case 'ClickHouseError': // quotes values, rows and queries
      return NOT_WRITTEN;
    default:
      // Redis quotes the arguments of an unknown command.
      return error.message.replace(/, with args beginning with:.*/s, '');
  }
}
