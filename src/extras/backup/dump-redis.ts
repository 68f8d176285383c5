// Dumps all keys while the service runs, by SCAN and DUMP: a managed Redis has no PSYNC.
//
//   each profile, atomically ──▶ again: profiles that a merge changed (merged-dump.ts) ──▶ all other keys
//
// Each profile is consistent in itself. Across slots, the data looks as if a failover had lost the last minutes of some
// slots; `serve` repairs that. Share codes and indexes are written before their profile, so a dump that reads them
// afterwards lacks none.

import { dirname } from 'node:path';
import pLimit from 'p-limit';
import { StartupError } from '../../errors.js';
import { mastersOf, type RedisClient, slotsOf } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { isNoScript, loadScript } from '../../redis/scripts.js';
import { together } from '../../together.js';
import { Spool, type SpoolPart } from '../import/spool.js';
import { type CheckedFile, createChecked, type FileSum } from './checked-file.js';
import { kindOf } from './key-kinds.js';
import { readDump, writeDumpOf, writeRecord } from './key-records.js';
import { MergedDump } from './merged-dump.js';

const DUMP_KEYS = loadScript('extras/backup/dumpKeys');
const SCAN_COUNT = 1_000;
const MAX_CONCURRENT = 64;
const PAGE_SIZE = 250;

export type OnProgress = (what: string, count: number) => void;

export interface DumpedKeys {
  readonly files: readonly [all: FileSum, again: FileSum];
  /** Of each kind, as many as a restore finds. */
  readonly keys: Readonly<Record<string, number>>;
  readonly masters: number;
}

/**
 * @param paths files to create, which `readDump` takes in this order
 * @throws StartupError if cluster slots moved; errors of Redis and the disk
 */
export async function dumpRedis(
  client: RedisClient,
  keys: Keys,
  { prefix, paths }: { readonly prefix: string; readonly paths: readonly [all: string, again: string] },
  onProgress: OnProgress,
): Promise<DumpedKeys> {
  const slots = await slotsOf(client);
  const [all, again] = [createChecked(paths[0]), createChecked(paths[1])];
  const dump = new Dump({ client, keys, prefix: `${prefix}:`, file: all, onProgress });
  const spools = [new Spool(dirname(paths[0])), new Spool(dirname(paths[0]))] as const;
  let files: DumpedKeys['files'];
  try {
    const began = await earliestTime(client);
    const wasPending = await dump.profiles(spools[0]);
    await dump.merged(again, began, wasPending);
    await dump.others(spools[1]);
  } finally {
    files = [await all.close(), await again.close()];
    for (const spool of spools) await spool.close();
  }
  // SCAN may miss a key while its slot moves.
  if ((await slotsOf(client)) !== slots)
    throw new StartupError('Slots of the Redis Cluster moved during the backup: make another one.');
  return { files, keys: await countKeys(paths, `${prefix}:`), masters: mastersOf(client).length };
}

