// Merges one room into another. The two live in different slots, so this is a journal, not a transaction:
//
//   live ──take──▶ tombstone `!heir`, belongings in the journal ──give, page by page──▶ (added to the heir)
//        ──append──▶ (analysts are told) ──record──▶ (the heir says that it has everything) ──done──▶ tombstone `heir`
//
// Each step is one script, runs for a few milliseconds at most and is safe to repeat; a request that meets a `!`
// tombstone does what is left. What the heir received is kept at the heir until some hours after the last step, field
// by field: a page given again adds nothing. The journal is kept as long, at the other side, with a nonce that the
// heir's record repeats: after a failover src/identity/merge-audit.ts finds merges that an heir forgot, and has them
// given again. A profile whose own side forgot the merge is live again, and the next merge adds only what it gained
// since.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { eventIdOfName } from '../events/event-id.js';
import { encodeMerge } from '../events/row.js';
import { ERASED, MAX_HOPS } from '../redis/at-profile.js';
import { bucketOf, type Keys, keysOfRoom } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';

const TAKE = loadScript<[heir: string, nonce: string]>('merge-take');
const GIVE = loadScript<1 | typeof ERASED | [tombstone: string, ...left: string[]]>('merge-give');
const RECORD = loadScript<string | number>('merge-record');
const DONE = loadScript('merge-done');
const CLAIM = loadScript('claim');
const REGISTER = loadScript<string | number>('register');

/** How long journals are kept: far longer than a failover is noticed in. */
const KEPT_S = 6 * 60 * 60;
/** How long what was received is kept of a merge that is not done: its visitor may be the next one to go on with it. */
const UNFINISHED_S = 400 * 24 * 60 * 60;
/** How long a request waits for a merge, in time-outs of Redis; a large one goes on without it. */
const PATIENCE = 2;

/** What a merge moves, in the order of the journal: where it goes, and how much of it is a page. */
const BELONGINGS = [
  { kind: 'v', keyOf: (keys: Keys, id: string) => keys.room(id), page: 128 },
  { kind: 'i', keyOf: (keys: Keys, id: string) => keys.items(id), page: 20 },
  { kind: 'p', keyOf: (keys: Keys, id: string) => keys.profile(id), page: 50 },
  { kind: 'g', keyOf: (keys: Keys, id: string) => keys.merged(id), page: 128 },
] as const;
/** The last of these: what came to a room. */
const G = 3;

/** Fields of a profile that stay what they are at the heir. */
const OWN_FIELDS = new Set(['owner', 'itemBytes', 'heir', 'nonce', 'root']);

/** Appends an event to the stream of a profile's node. @throws ServiceError `unavailable` */
export type Append = (profileId: string, line: string) => Promise<unknown>;

export class Merger {
  readonly #store: Store;
  readonly #append: Append;
  /** Merges under way in this process. */
  readonly #running = new Map<string, Promise<string | undefined>>();

  constructor(store: Store, append: Append) {
    this.#store = store;
    this.#append = append;
  }

  /**
   * Merges, or finishes a merge that began earlier.
   * @returns the profile that has everything now; undefined where one of the two was erased
   * @throws ServiceError `unavailable`, also where a large merge goes on for longer than a request waits
   */
  merge(from: string, into: string): Promise<string | undefined> {
    let running = this.#running.get(from);
    if (running === undefined) {
      running = this.#merge(from, into).finally(() => this.#running.delete(from));
      this.#running.set(from, running);
    }
    return withPatience(running, PATIENCE * this.#store.timeoutMs);
  }

  /** Gives what the journal has to an heir that forgot it. @throws ServiceError `unavailable` */
  async giveAgain(from: string, heir: string, nonce: string): Promise<void> {
    await this.#complete(from, heir, nonce);
  }

  async #merge(from: string, into: string): Promise<string | undefined> {
    const { keys } = this.#store;
    // From here on an erasure of the heir is one of this profile, too, however far the merge has got.
    const registered = await this.#store.change(REGISTER, [keys.profile(into), keys.merged(into)], [from]);
    if (registered === ERASED) {
      const tombstone = await this.#store.call((client) => client.hget(keys.profile(from), 'heir'));
      if (tombstone === null || tombstone === ERASED) return undefined;
    } else if (typeof registered === 'string') {
      const heir = await this.#follow(into, registered);
      return heir === undefined ? undefined : this.#merge(from, heir);
    }
    const belongings = [keys.profile(from), keys.room(from), keys.items(from), keys.merged(from)];
    const touched = [...belongings, ...keys.journal(from), keys.merges(bucketOf(from))];
    const nonce = `${Date.now()}.${randomBytes(9).toString('base64url')}`;
    const [heir, theirs] = await this.#store.change(TAKE, touched, [from, into, nonce, KEPT_S]);
    if (heir === ERASED) return undefined;
    return heir.startsWith('!') ? this.#complete(from, heir.slice(1), theirs) : heir;
  }

