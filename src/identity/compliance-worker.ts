// Does what open requests ask to be erased. Every `serve` has a worker, and one of them at a time works: it owns the
// requests for some seconds, and says so again before each step. What fails is tried again; what a process left half
// done is done by the next. A request stays open until ClickHouse has no row of it either; the flusher erases those.
//
// Should an owner be paused for longer than it owns them, two may erase the same visitor. Then one who comes back in
// that moment may be erased twice; nothing else can happen.

import { randomUUID } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { identityName } from '../identity-rules.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import type { Compliance, ComplianceRequest, OpenRequest } from './compliance.js';
import type { Eraser } from './eraser.js';
import type { ShopEraser } from './shop-eraser.js';

const OWN = loadScript('compliance-own');
/** Milliseconds for which requests are owned, and after which the owner says so again. */
const OWNED_MS = 30_000;
const RENEW_MS = 5_000;
/** Milliseconds between looks. */
const LOOK_MS = 5_000;

/** Another process works at the requests. */
class NotOwnerError extends Error {}

export class ComplianceWorker {
  readonly #store: Store;
  readonly #compliance: Compliance;
  readonly #eraser: Eraser;
  readonly #shopEraser: ShopEraser;
  readonly #name = randomUUID();
  readonly #onError: (error: Error) => void;
  #renewed = 0;
  #isClosed = false;
  #running: Promise<void> | undefined;

  /** @param onError told why requests could not be done, and will be tried again */
  constructor(
    store: Store,
    compliance: Compliance,
    eraser: Eraser,
    shopEraser: ShopEraser,
    onError: (error: Error) => void,
  ) {
    this.#store = store;
    this.#compliance = compliance;
    this.#eraser = eraser;
    this.#shopEraser = shopEraser;
    this.#onError = onError;
  }

  /** Works now and every few seconds. @returns what ends it, once the step that is under way is done */
  watch(): () => Promise<void> {
    const timer = setInterval(() => this.poke(), LOOK_MS);
    this.poke();
    return async () => {
      this.#isClosed = true;
      clearInterval(timer);
      await this.#running;
    };
  }

  /** There may be something to do. */
  poke(): void {
    if (this.#isClosed) return;
    this.#running ??= this.run()
      .catch((error: Error) => {
        // That Redis is away is told elsewhere.
        const isTold = error instanceof NotOwnerError || error instanceof ServiceError;
        if (!isTold && !this.#isClosed) this.#onError(error);
      })
      .finally(() => {
        this.#running = undefined;
      });
  }

  /** Does what can be done now. @throws ServiceError `unavailable`: to be run again */
  async run(): Promise<void> {
    const isTodo = async () => (await this.#compliance.list()).filter(({ request }) => isErasure(request));
    if ((await isTodo()).length === 0) return;
    this.#renewed = 0;
    try {
      await this.#own();
      for (const open of await isTodo()) {
        await this.#own();
        const erased = open.request.erased ? open : await this.#erase(open);
        if (erased !== undefined && !(await this.#isWaiting(erased.request)))
          await this.#compliance.settle(erased, undefined);
      }
    } finally {
      await this.#disown();
    }
  }

  async #erase(open: OpenRequest): Promise<OpenRequest | undefined> {
    let now: OpenRequest | undefined = open;
    const profiles = new Set(open.request.profiles);
    const onErasing = async (more: readonly string[]) => {
      await this.#own();
      for (const profileId of more) profiles.add(profileId);
      now &&= await this.#compliance.settle(now, { ...now.request, profiles: [...profiles] });
    };
    const { kind, customerId, email } = open.request;
    if (kind === 'shop/redact') await onErasing(await this.#shopEraser.erase(() => this.#own()));
    else {
      if (customerId !== null) await this.#eraser.erase(identityName('c', customerId), onErasing);
      if (email !== null) await this.#eraser.eraseByEmail(email, onErasing);
    }
    await this.#forgetInOthers(open.request);
    // The visitor's id goes from the request, too, while it waits for ClickHouse.
    const erased = { customerId: null, email: null, profiles: [...profiles], erased: true };
    return now && (await this.#compliance.settle(now, { ...now.request, ...erased }));
  }

  /** Data requests of who was erased stay for the merchant, without the visitor. */
  async #forgetInOthers({ kind, customerId, email }: ComplianceRequest): Promise<void> {
    for (const other of await this.#compliance.list()) {
      const { request } = other;
      const isSame =
        kind === 'shop/redact' ||
        (customerId !== null && request.customerId === customerId) ||
        (email !== null && request.email === email);
      if (request.kind === 'customers/data_request' && isSame && !request.erased)
        await this.#compliance.settle(other, { ...request, customerId: null, email: null, erased: true });
    }
  }

  /** Whether rows of its profiles are still to be erased from streams or ClickHouse. */
  async #isWaiting({ profiles = [] }: ComplianceRequest): Promise<boolean> {
    if (profiles.length === 0) return false;
    const { erasures } = this.#store.keys;
    const held = await this.#store.call((client) => client.hmget(erasures, ...profiles));
    return held.some((one) => one !== null);
  }

  /** @throws NotOwnerError */
  async #own(): Promise<void> {
    if (this.#isClosed) throw new NotOwnerError();
    if (performance.now() - this.#renewed < RENEW_MS && this.#renewed > 0) return;
    const args = [this.#name, OWNED_MS];
    if ((await this.#store.change(OWN, [this.#store.keys.complianceOwner], args)) !== 1)
      throw new NotOwnerError();
    this.#renewed = performance.now();
  }

  async #disown(): Promise<void> {
    await this.#store.change(OWN, [this.#store.keys.complianceOwner], [this.#name, 0]).catch(() => {});
  }
}

function isErasure({ kind }: ComplianceRequest): boolean {
  return kind !== 'customers/data_request';
}
