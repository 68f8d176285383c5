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
export const FENCED = '-';

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

interface RecordedOperation {
  readonly id: string;
  readonly at: number;
  /** Profiles, separated by spaces, the latest last. */
  readonly locations: string;
}

export class KeyedOperation {
  /** Random. */
  readonly id: string;
  /** Time of the first request, milliseconds since 1970. */
  readonly at: number;
  #locations: string;

  constructor(
    private readonly store: Store,
    private readonly recordKey: string,
    { id, at, locations }: RecordedOperation,
  ) {
    this.id = id;
    this.at = at;
    this.#locations = locations;
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
      const record = this.recordKey;
      this.#locations = (await this.store.call((client) => client.hget(record, 'locations'))) ?? '';
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

  async #relocate(wanted: string): Promise<void> {
    const args = [this.id, this.#locations, wanted];
    const locations = await this.store.change(RELOCATE, [this.recordKey], args);
    if (locations === '') throw new ServiceError('unavailable'); // expired, or lost by Redis
    this.#locations = locations;
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
    const at = Date.now();
    const id: string = randomUUID();
    let recordKey = this.#recordKey(scope, key);
    // A digest, because the record may outlive the visitor.
    const owner = customer ? digestOf(`${this.store.deployment.salt}${customer}`) : '';
    const begin = () =>
      this.store.change(
        isErasure ? BEGIN_ERASURE : BEGIN,
        [recordKey],
        [REMEMBERED_S, id, at, fingerprint, owner, location],
      );
    let reply = await begin();
    if (owner !== '' && reply !== 1 && ![owner, ''].includes(reply[3])) {
      // On a shared device, the previous customer used this key.
      recordKey = this.#recordKey(`${scope}\n${customer}`, key);
      reply = await begin();
    }
    let operation = { id, at, locations: location };
    const graceUntil = performance.now() + this.graceMs;
    while (reply !== 1) {
      const [foundId, foundAt, foundFingerprint, , locations, answer] = reply;
      // Our own try, whose reply was lost.
      if (foundId === id) break;
      if (foundFingerprint !== fingerprint) throw new ServiceError('idempotency_key_reused');
      if (answer !== null) return answer;
      if (performance.now() >= graceUntil) {
        operation = { id: foundId, at: Number(foundAt), locations };
        break;
      }
      await sleep(POLL_MS);
      reply = await begin();
    }
    const end = (answer: string) => this.store.change(END, [recordKey], [operation.id, answer]);
    try {
      return await end(await act(new KeyedOperation(this.store, recordKey, operation)));
    } catch (error) {
      // A 4xx changes nothing, so the key is unused, unless another try succeeded.
      const isRefused = error instanceof ServiceError && ERRORS[error.code].status < 500;
      const answer = isRefused ? await end('') : '';
      if (answer === '') throw error;
      return answer;
    }
  }

  #recordKey(scope: string, key: string): string {
    return this.store.keys.request(digestOf(`${scope}\n${key}`));
  }
}

function digestOf(text: string): string {
  return hash('sha256', text, 'base64url');
}
