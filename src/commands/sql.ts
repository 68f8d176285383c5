// `wishmeter sql "<query>"`: one query to ClickHouse over HTTP, its answer streamed to stdout.
// A terminal gets a table, a pipe gets tab-separated values with a header; --format and a FORMAT in the
// query go before both.

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import type { Config } from '../config.js';
import { StartupError } from '../errors.js';
import { type Program, UsageError } from './program.js';

const TERMINAL_FORMAT = 'PrettyCompactMonoBlock';
const PIPE_FORMAT = 'TabSeparatedWithNames';

/** @throws StartupError where ClickHouse does not answer or refuses the query; in its own words. */
export async function sql({ args, config, stdin, stdout }: Program): Promise<number> {
  const { format, query } = readArguments(args);
  const asked = query ?? (stdin.isTTY ? '' : await text(stdin));
  if (asked.trim() === '') throw new UsageError('sql needs a query, as its argument or on stdin.');

  const answer = await post(endpoint(config), config.CLICKHOUSE_DATABASE, asked, {
    default_format: format ?? (stdout.isTTY ? TERMINAL_FORMAT : PIPE_FORMAT),
  });
  if (answer.statusCode !== 200) throw new StartupError(oneLine(await text(answer)));
  try {
    await pipeline(answer, stdout, { end: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0; // `| head` has seen enough
    throw new StartupError(`The answer broke off: ${(error as Error).message}.`);
  }
  return 0;
}

function readArguments(args: readonly string[]): { format: string | undefined; query: string | undefined } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { format: { type: 'string', short: 'f' } },
    allowPositionals: true,
  });
  if (positionals.length > 1) throw new UsageError('sql takes one query; put it in quotes.');
  return { format: values.format, query: positionals[0] };
}

/** Where ClickHouse is: CLICKHOUSE_URL, or the embedded one of a `wishmeter start` on this machine. */
function endpoint({ CLICKHOUSE_URL, CLICKHOUSE_PORT }: Config): URL {
  if (CLICKHOUSE_URL) return new URL(CLICKHOUSE_URL);
  if (CLICKHOUSE_PORT === 0)
    throw new StartupError('Set CLICKHOUSE_PORT or CLICKHOUSE_URL to where ClickHouse listens.');
  return new URL(`http://127.0.0.1:${CLICKHOUSE_PORT}`);
}

/** node:http and not fetch: a long query may take its time before the first byte, fetch gives up after 300 s. */
function post(
  url: URL,
  database: string,
  query: string,
  settings: Readonly<Record<string, string>>,
): Promise<IncomingMessage> {
  const { username, password } = url;
  const target = new URL(url);
  target.username = target.password = '';
  target.search = new URLSearchParams({ database, ...settings }).toString();
  const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    request(target, {
      method: 'POST',
      headers: {
        'Content-Type': 'text/plain; charset=utf-8',
        'Content-Length': Buffer.byteLength(query),
        ...(username ? { 'X-ClickHouse-User': decodeURIComponent(username) } : {}),
        ...(password ? { 'X-ClickHouse-Key': decodeURIComponent(password) } : {}),
      },
    })
      .once('response', resolve)
      .once('error', (error) => {
        const why = (error as NodeJS.ErrnoException).code ?? error.message;
        reject(
          new StartupError(
            `ClickHouse does not answer at ${target.origin} (${why}); is \`wishmeter start\` running?`,
          ),
        );
      })
      .end(query);
  });
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}
