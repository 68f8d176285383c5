// All keys of a deployment into a file, while the service runs. Works wherever SCAN, DUMP and scripts do, so also on a managed
// Redis, which has no PSYNC for its clients. Keys of other programs, under another prefix, are left alone.
//
//   names of profiles' keys (SCAN) ──▶ each profile, all of its keys in one step ──▶ names of all other keys (SCAN) ──▶ each of
//   them ──▶ the lists of operations over several slots
//
// A profile is whole. What spans slots is not of one moment, and looks as it does after a failover that made some slots forget
// the last minutes; the order makes sure that it is what src/identity/resume.ts and src/identity/links.ts mend:
//
// - A merge that the source's slot has and the target's has not: the lists of merges come last, so they name it. The first
//   process that starts gives the target what the source's journal has. A target that is missing: the guest gets it back.
// - One that the target's slot has and the source's has not: the target's notes of what it was given are read in one step
//   with its counts. The guest's next merge adds only what it gained since.
// - A share link, an index of addresses or wishers: written before the profile that it is for, and so read after it.

import { mkdir, rm } from 'node:fs/promises';
import type { Cluster, Redis } from 'ioredis';
import pLimit from 'p-limit';
import { StartupError } from '../errors.js';
import type { RedisClient } from '../redis/client.js';
import type { Keys } from '../redis/keys.js';
import { isNoScript, loadScript } from '../redis/scripts.js';
import { type CheckedFile, createChecked, type FileSum } from './checked-file.js';
import { isOperations, kindOf } from './key-kinds.js';
import { writeRecord } from './key-records.js';
import { NameSpool } from './name-spool.js';

const DUMP_KEYS = loadScript('dump-keys');
/** Places that one SCAN looks at. */
const SCAN_COUNT = 1_000;
/** Calls under way at once. */
const AT_ONCE = 64;
/** Fields of one HSCAN. */
const FIELDS = 250;
/** Members that are merged profiles; others are identities, digests and share codes. */
const IS_PROFILE = /^[0-9a-z]+\.[^:]+$/;

export type OnProgress = (what: string, count: number) => void;

export interface DumpedKeys extends FileSum {
  /** By kind. */
  readonly keys: Readonly<Record<string, number>>;
  readonly masters: number;
}

/** @throws StartupError if slots of a cluster moved meanwhile; Redis's errors, and the disk's */
export async function dumpRedis(
  client: RedisClient,
  keys: Keys,
  prefix: string,
  path: string,
  onProgress: OnProgress,
): Promise<DumpedKeys> {
  const slots = await slotsOf(client);
  const file = createChecked(path);
  const dump = new Dump(client, keys, `${prefix}:`, file, onProgress);
  const folder = `${path}.names`;
  await mkdir(folder, { mode: 0o700 });
  let sum: FileSum;
  try {
    await dump.profiles(new NameSpool(folder));
    await dump.others(new NameSpool(folder));
  } finally {
    sum = await file.close();
    await rm(folder, { recursive: true, force: true });
  }
  // A key of a slot that moves may be at neither node when its names are read.
  if ((await slotsOf(client)) !== slots)
    throw new StartupError('Slots of the Redis Cluster moved during the backup: make another one.');
  return { ...sum, keys: Object.fromEntries([...dump.counts].sort()), masters: mastersOf(client).length };
}

class Dump {
  readonly counts = new Map<string, number>();
  readonly #client: RedisClient;
  readonly #keys: Keys;
  /** With its colon. */
  readonly #prefix: string;
  readonly #file: CheckedFile;
  readonly #onProgress: OnProgress;
  readonly #limit = pLimit(AT_ONCE);
  #count = 0;

  constructor(client: RedisClient, keys: Keys, prefix: string, file: CheckedFile, onProgress: OnProgress) {
    this.#client = client;
    this.#keys = keys;
    this.#prefix = prefix;
    this.#file = file;
    this.#onProgress = onProgress;
  }

  async profiles(spool: NameSpool): Promise<void> {
    for await (const key of this.#names()) {
      const profileId = this.#kindOf(key)?.profileId;
      if (profileId !== undefined) await spool.add(profileId, key);
    }
    for await (const names of spool.parts()) {
      const byProfile = new Map<string, string[]>();
      for (const key of names) {
        const profileId = this.#kindOf(key)?.profileId as string;
        const found = byProfile.get(profileId);
        if (found) found.push(key);
        else byProfile.set(profileId, [key]);
      }
      await this.#each(byProfile, ([profileId, found]) => this.#dumpProfile(profileId, found));
    }
  }

