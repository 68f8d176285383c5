// Executes the erasures of open requests. Every `serve` has a worker; the one with the lease works. A failed request is
// retried with a back-off and doesn't delay others. If a worker pauses for longer than its lease, two may work: at
// worst, a visitor who returns in between is erased twice.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, backoffMs } from '../../backoff.js';
import { findErasures } from '../../flush/erasures.js';
import { EVERY_PROFILE, identityName } from '../../identity-rules.js';
import type { Eraser } from '../../profiles/eraser.js';
import type { Pending } from '../../profiles/pending.js';
import { loadScript } from '../../redis/scripts.js';
import type { Store } from '../../redis/store.js';
import {
  type Compliance,
  type ComplianceRequest,
  isDataRequest,
  isUnconfirmed,
  type OpenRequest,
} from './compliance.js';
import { eraseShop } from './erase-shop.js';
import { complianceKeys } from './keys.js';

const OWN = loadScript('extras/privacy/leaseRequests');
const OWNED_MS = 30_000;
const RENEW_MS = 5_000;
const POLL_MS = 5_000;
/** Milliseconds between runs: each reads all open requests, and thousands of webhooks may arrive in a row. */
const REST_MS = 1_000;
const BACKOFF: Backoff = { firstMs: POLL_MS, longestMs: 10 * 60_000 };

interface Erased {
  readonly open: OpenRequest;
  /** When the erasure ended, in milliseconds since 1970. */
  readonly at: number;
}

class NotOwnerError extends Error {}

const GONE = { customerId: null, email: null, erased: true };

export interface ComplianceWorkerParts {
  readonly store: Store;
  readonly compliance: Compliance;
  readonly eraser: Eraser;
  readonly pending: Pending;
  /** Of extras; see Extra. */
  readonly visitorTags: readonly string[];
  /** Called in each run, with the id of a request that waits for the operator. */
  readonly onUnconfirmed: (id: string) => void;
  readonly onError: (error: Error) => void;
  readonly pollMs?: number | undefined;
}

export class ComplianceWorker {
  readonly #name = randomUUID();
  /** Failed requests by id. `at` is the time of the next try, by `performance.now()`. */
  readonly #failed = new Map<string, { readonly failures: number; readonly at: number }>();
  #renewed = 0;
  readonly #closing = new AbortController();
  #isPoked = false;
  #running: Promise<void> | undefined;

  constructor(private readonly parts: ComplianceWorkerParts) {}

  watch(): () => Promise<void> {
    const timer = setInterval(() => this.poke(), this.parts.pollMs ?? POLL_MS);
    this.poke();
    return async () => {
      clearInterval(timer);
      this.#closing.abort();
      await this.#running;
    };
  }

