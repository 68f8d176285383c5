// Idempotency: a request under an Idempotency-Key, or a repeated webhook, is executed once and answered alike for a
// day.
//
//   (nothing) ──begin──▶ in flight {operation's id, locations} ──end──▶ answered
//
// An operation is done at a location (a profile), atomically with an operation record there. If a merge has moved the
// visitor, a retry fences the old location, which reveals whether the operation was done there or prevents it, and
// records the new one.

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuidv7 } from 'uuid';
import { ERRORS, ServiceError } from '../errors.js';
import { loadScript, withFlags } from './scripts.js';
import type { Store } from './store.js';
import { writeKey } from './write.js';

export const REMEMBERED_S = 24 * 60 * 60;

type Found = [
  id: string,
  at: string,
  fingerprint: string,
  customer: string,
  locations: string,
  answer: string | null,
];

const BEGIN = loadScript<1 | Found>('redis/beginRequest');
/** Runs at `maxmemory`, because an erasure frees memory. */
const BEGIN_ERASURE = withFlags(BEGIN, 'allow-oom');
const RELOCATE = loadScript<string>('redis/relocateRequest');
const END = loadScript<string>('redis/endRequest');

const IN_FLIGHT_GRACE_MS = 500;
const POLL_MS = 10;
/** Rounds until a request fails. Each failed round means that a retry has moved the operation. */
const ROUNDS = 16;
/** The operation was not done, and never will be. */
const FENCED = '-';

export interface RequestKey {
  readonly scope: string;
  readonly key: string;
  /** Of the request; '' if it can't differ. */
  readonly fingerprint: string;
  /** Each customer has its own keys within a scope. */
  readonly customer?: string | null;
  readonly isErasure?: boolean;
}

export interface Done {
  readonly location: string;
  readonly record: string;
}

const NOTHING: readonly (Done | undefined)[] = [];

interface RequestRecord {
  readonly key: string;
  readonly rememberedS: number;
}

interface RecordedOperation {
  readonly id: string;
  readonly at: number;
  /** Profiles, separated by spaces, the latest last. */
  readonly locations: string;
}

export class KeyedOperation {
  /** UUID v7. */
  readonly id: string;
  /** Time of the first request, milliseconds since 1970. */
  readonly at: number;
  readonly #store: Store;
  readonly #record: RequestRecord;
  #locations: string;

  constructor(store: Store, record: RequestRecord, { id, at, locations }: RecordedOperation) {
    this.#store = store;
    this.#record = record;
    this.id = id;
    this.at = at;
    this.#locations = locations;
  }

