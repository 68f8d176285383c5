// Visitors' pages: find, export and erase a visitor by the service's API. Each of the three leaves a line in the log for
// each visitor, with the person's login and the visitor's profile id, and nothing that was typed: it may be an address.

import type { Logger } from 'pino';
import type { ShopLinks } from '../../shop-links.js';
import type { Person } from '../login.js';
import { type IdKind, type Named, NoSuchId, Refusal, type Service } from './service.js';
import { NoExport, VisitorReader } from './visitor.js';

export type VisitorsAnswer =
  | readonly [status: number, body: object]
  /** A download. If iterating throws, it is not whole. */
  | { readonly bytes: AsyncIterable<Uint8Array> };

const KINDS: readonly IdKind[] = ['customerId', 'sessionId', 'email'];
const MAX_TEXT = 512;
const MAX_PROFILES = 1_000;
const READ_MS = 60_000;
/** More look like a script that tries ids. */
const REQUESTS_A_MINUTE = 60;
const MAX_CONCURRENT = 8;
const GONE = 'This id or address leads to other visitors than those shown. Find the visitor again.';
const NOTHING = 'Nothing is kept of a visitor with this id or address.';

interface Wish {
  readonly kinds: readonly IdKind[];
  readonly text: string;
  /** Profile ids that the page shows. */
  readonly profiles: ReadonlySet<string>;
}

export class VisitorsPage {
  readonly #audit: Logger;
  readonly #asked = new Map<string, number>();
  #minute = 0;
  #underWay = 0;

  constructor(
    private readonly service: Service,
    private readonly links: ShopLinks,
    private readonly log: Logger,
  ) {
    // Whatever LOG_LEVEL is.
    this.#audit = log.child({}, { level: 'info' });
  }

  /** @returns the action at this path, if there is one */
  actionAt(method: string | undefined, path: string) {
    if (path === '/visitors.json') return method === 'GET' ? this.#who : undefined;
    if (method !== 'POST') return undefined;
    if (path === '/visitors/find') return this.#find;
    if (path === '/visitors/export') return this.#export;
    return path === '/visitors/erase' ? this.#erase : undefined;
  }

  /** @param signal aborts when the answer was sent or the browser has disconnected */
  async answer(
    action: NonNullable<ReturnType<VisitorsPage['actionAt']>>,
    { name }: Person,
    body: unknown,
    signal: AbortSignal,
  ): Promise<VisitorsAnswer> {
    if (name === undefined)
      return [
        403,
        {
          error:
            "Visitors' pages need a login of your own, from DASHBOARD_LOGINS. This is the shared token's.",
        },
      ];
    if (action === this.#who) return [200, { name }];
    const wish = readWish(body);
    if (wish === undefined) return [400, { error: 'Type a customer id, a session id or an e-mail address.' }];
    if (this.#isTooOften(name, Date.now()))
      return [
        429,
        {
          error: `These are more than ${REQUESTS_A_MINUTE} requests in a minute. Try again in the next one.`,
        },
      ];
    if (this.#underWay === MAX_CONCURRENT)
      return [429, { error: 'Many visitors are being read. Try again in some seconds.' }];
    this.#underWay++;
    signal.addEventListener('abort', () => this.#underWay--, { once: true });
    try {
      return await action.call(this, name, wish, signal);
    } catch (error) {
      return this.#refused(error);
    }
  }

  async #who(): Promise<VisitorsAnswer> {
    return [200, {}];
  }

  async #find(name: string, { kinds, text }: Wish, signal: AbortSignal): Promise<VisitorsAnswer> {
    const reading = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
    let notAnId: NoSuchId | undefined;
    let isAnId = false;
    for (const by of kinds)
      try {
        const visitor = await this.#read(name, { by, text }, reading);
        if (visitor !== undefined) return [200, { by, ...visitor }];
        isAnId = true;
      } catch (error) {
        if (!(error instanceof NoSuchId)) throw error;
        notAnId ??= error;
      }
    this.#audit.info({ login: name, by: kinds }, 'visitor not found');
    if (!isAnId && notAnId !== undefined) throw notAnId;
    return [404, { error: NOTHING }];
  }

  /** Writes a log line for each visitor before it is shown. */
  #read(name: string, named: Named, signal: AbortSignal): Promise<object | undefined> {
    const onProfile = (profileId: string) => this.#audit.info({ login: name, profileId }, 'visitor viewed');
    return this.#readExport(named, signal, onProfile);
  }

  /** @returns undefined if nothing is kept */
  async #readExport(named: Named, signal: AbortSignal, onProfile: (profileId: string) => void) {
    const bytes = await this.service.export(named, signal);
    if (bytes === undefined) return undefined;
    const reader = new VisitorReader(this.links, onProfile);
    for await (const part of bytes) reader.write(part);
    return reader.end();
  }