  poke(): void {
    if (this.#closing.signal.aborted) return;
    this.#isPoked = true;
    this.#running ??= this.#runWhilePoked().finally(() => {
      this.#running = undefined;
    });
  }

  async #runWhilePoked(): Promise<void> {
    const { signal } = this.#closing;
    while (this.#isPoked && !signal.aborted) {
      this.#isPoked = false;
      await this.run().catch((error: Error) => {
        if (!(error instanceof NotOwnerError || signal.aborted)) this.parts.onError(error);
      });
      await sleep(Math.min(REST_MS, this.parts.pollMs ?? POLL_MS), undefined, { signal }).catch(() => {});
    }
  }

  async run(): Promise<void> {
    if (await this.parts.compliance.isEmpty()) return;
    this.#renewed = 0;
    try {
      await this.#own();
      const open = await this.parts.compliance.list();
      const ids = new Set(open.map(({ id }) => id));
      for (const id of this.#failed.keys()) if (!ids.has(id)) this.#failed.delete(id);
      for (const { id, request } of open) if (isUnconfirmed(request)) this.parts.onUnconfirmed(id);
      const erasures = open.filter(({ request }) => !isDataRequest(request) && !isUnconfirmed(request));
      await this.#close(erasures.filter(({ request }) => request.erased));
      const done: Erased[] = [];
      for (const one of erasures) {
        if (one.request.erased) continue;
        await this.#own();
        const now = await this.#alone(one, () => this.#erase(one));
        if (now !== undefined) done.push(now);
      }
      // Data requests are redacted before the erasures are recorded, so that a crash repeats both.
      await this.#redact(done);
      const erased: OpenRequest[] = [];
      for (const { open } of done) {
        const profiles = open.request.profiles ?? [];
        const updated = await this.parts.compliance.update(open, { ...open.request, ...GONE, profiles });
        if (updated !== undefined) erased.push(updated);
      }
      await this.#close(erased);
    } finally {
      await this.#disown();
    }
  }

  /** Does the work of one request, unless its back-off lasts. Reports errors, except NotOwnerError, which it throws. */
  async #alone<T>({ id }: OpenRequest, work: () => Promise<T>): Promise<T | undefined> {
    const { failures = 0, at = 0 } = this.#failed.get(id) ?? {};
    if (performance.now() < at) return undefined;
    try {
      const done = await work();
      this.#failed.delete(id);
      return done;
    } catch (error) {
      if (error instanceof NotOwnerError) throw error;
      const waitMs = backoffMs(failures + 1, {
        ...BACKOFF,
        firstMs: Math.min(this.parts.pollMs ?? POLL_MS, BACKOFF.firstMs),
      });
      this.#failed.set(id, { failures: failures + 1, at: performance.now() + waitMs });
      this.parts.onError(error as Error);
      return undefined;
    }
  }

  async #erase(open: OpenRequest): Promise<Erased | undefined> {
    let now: OpenRequest | undefined = open;
    const profiles = new Set(open.request.profiles);
    const onErasing = async (more: readonly string[]) => {
      await this.#own();
      for (const profileId of more) profiles.add(profileId);
      now &&= await this.parts.compliance.update(now, { ...now.request, profiles: [...profiles] });
    };
    const { kind, customerId, email } = open.request;
    const { store, pending, visitorTags, eraser } = this.parts;
    if (kind === 'shop/redact')
      await onErasing(await eraseShop(store, pending, visitorTags, () => this.#own()));
    else {
      if (customerId !== null) await eraser.erase(identityName('c', customerId), onErasing);
      if (email !== null) await eraser.eraseByEmail(email, onErasing);
    }
    return now && { open: now, at: Date.now() };
  }

  /** Removes the visitors from earlier data requests, which stay open for the merchant. */
  async #redact(done: readonly Erased[]): Promise<void> {
    if (done.length === 0) return;
    const erasedAt = new Map<string, number>();
    for (const { open, at } of done)
      for (const name of open.request.kind === 'shop/redact' ? [EVERY_PROFILE] : namesOf(open.request))
        erasedAt.set(name, at);
    for (const one of await this.parts.compliance.list()) {
      const { erased, at } = one.request;
      if (!isDataRequest(one.request) || erased) continue;
      const names = [EVERY_PROFILE, ...namesOf(one.request)];
      if (!names.some((name) => at <= (erasedAt.get(name) ?? Number.NEGATIVE_INFINITY))) continue;
      await this.#own();
      await this.parts.compliance.update(one, { ...one.request, ...GONE });
    }
  }

  async #close(erased: readonly OpenRequest[]): Promise<void> {
    const profiles = new Set(erased.flatMap(({ request }) => request.profiles ?? []));
    const waiting = await findErasures(this.parts.store, [...profiles]);
    for (const one of erased) {
      if (one.request.profiles?.some((profileId) => waiting.has(profileId))) continue;
      await this.#own();
      await this.#alone(one, () => this.parts.compliance.update(one, undefined));
    }
  }

  /** Takes or renews the lease. @throws NotOwnerError if another process has it or this one is closing */
  async #own(): Promise<void> {
    if (this.#closing.signal.aborted) throw new NotOwnerError();
    if (performance.now() - this.#renewed < RENEW_MS && this.#renewed > 0) return;
    if ((await this.#lease(OWNED_MS)) !== 1) throw new NotOwnerError();
    this.#renewed = performance.now();
  }

  async #disown(): Promise<void> {
    await this.#lease(0).catch(() => {});
  }

  #lease(ms: number) {
    const { store } = this.parts;
    return store.change(OWN, [complianceKeys(store.keys).complianceOwner], [this.#name, ms]);
  }
}

function namesOf({ customerId, email }: ComplianceRequest): string[] {
  return [...(customerId === null ? [] : [`c:${customerId}`]), ...(email === null ? [] : [`@${email}`])];
}
