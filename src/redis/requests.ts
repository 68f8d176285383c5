// Idempotency: a request under an Idempotency-Key, or a repeated webhook, is executed once and answered alike for a
// day.
//
//   (nothing) ──begin──▶ in flight {operation's id, locations} ──end──▶ answered
//
// An operation is done at a location (a profile), atomically with an operation record there. If a merge has moved the
// visitor, a retry fences the old location: it learns whether the operation was done there, or prevents it. Then it
// records the new location.

import { hash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ERRORS, ServiceError } from '../errors.js';
import { LUA } from './lua-codes.js';
import {
  type Answered,
  answeredText,
  type InFlight,
  inFlightText,
  isAnswered,
  parseRecord,
} from './request-record.js';
import { loadScript } from './scripts.js';
import type { Store } from './store.js';
import { writeAtMaxmemory, writeKey } from './write.js';

export const REMEMBERED_S = 24 * 60 * 60;

const CHANGE = loadScript<string>('redis/changeRecord');

const IN_FLIGHT_GRACE_MS = 500;
const POLL_MS = 10;
/** Rounds until a request fails. Each failed round means that a retry has moved the operation. */
const ROUNDS = 16;
/** Base64url digits: 132 bits of a key, 36 of its customer. */
const KEY_DIGITS = 22;
const CUSTOMER_DIGITS = 6;
const { FENCED } = LUA;

export interface RequestKey {
  readonly scope: string;
  readonly key: string;
  /** A digest of the request; '' if requests under this key can't differ. */
  readonly fingerprint: string;
  /** Each customer has its own keys within a scope. */
  readonly customer?: string | null;
  readonly isErasure?: boolean;
}

export interface Done {
  readonly location: string;
  readonly record: string;
}

export class KeyedOperation {
  #record: InFlight;

  constructor(
    private readonly store: Store,
    private readonly recordKey: string,
    record: InFlight,
  ) {
    this.#record = record;
  }

  get id(): string {
    return this.#record.id;
  }

  /** Time of the first request, milliseconds since 1970. */
  get at(): number {
    return this.#record.at;
  }

  get #locations(): string {
    return this.#record.locations;
  }

  /**
   * Does the operation once, even if its location changes. @param act changes nothing if `done` is given; may answer
   * FENCED
   */
  async doAt<Answer>(
    location: string,
    act: (recordId: string, done: Done | undefined) => Promise<Answer>,
  ): Promise<Answer> {
    for (let round = 0; round < ROUNDS; round++) {
      const done = await this.#arriveAt(location);
      const answer = await act(this.#recordId(this.#locations.split(' ').length), done);
      if (answer !== FENCED) return answer;
      // If the fencing try died before it recorded another location, this one is recorded.
      const before = this.#locations;
      this.#read((await this.store.call((client) => client.get(this.recordKey))) ?? '');
      if (this.#locations === before) await this.#relocate(`${before} ${location}`);
    }
    throw new ServiceError('unavailable');
  }

  async #arriveAt(location: string): Promise<Done | undefined> {
    for (;;) {
      const locations = this.#locations === '' ? [] : this.#locations.split(' ');
      const isLast = locations.at(-1) === location;
      const done = await this.#doneAt(isLast ? locations.slice(0, -1) : locations);
      if (isLast || done !== undefined) return done;
      await this.#relocate([...locations, location].join(' '));
    }
  }

  /** Fences the locations at which the operation was not done. */
  async #doneAt(locations: readonly string[]): Promise<Done | undefined> {
    const fence = ['SET', FENCED, 'EX', REMEMBERED_S, 'NX', 'GET'] as const;
    let done: Done | undefined;
    for (const [i, location] of locations.entries()) {
      const key = this.store.keys.operation(location, this.#recordId(i + 1));
      const record = String((await writeKey(this.store, key, fence)) ?? FENCED);
      if (record !== FENCED) done ??= { location, record };
    }
    return done;
  }

  #recordId(location: number): string {
    return `${this.id}.${location}`;
  }

  async #relocate(locations: string): Promise<void> {
    const args = [inFlightText(this.#record), inFlightText({ ...this.#record, locations })];
    this.#read(await this.store.change(CHANGE, [this.recordKey], args));
  }

  /** @throws OtherTryAnswered; ServiceError `unavailable` if the record has expired, or was lost by Redis */
  #read(text: string): void {
    const record = text === '' ? undefined : parseRecord(text);
    if (record !== undefined && isAnswered(record)) throw new OtherTryAnswered(record.answer);
    if (record?.id !== this.id) throw new ServiceError('unavailable');
    this.#record = record;
  }
}

