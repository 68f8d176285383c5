// GUEST_RETENTION_DAYS: lets guests go that were not seen for so long. A guest is a session that is at home: a session that
// was linked belongs to its customer, who stays. So all that a guest has is in one slot, but for what leads to it: the key of
// its share code, and the index of its e-mail address. These go afterwards; what a process did not get to, the next sweep does.
//
//   fields `.` in `ids` ──settle-guest──▶ a day at the door      doors with a day of long ago ──expire-guest──▶ gone
//   leads ──▶ keys of share codes and addresses removed
//
// In this order: a guest that has a day needs no field, and gets none again (lua/includes/note-seen.lua), except by a change
// on the day that it has. So a guest that goes leaves no field behind.
//
// What is done for a guest notes its day before, or in the same step. So the script that lets it go finds it seen, or
// comes first: nothing that was acknowledged is lost, and two sweeps at once are as one. Its rows in ClickHouse, and those
// on their way, stay.
//
// The day at the door is that of the first deed for which a process met the guest; that process notes no other for a day. So
// it was seen for the last time before the end of the next day at the latest, and goes so many whole days after that.
//
// A sweep looks at every door once, page by page, and rests nine times as long as it works: most of an hour for millions.
// So it waits for a Redis that is away for a moment. One process of all does so, twice a day. A process that ends in the
// middle leaves the rest to the next sweep.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, Redis } from 'ioredis';
import type { Logger } from 'pino';
import { backoffMs, pause } from '../backoff.js';
import { isCustomerName } from '../identity-rules.js';
import { bucketOf, type Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Outbox } from '../wishlist/outbox.js';
import type { ProfileIds } from './profile-id.js';

const EXPIRE = loadScript<string>('expire-guest');
const SETTLE = loadScript('settle-guest');
const PUT = loadScript('put');
const FORGET = loadScript('email-put');

/** Keys of which one call of SCAN looks at, and fields of HSCAN. */
const PAGE = 100;
/** Buckets, or guests that go, at once. */
const AT_ONCE = 32;
/** Rest after a page, as a multiple of its work; milliseconds at least. */
const REST = 9;
const LEAST_REST_MS = 2;
/** More than that is no work of its own, but a Redis or a machine that stands still. */
const MOST_REST_MS = 5_000;
/** Sweeps of a day, and how much more often it is asked whether one is due. */
const SWEEPS = 2;
const ASKED = 6;
/** After a start there is more to do, and after a failure. */
const FIRST_MS = 60_000;
/** How often an outbox is looked at whose events were sent, and milliseconds in between. */
const LOOKS = 20;
const POLL_MS = 50;
/** Milliseconds for which a Redis that is away is waited for. */
const PATIENCE_MS = 60_000;

export interface RetentionOptions {
  /** At least 1. */
  readonly days: number;
  /** Seconds of a day; other than 86,400 in tests. As Seen has it. */
  readonly dayS?: number;
  /** Milliseconds for which a Redis that is away is waited for; less in tests. */
  readonly patienceMs?: number;
}

/** What a sweep did, in guests. */
export interface Swept {
  gone: number;
  /** Without a day until now. */
  noted: number;
  /** Kept, because events in their outboxes are not in the stream yet. */
  waiting: number;
}

export class GuestRetention {
  readonly #store: Store;
  readonly #profileIds: ProfileIds;
  readonly #outbox: Outbox;
  readonly #days: number;
  readonly #dayS: number;
  readonly #patienceMs: number;
  readonly #closing = new AbortController();

  constructor(
    store: Store,
    profileIds: ProfileIds,
    outbox: Outbox,
    { days, dayS = 86_400, patienceMs = PATIENCE_MS }: RetentionOptions,
  ) {
    this.#store = store;
    this.#profileIds = profileIds;
    this.#outbox = outbox;
    this.#days = days;
    this.#dayS = dayS;
    this.#patienceMs = patienceMs;
  }