  async #export(name: string, wish: Wish, signal: AbortSignal): Promise<VisitorsAnswer> {
    const bytes = await this.service.export(foundBy(wish), signal);
    if (bytes === undefined) return [404, { error: NOTHING }];
    const parts = this.#checked(name, bytes, wish.profiles);
    const first = await parts.next();
    return { bytes: first.done ? parts : startingWith(first.value, parts) };
  }

  /** Throws before a part that begins another visitor than those shown. */
  async *#checked(name: string, bytes: AsyncIterable<Uint8Array>, profiles: ReadonlySet<string>) {
    const reader = new VisitorReader(this.links, (profileId) => {
      if (!profiles.has(profileId)) throw new Refusal(409, GONE);
      this.#audit.info({ login: name, profileId }, 'visitor exported');
    });
    for await (const part of bytes) {
      reader.write(part);
      yield part;
    }
    reader.end();
  }

  async #erase(name: string, wish: Wish, signal: AbortSignal): Promise<VisitorsAnswer> {
    const named = foundBy(wish);
    const found = new Set<string>();
    const reading = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
    const visitor = await this.#readExport(named, reading, (profileId) => found.add(profileId));
    if (visitor === undefined) return [404, { error: NOTHING }];
    if (found.size !== wish.profiles.size || [...found].some((one) => !wish.profiles.has(one)))
      throw new Refusal(409, GONE);
    // Before it is done: a crash must not leave an erasure without its line.
    for (const profileId of found) this.#audit.info({ login: name, profileId }, 'visitor erased');
    try {
      // Not aborted with the browser: whether it was done would be unknown.
      return [200, { erased: await this.service.erase(named, AbortSignal.timeout(READ_MS)) }];
    } catch (error) {
      for (const profileId of found)
        this.#audit.warn({ login: name, profileId, err: error }, 'erasure of a visitor not confirmed');
      throw error;
    }
  }

  #isTooOften(name: string, now: number): boolean {
    const minute = Math.floor(now / 60_000);
    if (minute !== this.#minute) this.#asked.clear();
    this.#minute = minute;
    const asked = (this.#asked.get(name) ?? 0) + 1;
    this.#asked.set(name, asked);
    return asked > REQUESTS_A_MINUTE;
  }

  #refused(error: unknown): VisitorsAnswer {
    if (error instanceof Refusal) {
      if (error.status >= 500) this.log.warn({ err: error }, 'the service did not answer a visitors’ page');
      return [error.status, { error: error.message }];
    }
    if (error instanceof NoExport) {
      this.log.warn({ err: error }, 'an export was not read');
      return [
        502,
        { error: 'The answer is no export that this page can show; `wishmeter export` may have it.' },
      ];
    }
    if (error instanceof DOMException && error.name === 'TimeoutError')
      return [504, { error: `The service needs more than ${READ_MS / 1_000} s for this visitor.` }];
    throw error;
  }
}

async function* startingWith(first: Uint8Array, rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  yield* rest;
}

/** @throws Refusal if the kind of the id is not known yet */
function foundBy({ kinds: [by, ...others], text }: Wish): Named {
  if (by === undefined || others.length > 0) throw new Refusal(400, 'Find the visitor first.');
  return { by, text };
}

function readWish(body: unknown): Wish | undefined {
  const {
    by,
    text,
    profiles = [],
  } = { by: undefined, text: undefined, ...(body as object | null) } as {
    by: unknown;
    text: unknown;
    profiles?: unknown;
  };
  if (typeof text !== 'string' || text.length > MAX_TEXT || text.trim() === '') return undefined;
  const isList = Array.isArray(profiles) && profiles.length <= MAX_PROFILES;
  if (!isList || !profiles.every((one) => typeof one === 'string')) return undefined;
  const kinds = by === 'any' ? kindsOf(text) : KINDS.filter((kind) => kind === by);
  return kinds.length === 0 ? undefined : { kinds, text: text.trim(), profiles: new Set(profiles) };
}

/** Most likely first. An id may have an @, too. */
function kindsOf(text: string): readonly IdKind[] {
  return text.includes('@') ? ['email', 'customerId', 'sessionId'] : ['customerId', 'sessionId'];
}