/** Counts in the files, because a profile that was dumped again may have fewer keys than before. */
async function countKeys(paths: readonly [string, string], prefix: string): Promise<Record<string, number>> {
  const counts = new Map<string, number>();
  for await (const { key } of readDump(paths, prefix)) {
    const kind = kindOf(key.slice(prefix.length))?.kind as string;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return Object.fromEntries([...counts].sort());
}

interface DumpParts {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  readonly file: CheckedFile;
  readonly onProgress: OnProgress;
}

class Dump {
  readonly #limit = pLimit(MAX_CONCURRENT);
  #count = 0;

  constructor(private readonly parts: DumpParts) {}

  /** Dumps each profile. @returns sources of the merges that were pending before the first profile was read */
  async profiles(spool: Spool): Promise<Set<string>> {
    const pending = new Set<string>();
    for await (const key of this.#names()) {
      const { kind, profileId } = this.#kindOf(key) ?? {};
      if (profileId !== undefined) await spool.add(profileId, key);
      else if (kind === 'pending') pending.add(key);
    }
    const sources = new Set<string>();
    for (const key of pending) await this.#addMerging(key, sources);
    for await (const part of spool.parts()) {
      const byProfile = new Map<string, string[]>();
      for (const key of await namesIn(part)) {
        const profileId = this.#kindOf(key)?.profileId as string;
        const found = byProfile.get(profileId);
        if (found) found.push(key);
        else byProfile.set(profileId, [key]);
      }
      await this.#each(byProfile, async ([profileId, found]) => {
        const all = [...new Set([...found, ...this.parts.keys.allOf(profileId)])];
        await this.#write(this.parts.file, all, await this.#read(all));
      });
    }
    return sources;
  }

  async #addMerging(key: string, sources: Set<string>): Promise<void> {
    for await (const found of this.parts.client.zscanStream(key, { count: PAGE_SIZE }))
      for (const operation of found as string[]) {
        const [task, source] = operation.split(' ');
        if (task === 'merge') sources.add(source as string);
      }
  }

  async merged(file: CheckedFile, began: number, wasPending: ReadonlySet<string>): Promise<void> {
    const dump = {
      read: (names: readonly string[]) => this.#read(names),
      write: async (profileId: string, names: readonly string[], values: readonly unknown[]) => {
        await writeDumpOf(file, profileId);
        await this.#write(file, names, values);
      },
    };
    const merged = new MergedDump(this.parts.client, this.parts.keys, dump, { began, wasPending });
    for (const source of wasPending) await merged.source(source);
    for await (const found of this.#pages('{*}:p:*')) {
      const targets = await Promise.all(found.map((key) => this.parts.client.hget(key, 'target')));
      for (const [i, key] of found.entries()) {
        const [source, target] = [this.#kindOf(key)?.profileId, targets[i]];
        if (source && target && merged.isRecent(source, target)) await merged.source(source);
      }
    }
    await merged.targets();
  }

  async others(spool: Spool): Promise<void> {
    for await (const key of this.#names()) {
      const kind = this.#kindOf(key);
      if (kind !== undefined && kind.profileId === undefined) await spool.add(key, key);
    }
    for await (const part of spool.parts())
      await this.#each(await namesIn(part), async (key) =>
        this.#write(this.parts.file, [key], await this.#read([key])),
      );
  }

  async *#names(): AsyncGenerator<string> {
    let count = 0;
    for await (const found of this.#pages('*')) {
      count += found.length;
      this.parts.onProgress('Redis, names of keys', count);
      yield* found;
    }
  }

  async *#pages(pattern: string): AsyncGenerator<readonly string[]> {
    const match = `${this.parts.prefix}${pattern}`;
    for (const node of mastersOf(this.parts.client)) yield* node.scanStream({ match, count: SCAN_COUNT });
  }

  #kindOf(key: string) {
    return kindOf(key.slice(this.parts.prefix.length));
  }

  async #each<T>(all: Iterable<T>, dump: (one: T) => Promise<void>): Promise<void> {
    const page: T[] = [];
    const work = async () => {
      await together(page.map((one) => this.#limit(dump, one)));
      page.length = 0;
    };
    for (const one of all) {
      page.push(one);
      if (page.length >= MAX_CONCURRENT * 8) await work();
    }
    await work();
  }

  /** Reads keys of one slot atomically. @returns each key's expiry, then its payload or null */
  async #read(names: readonly string[]): Promise<unknown[]> {
    const list = [names.length, ...names];
    try {
      return (await this.parts.client.callBuffer('evalsha', DUMP_KEYS.sha, ...list)) as unknown[];
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return (await this.parts.client.callBuffer('eval', DUMP_KEYS.source, ...list)) as unknown[];
    }
  }

  async #write(file: CheckedFile, names: readonly string[], values: readonly unknown[]): Promise<void> {
    for (const [i, key] of names.entries()) {
      const [endsAt, payload] = [Number(values[2 * i]), values[2 * i + 1] as Buffer | null];
      if (payload === null) continue; // deleted
      await writeRecord(file, { key, endsAt, payload });
      this.parts.onProgress('Redis, keys', ++this.#count);
    }
  }
}

/** @returns milliseconds since 1970, by the slowest master's clock */
async function earliestTime(client: RedisClient): Promise<number> {
  const times = await Promise.all(mastersOf(client).map((node) => node.time()));
  return Math.min(...times.map(([seconds]) => Number(seconds) * 1_000));
}

/** SCAN may return a key twice. */
async function namesIn(part: SpoolPart): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const name of part.lines()) names.add(name);
  return names;
}