class OtherTryAnswered extends Error {
  constructor(readonly answer: string) {
    super('another try has answered');
  }
}

export class RequestStore {
  /** @param graceMs until an unanswered request counts as interrupted */
  constructor(
    private readonly store: Store,
    private readonly graceMs = IN_FLIGHT_GRACE_MS,
  ) {}

  /**
   * @param location expected profile, or '' @param act may be called again by a retry
   * @throws ServiceError `idempotency_key_reused`, and errors of `act`
   */
  async run(
    { scope, key, fingerprint, customer, isErasure = false }: RequestKey,
    location: string,
    act: (operation: KeyedOperation) => Promise<string>,
  ): Promise<string> {
    // A digest, because the record may outlive the visitor.
    const owner = customer ? digestOf(`${this.store.deployment.salt}${customer}`, CUSTOMER_DIGITS) : '';
    const own: InFlight = {
      id: randomUUID(),
      at: Date.now(),
      fingerprint,
      customer: owner,
      locations: location,
    };
    let recordKey = this.#recordKey(scope, key);
    const begin = () => this.#begin(recordKey, own, isErasure);
    let found = await begin();
    if (owner !== '' && ![owner, ''].includes(found.customer)) {
      // On a shared device, the previous customer used this key.
      recordKey = this.#recordKey(`${scope}\n${customer}`, key);
      found = await begin();
    }
    const graceUntil = performance.now() + this.graceMs;
    for (;;) {
      if (!isAnswered(found) && found.id === own.id) break;
      if (found.fingerprint !== fingerprint) throw new ServiceError('idempotency_key_reused');
      if (isAnswered(found)) return found.answer;
      if (performance.now() >= graceUntil) break;
      await sleep(POLL_MS);
      found = await begin();
    }
    const operation = found;
    /** @returns the first answer; '' if there is none */
    const end = async (answer: string): Promise<string> => {
      const ended = answer && answeredText({ fingerprint, customer: operation.customer, answer });
      const text = await this.store.change(CHANGE, [recordKey], [`${operation.id} `, ended]);
      const record = text === '' ? undefined : parseRecord(text);
      return record !== undefined && isAnswered(record) ? record.answer : answer;
    };
    try {
      return await end(await act(new KeyedOperation(this.store, recordKey, operation)));
    } catch (error) {
      if (error instanceof OtherTryAnswered) return error.answer;
      // A 4xx changes nothing, so the key is unused, unless another try succeeded.
      const isRefused = error instanceof ServiceError && ERRORS[error.code].status < 500;
      const answer = isRefused ? await end('') : '';
      if (answer === '') throw error;
      return answer;
    }
  }

  /** @returns the record of this key, which may be `own` */
  async #begin(recordKey: string, own: InFlight, isErasure: boolean): Promise<InFlight | Answered> {
    const set = ['SET', inFlightText(own), 'EX', REMEMBERED_S, 'NX', 'GET'] as const;
    // An erasure frees memory.
    const before = await (isErasure ? writeAtMaxmemory : writeKey)(this.store, recordKey, set);
    return before === null ? own : parseRecord(String(before));
  }

  #recordKey(scope: string, key: string): string {
    return this.store.keys.request(digestOf(`${scope}\n${key}`, KEY_DIGITS));
  }
}

function digestOf(text: string, digits: number): string {
  return hash('sha256', text, 'base64url').slice(0, digits);
}
