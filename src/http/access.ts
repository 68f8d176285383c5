// Who is calling, and what may they do: the contract's "Who may call" as one table.

import { createHash, timingSafeEqual } from 'node:crypto';
import type { VisitAccess } from '../config.js';
import { ServiceError } from '../errors.js';
import type { Identity } from '../identity/rules.js';

export type CallerKind = 'server' | 'anyone';

export interface Caller {
  readonly kind: CallerKind;
  /** Whether its requests may link identities. */
  readonly mayLink: boolean;
}

/** What an operation is about, as far as access goes. */
export type Subject = 'visits' | 'events' | 'operating';

const MAY: Record<CallerKind, ReadonlySet<Subject>> = {
  server: new Set<Subject>(['visits', 'events', 'operating']),
  anyone: new Set<Subject>(['visits', 'operating']),
};

const SERVER: Caller = { kind: 'server', mayLink: true };
const ANYONE: Caller = { kind: 'anyone', mayLink: false };

export interface AccessSettings {
  readonly apiKeys: readonly string[];
  readonly visitAccess: VisitAccess;
}

export class Access {
  // Only digests are kept: a key can't leak from memory, and digests compare in constant time.
  readonly #keyDigests: readonly Buffer[];
  readonly #visitAccess: VisitAccess;

  constructor({ apiKeys, visitAccess }: AccessSettings) {
    this.#keyDigests = apiKeys.map(digest);
    this.#visitAccess = visitAccess;
  }

  /**
   * The caller, if it may do anything with this subject at all.
   * @param authorization the header of that name, empty where absent
   * @param apiKey the X-API-Key header, empty where absent
   * @throws ServiceError `unauthorized` (no credential or a wrong one) or `forbidden`
   */
  identify(subject: Subject, authorization: string, apiKey: string): Caller {
    if (authorization === '' && apiKey === '') {
      const closed = subject === 'visits' && this.#visitAccess === 'key';
      if (closed || !MAY.anyone.has(subject)) throw new ServiceError('unauthorized');
      return ANYONE;
    }
    const key = apiKey || /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
    if (key === undefined || !this.#isKey(key)) throw new ServiceError('unauthorized');
    return SERVER;
  }

  /** @throws ServiceError `unauthorized` where this caller may not name this visitor. */
  checkVisitor(caller: Caller, identity: Identity): void {
    if (caller.kind === 'anyone' && this.#visitAccess === 'session' && identity.customerId !== null) {
      throw new ServiceError('unauthorized', 'A credential is required to name a customer.');
    }
  }

  #isKey(key: string): boolean {
    const presented = digest(key);
    let found = false;
    for (const known of this.#keyDigests) found = timingSafeEqual(known, presented) || found;
    return found;
  }
}

function digest(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