  async others(spool: NameSpool): Promise<void> {
    const operations = new Set<string>();
    for await (const key of this.#names()) {
      const { kind, profileId } = this.#kindOf(key) ?? {};
      if (kind === undefined || profileId !== undefined) continue;
      if (isOperations(kind)) operations.add(key);
      else await spool.add(key, key);
    }
    const dumpOne = async (key: string) => this.#write([key], await this.#read(key, [key], ''));
    for await (const names of spool.parts()) await this.#each(names, dumpOne);
    await this.#each(operations, dumpOne);
  }

  async *#names(): AsyncGenerator<string> {
    let count = 0;
    for (const node of mastersOf(this.#client)) {
      let cursor = '0';
      do {
        const [next, found] = await node.scan(cursor, 'MATCH', `${this.#prefix}*`, 'COUNT', SCAN_COUNT);
        cursor = next;
        count += found.length;
        this.#onProgress('Redis, names of keys', count);
        yield* found;
      } while (cursor !== '0');
    }
  }

  #kindOf(key: string) {
    return kindOf(key.slice(this.#prefix.length));
  }

  /** @throws the first error, once nothing is under way */
  async #each<T>(all: Iterable<T>, dump: (one: T) => Promise<void>): Promise<void> {
    const page: T[] = [];
    const work = async () => {
      const ended = await Promise.allSettled(page.map((one) => this.#limit(dump, one)));
      page.length = 0;
      const failed = ended.find((one) => one.status === 'rejected');
      if (failed) throw failed.reason;
    };
    for (const one of all) {
      page.push(one);
      if (page.length >= AT_ONCE * 8) await work();
    }
    await work();
  }

  /** A merge may begin meanwhile: its note belongs to what the profile has. The number of members tells. */
  async #dumpProfile(profileId: string, found: readonly string[]): Promise<void> {
    const members = this.#keys.members(profileId);
    let names = [...new Set([...found, ...this.#keys.allOf(profileId)])];
    let count = 0;
    for (;;) {
      const values = await this.#read(members, names, count);
      if (values.length > 0) return await this.#write(names, values);
      const read = await this.#membersOf(profileId);
      count = read.count;
      names = [...new Set([...names, ...read.notes])];
    }
  }

  /** How many members there are, and the keys of notes that their merges may have. */
  async #membersOf(profileId: string): Promise<{ count: number; notes: string[] }> {
    const members = this.#keys.members(profileId);
    const fields = new Set<string>();
    let cursor = '0';
    do {
      const [next, found] = await this.#client.hscan(members, cursor, 'COUNT', FIELDS);
      cursor = next;
      for (let i = 0; i < found.length; i += 2) fields.add(found[i] as string);
    } while (cursor !== '0');
    const generation = await this.#client.hget(this.#keys.profile(profileId), 'generation');
    const merged = generation === null ? [] : [...fields].filter((field) => IS_PROFILE.test(field));
    const notes = merged.map((from) => this.#keys.applied(profileId, generation as string, from));
    return { count: fields.size, notes };
  }

  async #read(first: string, names: readonly string[], fields: number | ''): Promise<unknown[]> {
    const list = [names.length + 1, first, ...names, fields];
    try {
      return (await this.#client.callBuffer('evalsha', DUMP_KEYS.sha, ...list)) as unknown[];
    } catch (error) {
      if (!isNoScript(error)) throw error;
      return (await this.#client.callBuffer('eval', DUMP_KEYS.source, ...list)) as unknown[];
    }
  }

  async #write(names: readonly string[], values: readonly unknown[]): Promise<void> {
    for (const [i, key] of names.entries()) {
      const [endsAt, payload] = [Number(values[2 * i]), values[2 * i + 1] as Buffer | null];
      if (payload === null) continue; // it is gone
      await writeRecord(this.#file, { key, endsAt, payload });
      const kind = this.#kindOf(key)?.kind as string;
      this.counts.set(kind, (this.counts.get(kind) ?? 0) + 1);
      this.#onProgress('Redis, keys', ++this.#count);
    }
  }
}

export function mastersOf(client: RedisClient): readonly Redis[] {
  return client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
}

/** Which node has which slots, as a text; the same for one server at all times. */
async function slotsOf(client: RedisClient): Promise<string> {
  if (!client.isCluster) return '';
  const ranges = (await client.cluster('SLOTS')) as unknown as [number, number, [string, number]][];
  return JSON.stringify(ranges.map(([from, to, [host, port]]) => [from, to, host, port]).sort());
}
