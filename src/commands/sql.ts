// `wishmeter sql "<query>"`: runs a query as `analyst`, or with --write as the service's user, and streams the answer.
// On a terminal, it escapes control characters, which visitors' data may contain.

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { exampleOf, loadViews } from '../clickhouse/views.js';
import { StartupError } from '../errors.js';
import { readServiceUrl } from '../extras/embedded/clickhouse/service-url.js';
import { UsageError } from './command-line.js';
import { analystClickHouse, clickhouseFolder } from './embedded-databases.js';
import type { Program } from './program.js';

const TERMINAL_FORMAT = 'PrettyCompactMonoBlock';
const PIPE_FORMAT = 'TabSeparatedWithNames';

export async function sql({ options, operands, config, stdin, stdout }: Program<'sql'>): Promise<number> {
  const { format, write = false } = options;
  const [query, ...more] = operands;
  if (more.length > 0) throw new UsageError('sql takes one query; put it in quotes.');
  const asked = query ?? (stdin.isTTY ? '' : await text(stdin));
  if (asked.trim() === '') throw new UsageError('sql needs a query, as its argument or on stdin.');

  const answer = await post(endpoint(config, write), config.CLICKHOUSE_DATABASE, asked, {
    default_format: format ?? (stdout.isTTY ? TERMINAL_FORMAT : PIPE_FORMAT),
  });
  if (answer.statusCode !== 200)
    throw new StartupError(escapeControls(oneLine(await text(answer))) + missingDays(asked));
  try {
    if (stdout.isTTY) await pipeline(answer, untilError, harmless, stdout, { end: false });
    else await pipeline(answer, untilError, stdout, { end: false });
  } catch (error) {
    if (error instanceof StartupError) throw error;
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') return 0; // the reader closed the pipe
    throw new StartupError(`The answer broke off: ${(error as Error).message}.`);
  }
  return 0;
}

/** A hint for a view without its parameters: ClickHouse's error only says that it has no columns. */
function missingDays(query: string): string {
  for (const view of loadViews()) {
    const [asked, given = ''] = new RegExp(`\\b${view.name}\\b\\s*(\\([^)]*\\))?`).exec(query) ?? [];
    if (asked === undefined || view.days.every((day) => given.includes(day))) continue;
    return ` ${view.name} asks for days: write ${exampleOf(view)}.`;
  }
  return '';
}

// C0 except tab and line feed, DEL, C1, and changes of text direction.
// biome-ignore lint/suspicious/noControlCharactersInRegex: it matches control characters on purpose
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g;

function escapeControls(text: string): string {
  return text.replace(CONTROLS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

async function* harmless(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) yield escapeControls(decoder.decode(chunk, { stream: true }));
}

const ERROR_BYTES = 20 * 1024;

/** @throws StartupError if ClickHouse appended an error that came too late to change the status */
async function* untilError(answer: IncomingMessage): AsyncGenerator<Buffer> {
  let end = Buffer.alloc(0);
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    end = Buffer.concat([end, chunk]).subarray(-ERROR_BYTES);
    yield chunk;
  }
  const tag = answer.headers['x-clickhouse-exception-tag'];
  if (tag === undefined) return;
  const [, words] = end.toString().split(`\r\n__exception__\r\n${tag}\r\n`);
  const error = words?.slice(0, words.lastIndexOf(`\n`, words.lastIndexOf(` ${tag}`)));
  if (error !== undefined) throw new StartupError(escapeControls(oneLine(error)));
}

function endpoint(
  { CLICKHOUSE_URL, CLICKHOUSE_PORT, DATA_DIR }: Program<'sql'>['config'],
  write: boolean,
): URL {
  if (CLICKHOUSE_URL || !write) return analystClickHouse({ CLICKHOUSE_URL, CLICKHOUSE_PORT, DATA_DIR });
  const folder = clickhouseFolder(DATA_DIR);
  const service = readServiceUrl(folder);
  if (service === undefined)
    throw new StartupError(`There is no password in ${folder}; set DATA_DIR as \`wishmeter start\` has it.`);
  return new URL(service);
}

/** Doesn't use `fetch`, which fails if the first byte takes more than 300 s. */
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