  /** Sweeps from now on, whenever no other process does. @returns what ends it */
  watch(log: Logger): () => Promise<void> {
    const everyMs = (this.#dayS * 1_000) / SWEEPS;
    const firstMs = Math.min(FIRST_MS, everyMs / ASKED);
    let token = randomUUID();
    /** @returns milliseconds until it looks again */
    const look = async (): Promise<number> => {
      try {
        const isDue = await this.#isDue(token, everyMs);
        token = randomUUID();
        if (!isDue) return everyMs / ASKED;
        const swept = await this.sweep();
        if (swept.gone + swept.noted + swept.waiting > 0)
          log.info(swept, 'guests who were not seen for long');
      } catch (error) {
        if (!this.#closing.signal.aborted)
          log.warn({ err: error }, 'guests who were not seen for long have to wait');
        return firstMs;
      }
      return everyMs / ASKED;
    };
    let looking = Promise.resolve();
    let timer: NodeJS.Timeout;
    const wait = (ms: number) => {
      timer = setTimeout(() => {
        looking = look().then(wait);
      }, ms).unref();
    };
    wait(firstMs);
    return async () => {
      this.#closing.abort();
      await looking;
      clearTimeout(timer);
    };
  }

  /** @throws ServiceError `unavailable`, Redis's errors: the next sweep does the rest */
  async sweep(): Promise<Swept> {
    const swept: Swept = { gone: 0, noted: 0, waiting: 0 };
    await this.#settleAll();
    const { client } = this.#store;
    const nodes = client instanceof Redis ? [client] : (client as Cluster).nodes('master');
    await Promise.all(nodes.map((node) => this.#sweepNode(node, swept)));
    return swept;
  }

  /** A reply may be lost: then the next try under the same token finds that it was given the sweep. */
  async #isDue(token: string, everyMs: number): Promise<boolean> {
    const key = this.#store.keys.sweep;
    const owner = await this.#store.call((client) => client.set(key, token, 'PX', everyMs, 'NX', 'GET'));
    return owner === null || owner === token;
  }

  async #settleAll(): Promise<void> {
    const { buckets } = this.#store.deployment;
    for (let first = 0; first < buckets && !this.#closing.signal.aborted; first += AT_ONCE) {
      const began = performance.now();
      const some = Array.from({ length: Math.min(AT_ONCE, buckets - first) }, (_, i) => first + i);
      await Promise.all(some.map((bucket) => this.#patiently(() => this.#settle(bucket.toString(36)))));
      await this.#rest(began);
    }
  }

  /** Gives a day to the guests of a bucket that are known by their fields alone; ends what an earlier sweep began. */
  async #settle(bucket: string): Promise<void> {
    const { keys } = this.#store;
    const ids = keys.ids(bucket);
    for (const profileId of await this.#store.call((client) => client.hkeys(keys.leads(bucket))))
      await this.#removeLeads(bucket, profileId);
    let cursor = '0';
    do {
      const from = cursor;
      const [next, fields] = await this.#store.call((client) => client.hscan(ids, from, 'COUNT', PAGE));
      cursor = next;
      for (let i = 0; i < fields.length; i += 2) {
        const name = fields[i] as string;
        if (fields[i + 1] !== '.' || isCustomerName(name)) continue;
        await this.#store.change(SETTLE, [ids, keys.door(this.#profileIds.of(name))], [name, this.#dayS]);
      }
    } while (cursor !== '0');
  }

  async #sweepNode(node: Redis, swept: Swept): Promise<void> {
    let cursor = '0';
    do {
      const began = performance.now();
      const from = cursor;
      const { next, due, firstThatStays } = await this.#patiently(() => this.#readPage(node, from));
      cursor = next;
      for (let i = 0; i < due.length; i += AT_ONCE)
        await Promise.all(
          due.slice(i, i + AT_ONCE).map((door) => this.#expire(profileOf(door), firstThatStays, swept)),
        );
      await this.#rest(began);
    } while (cursor !== '0' && !this.#closing.signal.aborted);
  }

  /** Doors of guests who may have to go, or have no day that can be right. */
  async #readPage(node: Redis, cursor: string) {
    const today = await this.#todayOf(node);
    const firstThatStays = today - this.#days - 1;
    const isDoor = doorsOfGuests(this.#store.keys);
    const [next, found] = await node.scan(cursor, 'MATCH', isDoor, 'COUNT', PAGE, 'TYPE', 'hash');
    const reading = node.pipeline();
    for (const door of found) reading.hget(door, '');
    const days = (await reading.exec()) ?? [];
    const due = found.filter((_, i) => {
      const [error, day] = days[i] as [Error | null, string | null];
      // What Redis refuses is this door's alone: it has a marker by now, or its slot has moved.
      if (error !== null && error.name !== 'ReplyError') throw error;
      return error === null && (day === null || Number(day) < firstThatStays || Number(day) > today);
    });
    return { next, due, firstThatStays };
  }

  /** @throws where the clocks differ so much that one of them is wrong: then none goes */
  async #todayOf(node: Redis): Promise<number> {
    const [seconds] = await node.time();
    if (Math.abs(Number(seconds) - Date.now() / 1_000) > Math.max(this.#dayS, 60))
      throw new Error("Redis's clock and this machine's differ by more than a day");
    return Math.floor(Number(seconds) / this.#dayS);
  }

  async #expire(profileId: string, firstThatStays: number, swept: Swept): Promise<void> {
    for (let look = 0; look < LOOKS; look++) {
      const word = await this.#patiently(() => this.#ask(profileId, firstThatStays));
      if (word === 'waits') {
        // Where they can't be sent, they wait on, and so does the guest.
        if (look === 0) await this.#send(profileId);
        await sleep(POLL_MS);
        continue;
      }
      if (word === 'led') await this.#patiently(() => this.#removeLeads(bucketOf(profileId), profileId));
      if (word === 'gone' || word === 'led') swept.gone++;
      if (word === 'noted') swept.noted++;
      return;
    }
    swept.waiting++;
  }

  async #ask(profileId: string, firstThatStays: number): Promise<string> {
    const { keys } = this.#store;
    const touched = [
      keys.door(profileId),
      keys.profile(profileId),
      keys.outbox(profileId),
      keys.room(profileId),
      keys.merged(profileId),
      keys.leads(bucketOf(profileId)),
      keys.items(profileId),
      keys.requests(profileId),
    ];
    return this.#store.change(EXPIRE, touched, [this.#dayS, firstThatStays, profileId]);
  }

  /** Removes the keys in other slots that led to a guest who is gone. */
  async #removeLeads(bucket: string, profileId: string): Promise<void> {
    const { keys } = this.#store;
    const held = await this.#store.call((client) => client.hget(keys.leads(bucket), profileId));
    for (const lead of (held ?? '').split(' ')) {
      const name = lead.slice(1);
      if (lead.startsWith('#')) await this.#store.change(PUT, [keys.share(name)], ['']);
      else if (lead.startsWith('@')) await this.#forgetEmail(name, profileId);
    }
    // (What was held has not changed: another guest goes under this id only after a day.)
    await this.#store.change(FORGET, [keys.leads(bucket)], ['forget', profileId]);
  }

  /** A visitor who came back under the same profile may have given the address again. */
  async #forgetEmail(digest: string, profileId: string): Promise<void> {
    const { keys } = this.#store;
    const index = keys.email(digest);
    const maker = await this.#store.call((client) => client.hget(index, profileId));
    await this.#store.change(FORGET, [index], ['forget', profileId]);
    const isGiven = await this.#store.call((client) => client.hexists(keys.merged(profileId), `@${digest}`));
    if (isGiven === 1) await this.#store.change(FORGET, [index], ['put', profileId, maker ?? '']);
  }

  async #send(profileId: string): Promise<void> {
    const key = this.#store.keys.outbox(profileId);
    const pending = await this.#store.call((client) => client.hvals(key));
    // See lua/wishlist.lua: what stands before an event's line has no line breaks.
    const lines = pending.map((held) => held.slice(held.indexOf('\n', held.indexOf('\n') + 1) + 1));
    await this.#outbox.send(profileId, lines).catch(() => {});
  }

  /** All that is tried here may be done twice. @throws what `act` does, once Redis has been away for long */
  async #patiently<T>(act: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + this.#patienceMs;
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (this.#closing.signal.aborted || performance.now() >= deadline) throw error;
        await pause(backoffMs(failures), this.#closing.signal);
      }
    }
  }

  #rest(began: number): Promise<void> {
    const ms = Math.max(LEAST_REST_MS, (performance.now() - began) * REST);
    return pause(Math.min(ms, MOST_REST_MS), this.#closing.signal);
  }
}

/** The pattern of their keys: profile ids of sessions have an `s` after the bucket. */
function doorsOfGuests(keys: Keys): string {
  return keys.door('*.s*');
}

function profileOf(door: string): string {
  const bucket = door.slice(door.indexOf('{') + 1, door.indexOf('}'));
  return `${bucket}.${door.slice(door.lastIndexOf(':') + 1)}`;
}
