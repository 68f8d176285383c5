// `wishmeter dead`: lists, retries or drops dead letters, the rows that ClickHouse refused.

import { pipeline } from 'node:stream/promises';
import {
  type DeadLetter,
  dropDeadLetters,
  listDeadLetters,
  retryDeadLetters,
} from '../flush/dead-letters.js';
import { connectRedis, type RedisClient } from '../redis/client.js';
import { toStartupError } from '../redis/failures.js';
import { createKeys, type Keys, type StreamKeys } from '../redis/keys.js';
import { streamsOf } from '../redis/node-markers.js';
import { UsageError } from './command-line.js';
import { redisUrls } from './embedded-databases.js';
import type { Program } from './program.js';

const PAGE = 100;
const TIMEOUT_MS = 5_000;

/** Ids by stream. A stream's name is its number, after a `v` if it has visits. */
type Selection = Map<string, string[]>;

interface Letters {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly streams: readonly string[];
}

export async function dead({ options, operands, config, stdout }: Program<'dead'>): Promise<number> {
  const { all = false } = options;
  const [action = 'list', ...names] = operands;
  if (!['list', 'retry', 'drop'].includes(action)) throw new UsageError('dead takes list, retry or drop.');
  if (action !== 'list' && all === names.length > 0)
    throw new UsageError(`dead ${action} takes ids as \`dead list\` shows them, or --all.`);
  const named = parseNames(names);
  const redis = await open(config);
  try {
    const keys = createKeys(config.KEY_PREFIX);
    const letters = { redis, keys, streams: await namesOf(redis, keys) };
    if (action === 'list') {
      await list(letters, stdout);
      return 0;
    }
    const act = action === 'retry' ? retryDeadLetters : dropDeadLetters;
    let count = 0;
    for (const [stream, ids] of all ? await everyOne(letters) : named) {
      const [of, number] = find(keys, stream);
      for (let i = 0; i < ids.length; i += PAGE) {
        count += await act(redis, of, number, ids.slice(i, i + PAGE));
      }
    }
    stdout.write(`${count} ${action === 'retry' ? 'put back' : 'dropped'}\n`);
    return 0;
  } finally {
    redis.disconnect();
  }
}

async function open(config: Program<'dead'>['config']): Promise<RedisClient> {
  try {
    return await connectRedis(
      { urls: redisUrls(config), name: 'wishmeter dead', timeoutMs: TIMEOUT_MS },
      () => {},
    );
  } catch (error) {
    throw toStartupError(error as Error);
  }
}

async function namesOf(redis: RedisClient, keys: Keys): Promise<string[]> {
  const numbers = await streamsOf(redis, keys);
  return ['', 'v'].flatMap((kind) => numbers.map((number) => `${kind}${number}`));
}

function find({ visits, ...events }: Keys, stream: string): [StreamKeys, number] {
  return stream.startsWith('v') ? [visits, Number(stream.slice(1))] : [events, Number(stream)];
}

async function list(letters: Letters, stdout: Program<'dead'>['stdout']): Promise<void> {
  const lines = async function* () {
    for await (const { stream, letter } of each(letters)) yield `${describe(stream, letter)}\n`;
  };
  try {
    await pipeline(lines, stdout, { end: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  }
}

async function* each({
  redis,
  keys,
  streams,
}: Letters): AsyncGenerator<{ stream: string; letter: DeadLetter }> {
  for (const stream of streams) {
    const [of, number] = find(keys, stream);
    let after: string | undefined;
    do {
      const page = await listDeadLetters(redis, of, number, { count: PAGE, after });
      for (const letter of page) yield { stream, letter };
      after = page.at(-1)?.id;
    } while (after !== undefined);
  }
}

/** Collects all ids first, because a letter that is refused again gets a new id. */
async function everyOne(letters: Letters): Promise<Selection> {
  const selection: Selection = new Map();
  for await (const { stream, letter } of each(letters)) add(selection, stream, letter.id);
  return selection;
}

function parseNames(names: readonly string[]): Selection {
  const selection: Selection = new Map();
  for (const name of names) {
    const [, stream, id] = /^(v?\d{1,6})\/(\d+-\d+)$/.exec(name) ?? [];
    if (stream === undefined || id === undefined)
      throw new UsageError(`${JSON.stringify(name)} is not an id as \`dead list\` shows them.`);
    add(selection, stream, id);
  }
  return selection;
}

function add(selection: Selection, stream: string, id: string): void {
  const ids = selection.get(stream);
  if (ids) ids.push(id);
  else selection.set(stream, [id]);
}

function describe(stream: string, { id, time, line, entry, ...why }: DeadLetter): string {
  const what = entry === undefined ? { line } : { entry };
  return JSON.stringify({ id: `${stream}/${id}`, time: new Date(time).toISOString(), ...why, ...what });
}
