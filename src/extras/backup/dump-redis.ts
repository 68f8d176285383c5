// Dumps all keys while the service runs, by SCAN and DUMP: a managed Redis has no PSYNC.
//
//   sessions ──▶ customers ──▶ all other keys
//
// Each profile is consistent in itself. A session is dumped before its customer, so what a merge has moved in between is
// in both, never in neither: restore-redis.ts takes it from the session. Share codes and indexes are written before their
// profile, so a dump that reads them afterwards lacks none.

import { dirname } from 'node:path';
import pLimit from 'p-limit';
import { StartupError } from '../../errors.js';
import { mastersOf, type RedisClient, slotsOf } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';
import { isCustomers } from '../../redis/location.js';
import { isNoScript, loadScript } from '../../redis/scripts.js';
import { together } from '../../together.js';
import { Spool, type SpoolPart } from '../import/spool.js';
import { type CheckedFile, createChecked, type FileSum } from './checked-file.js';
import { type KeyKind, kindOf } from './key-kinds.js';
import { writeRecord } from './key-records.js';

const DUMP_KEYS = loadScript('extras/backup/dumpKeys');
const SCAN_COUNT = 1_000;
const MAX_CONCURRENT = 64;

export type OnProgress = (what: string, count: number) => void;

export interface DumpedKeys {
  readonly file: FileSum;
  readonly keys: Readonly<Record<string, number>>;
  readonly masters: number;
}

/** @param path of the file to create @throws StartupError if cluster slots moved; errors of Redis and the disk */
export async function dumpRedis(
  client: RedisClient,
  keys: Keys,
  { prefix, path }: { readonly prefix: string; readonly path: string },
  onProgress: OnProgress,
): Promise<DumpedKeys> {
  const slots = await slotsOf(client);
  const file = createChecked(path);
  const dump = new Dump({ client, keys, prefix: `${prefix}:`, file, folder: dirname(path), onProgress });
  let sum: FileSum;
  try {
    await dump.profiles((profileId) => !isCustomers(profileId));
    await dump.profiles(isCustomers);
    await dump.others();
  } finally {
    sum = await file.close();
  }
  // SCAN may miss a key while its slot moves.
  if ((await slotsOf(client)) !== slots)
    throw new StartupError('Slots of the Redis Cluster moved during the backup: make another one.');
  return { file: sum, keys: Object.fromEntries([...dump.counts].sort()), masters: mastersOf(client).length };
}

interface DumpParts {
  readonly client: RedisClient;
  readonly keys: Keys;
  readonly prefix: string;
  readonly file: CheckedFile;
  readonly folder: string;
  readonly onProgress: OnProgress;
}

class Dump {
  readonly counts = new Map<string, number>();
  readonly #limit = pLimit(MAX_CONCURRENT);
  #count = 0;

  constructor(private readonly parts: DumpParts) {}

  /** The names are scanned anew each time, because a login may have made a customer. */
  async profiles(isWanted: (profileId: string) => boolean): Promise<void> {
    const { keys } = this.parts;
    await this.#spooled(
      ({ profileId }) => (profileId !== undefined && isWanted(profileId) ? profileId : undefined),
      async (names) => {
        const profiles = new Set<string>();
        for (const key of names) profiles.add(this.#kindOf(key)?.profileId as string);
        await this.#each(profiles, async (profileId) => {
          const all = [...keys.allOf(profileId), keys.erasedAt(profileId)];
          await this.#write(all, await this.#read(all));
        });
      },
    );
  }

  async others(): Promise<void> {
    await this.#spooled(
      ({ profileId, name }) => (profileId === undefined ? name : undefined),
      (names) => this.#each(names, async (key) => this.#write([key], await this.#read([key]))),
    );
  }

  /** @param partOf the part of the spool that a key's name goes to; undefined to leave it out */
  async #spooled(
    partOf: (key: KeyKind & { readonly name: string }) => string | undefined,
    dump: (names: ReadonlySet<string>) => Promise<void>,
  ): Promise<void> {
    const spool = new Spool(this.parts.folder);
    try {
      for await (const name of this.#names()) {
        const kind = this.#kindOf(name);
        const part = kind && partOf({ ...kind, name });
        if (part !== undefined) await spool.add(part, name);
      }
      for await (const part of spool.parts()) await dump(await namesIn(part));
    } finally {
      await spool.close();
    }
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

  async #write(names: readonly string[], values: readonly unknown[]): Promise<void> {
    for (const [i, key] of names.entries()) {
      const [endsAt, payload] = [Number(values[2 * i]), values[2 * i + 1] as Buffer | null];
      if (payload === null) continue; // deleted
      await writeRecord(this.parts.file, { key, endsAt, payload });
      const kind = this.#kindOf(key)?.kind as string;
      this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
      this.parts.onProgress('Redis, keys', ++this.#count);
    }
  }
}

/** SCAN may return a key twice. */
async function namesIn(part: SpoolPart): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const name of part.lines()) names.add(name);
  return names;
}
