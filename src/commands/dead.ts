// `wishmeter dead`: the events that ClickHouse refused. `list` shows them as JSON lines, `retry` puts them
// back into the stream once the cause is mended, `drop` throws them away. Named as `list` names them, or --all.

import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import type { Config } from '../config.js';
import { embeddedRedisUrl } from '../embedded/redis.js';
import { StartupError } from '../errors.js';
import {
  type DeadLetter,
  dropDeadLetters,
  listDeadLetters,
  retryDeadLetters,
} from '../flush/dead-letters.js';
import { connectRedis, type RedisClient } from '../redis/client.js';
import { createKeys, type Keys } from '../redis/keys.js';
import { redisFolder } from './embedded-databases.js';
import { type Program, UsageError } from './program.js';

const PAGE = 100;
const TIMEOUT_MS = 5_000;

/** Which ones, by shard. */
type Selection = Map<number, string[]>;

interface Letters {
  readonly redis: RedisClient;
  readonly keys: Keys;
  readonly shards: number;
}

/** @throws StartupError where Redis does not answer. */
export async function dead({ args, config, stdout }: Program): Promise<number> {
  const { action, named, all } = readArguments(args);
  const redis = await open(config);
  try {
    const keys = createKeys(config.KEY_PREFIX);
    const letters = { redis, keys, shards: await shardsOf(redis, keys) };
    if (action === 'list') {
      await list(letters, stdout);
      return 0;
    }
    const act = action === 'retry' ? retryDeadLetters : dropDeadLetters;
    let count = 0;
    for (const [shard, ids] of all ? await everyOne(letters) : named) {
      for (let i = 0; i < ids.length; i += PAGE) {
        count += await act(redis, keys, shard, ids.slice(i, i + PAGE));
      }
    }
    stdout.write(`${count} ${action === 'retry' ? 'put back' : 'dropped'}\n`);
    return 0;
  } finally {
    redis.disconnect();
  }
}

function readArguments(args: readonly string[]): { action: string; named: Selection; all: boolean } {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { all: { type: 'boolean', default: false } },
    allowPositionals: true,
  });
  const [action = 'list', ...names] = positionals;
  if (!['list', 'retry', 'drop'].includes(action)) throw new UsageError('dead takes list, retry or drop.');
  if (action !== 'list' && values.all === names.length > 0) {
    throw new UsageError(`dead ${action} takes ids as \`dead list\` shows them, or --all.`);
  }
  return { action, named: parseNames(names), all: values.all };
}

/** REDIS_URL, or the embedded one of a `wishmeter start` in DATA_DIR. */
async function open(config: Config): Promise<RedisClient> {
  const urls =
    config.REDIS_URL.length > 0 ? config.REDIS_URL : [embeddedRedisUrl(redisFolder(config.DATA_DIR))];
  try {
    return await connectRedis({ urls, name: 'wishmeter dead', timeoutMs: TIMEOUT_MS }, () => {});
  } catch (error) {
    throw new StartupError(`Redis does not answer: ${(error as Error).message}.`);
  }
}

/** All shards that were ever written to, which may be more than EVENT_SHARDS is now; none where nothing ever ran. */
async function shardsOf(redis: RedisClient, keys: Keys): Promise<number> {
  return Number((await redis.hget(keys.meta, 'shards')) ?? 0);
}

async function list(letters: Letters, stdout: Program['stdout']): Promise<void> {
  const lines = async function* () {
    for await (const { shard, letter } of each(letters)) yield `${describe(shard, letter)}\n`;
  };
  try {
    await pipeline(lines, stdout, { end: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error; // `| head` has seen enough
  }
}

async function* each({
  redis,
  keys,
  shards,
}: Letters): AsyncGenerator<{ shard: number; letter: DeadLetter }> {
  for (let shard = 0; shard < shards; shard++) {
    let after: string | undefined;
    do {
      const page = await listDeadLetters(redis, keys, shard, PAGE, after);
      for (const letter of page) yield { shard, letter };
      after = page.at(-1)?.id;
    } while (after !== undefined);
  }
}

/** Collected before anything is done: one that is refused again comes back under a new id. */
async function everyOne(letters: Letters): Promise<Selection> {
  const selection: Selection = new Map();
  for await (const { shard, letter } of each(letters)) add(selection, shard, letter.id);
  return selection;
}

function parseNames(names: readonly string[]): Selection {
  const selection: Selection = new Map();
  for (const name of names) {
    const [, shard, id] = /^(\d{1,3})\/(\d+-\d+)$/.exec(name) ?? [];
    if (id === undefined)
      throw new UsageError(`${JSON.stringify(name)} is not an id as \`dead list\` shows them.`);
    add(selection, Number(shard), id);
  }
  return selection;
}

function add(selection: Selection, shard: number, id: string): void {
  const ids = selection.get(shard);
  if (ids) ids.push(id);
  else selection.set(shard, [id]);
}

function describe(shard: number, { id, time, line, entry, ...why }: DeadLetter): string {
  const what = entry === undefined ? { line } : { entry };
  return JSON.stringify({ id: `${shard}/${id}`, time: new Date(time).toISOString(), ...why, ...what });
}