  /** @returns undefined where one of the two was erased */
  async #complete(from: string, heir: string, nonce: string): Promise<string | undefined> {
    try {
      return await this.#handOver(from, heir, nonce);
    } catch (error) {
      if (error instanceof ErasedError) return undefined;
      throw error;
    }
  }

  async #handOver(from: string, heir: string, nonce: string): Promise<string> {
    const { keys } = this.#store;
    const journal = keys.journal(from);
    const still: Still = { from, nonce };
    const told = [from];
    for (let i = 0; i < BELONGINGS.length; i++) {
      const { kind, page } = BELONGINGS[i] as (typeof BELONGINGS)[number];
      let cursor = '0';
      do {
        const [next, fields] = await this.#store.call((client) =>
          client.hscan(journal[i] as string, cursor, 'COUNT', page),
        );
        cursor = next;
        // Those that were merged into this one before are the heir's now, too.
        if (kind === 'g') told.push(...fields.filter((name, at) => at % 2 === 0 && isProfile(name)));
        // A share code leads to its profile for good: an erasure of the heir has to find it.
        const code = kind === 'p' ? fieldIn('share', fields) : undefined;
        if (code !== undefined) await this.#give(G, still, heir, [`#${code}`, '']);
        await this.#give(i, still, heir, kind === 'p' ? withoutOwn(fields) : fields);
      } while (cursor !== '0');
    }
    const owner = await this.#record(still, heir, told);
    await this.#store.change(DONE, [keys.profile(from), ...journal], [heir, nonce, KEPT_S]);
    const received = keys.received(owner, from);
    void this.#store.call((client) => client.expire(received, KEPT_S)).catch(() => {});
    return owner;
  }

  /** Gives one page, to the heir or to the one that this was merged into meanwhile. */
  async #give(index: number, still: Still, heir: string, page: readonly string[]): Promise<void> {
    const { keys } = this.#store;
    const { from } = still;
    const { kind, keyOf } = BELONGINGS[index] as (typeof BELONGINGS)[number];
    let at = heir;
    let fields = page;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      if (fields.length === 0) return;
      const touched = [keys.profile(at), keyOf(keys, at), keys.received(at, from), keys.merged(at)];
      const reply = await this.#store.change(GIVE, touched, [kind, UNFINISHED_S, from, ...fields]);
      if (reply === 1) return;
      if (reply === ERASED) {
        await this.#revive(still, at);
        continue;
      }
      const [tombstone, ...left] = reply;
      at = await this.#heirOf(at, tombstone);
      fields = left;
    }
    throw new ServiceError('internal');
  }

  async #record(still: Still, heir: string, told: readonly string[]): Promise<string> {
    const { keys } = this.#store;
    const { from, nonce } = still;
    let at = heir;
    for (let hop = 0; hop < MAX_HOPS; hop++) {
      // A try that begins again tells analysts the same again: they see an event's id once.
      // The last heir is the one that stays: told later.
      const time = Number.parseInt(nonce, 10) + hop;
      const lines = told.map((profile) =>
        encodeMerge(eventIdOfName(time, `${nonce} ${profile} ${at}`), time, profile, at),
      );
      await Promise.all(lines.map((line) => this.#append(at, line)));
      const touched = [keys.profile(at), keys.merged(at)];
      const reply = await this.#store.change(RECORD, touched, [from, nonce]);
      if (typeof reply !== 'string') return at;
      if (reply === ERASED) await this.#revive(still, at);
      else at = await this.#heirOf(at, reply);
    }
    throw new ServiceError('internal');
  }

  /**
   * The heir is being erased, or is none (any more). An erasure takes what is being merged into it along, before it takes
   * the heir itself: if that is still as it was, and the heir is gone, then a failover has forgotten the heir.
   * @throws ErasedError
   */
  async #revive({ from, nonce }: Still, heir: string): Promise<void> {
    const { keys } = this.#store;
    const read = (key: string, ...fields: string[]) =>
      this.#store.call((client) => client.hmget(key, ...fields));
    const [theirs] = await read(keys.profile(heir), 'heir');
    const [tombstone, ours] = await read(keys.profile(from), 'heir', 'nonce');
    const [, , profile] = keys.journal(from);
    const [owner] = await read(profile as string, 'owner');
    if (theirs === ERASED || tombstone === ERASED || !tombstone || ours !== nonce || !owner)
      throw new ErasedError();
    await this.#store.change(CLAIM, keysOfRoom(keys, heir), [owner]);
    await this.#store.change(REGISTER, [keys.profile(heir), keys.merged(heir)], [from]);
  }

  async #heirOf(at: string, tombstone: string): Promise<string> {
    const heir = await this.#follow(at, tombstone);
    if (heir === undefined) throw new ErasedError();
    return heir;
  }

  /** The heir was merged away itself. Its own merge comes first: what it received is in its journal. */
  async #follow(at: string, tombstone: string): Promise<string | undefined> {
    if (tombstone === ERASED) return undefined;
    return tombstone.startsWith('!') ? this.merge(at, tombstone.slice(1)) : tombstone;
  }
}

/** A merge under way: the profile that is merged away, and the nonce of its tombstone. */
interface Still {
  readonly from: string;
  readonly nonce: string;
}

/** One of the two profiles of a merge was erased. */
class ErasedError extends Error {}

/** Whether what came to a room is a profile; else it is an identity, a share code, or a digest. */
export function isProfile(came: string): boolean {
  return !/^([csCS]:|[#@])/.test(came);
}

/** @param fields field, value, field, value, … */
function fieldIn(field: string, fields: readonly string[]): string | undefined {
  return fields.find((_, i) => i % 2 === 1 && fields[i - 1] === field);
}

function withoutOwn(fields: readonly string[]): string[] {
  return fields.filter((_, i) => !OWN_FIELDS.has(fields[i - (i % 2)] as string));
}

/** The merge goes on where its caller does not wait for its end. */
function withPatience<T>(running: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ServiceError('unavailable')), ms);
  });
  return Promise.race([running, late]).finally(() => clearTimeout(timer));
}