  recordId(part = 0): string {
    return recordIdOf(this.id, this.#locations.split(' ').length, part);
  }

  /**
   * Call before the operation is done there. @returns each part that was done at an earlier location, else undefined
   */
  async arriveAt(location: string, parts = 1): Promise<readonly (Done | undefined)[]> {
    for (;;) {
      const locations = this.#locations === '' ? [] : this.#locations.split(' ');
      const isLast = locations.at(-1) === location;
      const earlier = isLast ? locations.slice(0, -1) : locations;
      const done = earlier.length === 0 ? NOTHING : await this.#doneAt(earlier, parts);
      if (isLast || (earlier.length > 0 && done.every((part) => part !== undefined))) return done;
      await this.#relocate([...locations, location].join(' '));
    }
  }

  /** Call after a FENCED answer. If the fencing try died before it recorded another location, records `location`. */
  async moveOn(location: string): Promise<void> {
    const { client } = this.#store;
    const known = this.#locations;
    this.#locations = (await this.#store.call(() => client.hget(this.#record.key, 'locations'))) ?? '';
    if (this.#locations === known) await this.#relocate(`${known} ${location}`);
  }

  /** Does a part once, wherever it was tried. @param act only answers if `done` is given */
  async doAt<Answer>(
    location: string,
    act: (recordId: string, done: Done | undefined) => Promise<Answer>,
    isFenced: (answer: Answer) => boolean,
    [part, parts] = [0, 1],
  ): Promise<Answer> {
    for (let round = 0; round < ROUNDS; round++) {
      const done = await this.arriveAt(location, parts);
      const answer = await act(this.recordId(part), done[part]);
      if (!isFenced(answer)) return answer;
      await this.moveOn(location);
    }
    throw new ServiceError('unavailable');
  }

  async #doneAt(locations: readonly string[], parts: number): Promise<(Done | undefined)[]> {
    const { keys } = this.#store;
    const done = new Array<Done | undefined>(parts).fill(undefined);
    for (const [i, location] of locations.entries()) {
      const touched = done.map((_, part) => keys.operation(location, recordIdOf(this.id, i + 1, part)));
      const fence = ['SET', FENCED, 'EX', this.#record.rememberedS, 'NX', 'GET'] as const;
      const records = await Promise.all(touched.map((key) => writeKey(this.#store, key, fence)));
      for (const [part, found] of records.entries()) {
        const record = String(found ?? FENCED);
        if (record !== FENCED) done[part] ??= { location, record };
      }
    }
    return done;
  }

  async #relocate(wanted: string): Promise<void> {
    const args = [this.id, this.#locations, wanted];
    const locations = await this.#store.change(RELOCATE, [this.#record.key], args);
    if (locations === '') throw new ServiceError('unavailable'); // expired, or lost by Redis
    this.#locations = locations;
  }
}

function recordIdOf(id: string, location: number, part: number): string {
  return `${id}.${location}.${part}`;
}

export class RequestStore {
  readonly #store: Store;
  readonly #rememberedS: number;
  readonly #graceMs: number;

  /** @param graceMs until an unanswered request counts as interrupted */
  constructor(store: Store, rememberedS = REMEMBERED_S, graceMs = IN_FLIGHT_GRACE_MS) {
    this.#store = store;
    this.#rememberedS = rememberedS;
    this.#graceMs = graceMs;
  }

  /**
   * @param location expected profile, or '' @param act may be called again by a retry
   * @throws ServiceError `idempotency_key_reused`, and errors of `act`
   */
  async run(
    { scope, key, fingerprint, customer, isErasure = false }: RequestKey,
    location: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    const at = Date.now();
    const id = uuidv7({ msecs: at });
    let recordKey = this.#recordKey(scope, key);
    // A digest, because the record may outlive the visitor.
    const owner = customer ? digestOf(`${this.#store.deployment.salt}${customer}`) : '';
    const begin = () =>
      this.#store.change(
        isErasure ? BEGIN_ERASURE : BEGIN,
        [recordKey],
        [this.#rememberedS, id, at, fingerprint, owner, location],
      );
    let reply = await begin();
    if (owner !== '' && reply !== 1 && ![owner, ''].includes(reply[3])) {
      // On a shared device, the previous customer used this key.
      recordKey = this.#recordKey(`${scope}\n${customer}`, key);
      reply = await begin();
    }
    const record = { key: recordKey, rememberedS: this.#rememberedS };
    const graceUntil = performance.now() + this.#graceMs;
    while (reply !== 1) {
      const [foundId, foundAt, foundFingerprint, , locations, answer] = reply;
      // Our own try, whose reply was lost.
      if (foundId === id) break;
      if (foundFingerprint !== fingerprint) throw new ServiceError('idempotency_key_reused');
      if (answer !== null) return answer;
      if (performance.now() >= graceUntil)
        return this.#finish(
          new KeyedOperation(this.#store, record, { id: foundId, at: Number(foundAt), locations }),
          recordKey,
          act,
        );
      await sleep(POLL_MS);
      reply = await begin();
    }
    return this.#finish(
      new KeyedOperation(this.#store, record, { id, at, locations: location }),
      recordKey,
      act,
    );
  }

  async #finish(
    operation: KeyedOperation,
    recordKey: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    const end = (answer: string) => this.#store.change(END, [recordKey], [operation.id, answer]);
    try {
      return await end(await act(operation));
    } catch (error) {
      // A 4xx changes nothing, so the key is unused, unless another try succeeded.
      const isRefused = error instanceof ServiceError && ERRORS[error.code].status < 500;
      const answer = isRefused ? await end('') : '';
      if (answer === '') throw error;
      return answer;
    }
  }

  #recordKey(scope: string, key: string): string {
    return this.#store.keys.request(digestOf(`${scope}\n${key}`));
  }
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url');
}
