// Who is calling, and what may they do: the contract's "Who may call" as tables.

import type { VisitAccess } from '../config.js';
import { ServiceError } from '../errors.js';
import { type Identity, normaliseId } from '../identity/rules.js';
import { KeyRing } from './key-ring.js';
import { bearerOf, MetricsAccess } from './metrics-access.js';
import { verifyProxySignature } from './proxy-signature.js';

export type CallerKind = 'server' | 'storefront' | 'browser' | 'anyone';

/** What an operation is about, as far as access goes. */
export type Subject = GuardedSubject | 'metrics' | 'open';
type GuardedSubject = 'visits' | 'wishlist' | 'administration' | 'delivery';

/** Open operations are for everyone, however often; metrics have a token of their own. */
export function isGuarded(subject: Subject): subject is GuardedSubject {
  return subject !== 'open' && subject !== 'metrics';
}

export interface Caller {
  readonly kind: CallerKind;
  /** server: whose requests are counted together for RATE_LIMIT; null: those of its address are */
  readonly account: string | null;
  /** Whether its requests say truly which session belongs to which customer, so that they may link them. */
  readonly mayLink: boolean;
  /** storefront: the customer that Shopify says is logged in, or null for none */
  readonly customerId: string | null;
}

/** Everything of a request that access depends on; headers are empty where absent. */
export interface Credentials {
  readonly authorization: string;
  readonly apiKey: string;
  readonly origin: string;
  /** Undecoded, without the question mark. */
  readonly query: string;
}

const MAY: Record<CallerKind, ReadonlySet<GuardedSubject>> = {
  server: new Set<GuardedSubject>(['visits', 'wishlist', 'administration', 'delivery']),
  storefront: new Set<GuardedSubject>(['visits', 'wishlist']),
  browser: new Set<GuardedSubject>(['visits']),
  // A delivery's credential is its signature, which only the whole body can prove.
  anyone: new Set<GuardedSubject>(['visits', 'delivery']),
};

const BROWSER: Caller = { kind: 'browser', account: null, mayLink: false, customerId: null };
const ANYONE: Caller = { kind: 'anyone', account: null, mayLink: false, customerId: null };

export interface AccessSettings {
  readonly apiKeys: readonly string[];
  readonly publishableKeys: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly shopifySecret: string;
  readonly visitAccess: VisitAccess;
  readonly metricsToken: string;
}

export class Access {
  readonly #secretKeys: KeyRing;
  /** The caller that each secret key stands for. */
  readonly #servers: readonly Caller[];
  readonly #publishableKeys: KeyRing;
  readonly #allowedOrigins: ReadonlySet<string>;
  readonly #shopifySecret: string;
  readonly #visitAccess: VisitAccess;
  readonly #metrics: MetricsAccess;

  constructor(settings: AccessSettings) {
    this.#secretKeys = new KeyRing(settings.apiKeys);
    this.#servers = settings.apiKeys.map((_, i) => ({
      kind: 'server',
      account: `key ${i}`,
      mayLink: true,
      customerId: null,
    }));
    this.#publishableKeys = new KeyRing(settings.publishableKeys);
    this.#allowedOrigins = new Set(settings.allowedOrigins);
    this.#shopifySecret = settings.shopifySecret;
    this.#visitAccess = settings.visitAccess;
    this.#metrics = new MetricsAccess(settings.metricsToken);
  }

  /** Whether any page of another origin may read answers; where not, nobody need ask for the Origin header. */
  get hasOrigins(): boolean {
    return this.#allowedOrigins.size > 0;
  }

  isAllowedOrigin(origin: string): boolean {
    return this.#allowedOrigins.has(origin);
  }

  /**
   * The caller, if it may do anything with this subject at all.
   * @throws ServiceError `unauthorized` (no credential or a wrong one) or `forbidden`
   */
  identify(subject: Subject, credentials: Credentials): Caller {
    // Probes bring what their platform gives them; that it opens nothing else is no reason to refuse them.
    if (subject === 'open') return ANYONE;
    if (subject === 'metrics') {
      if (this.#metrics.allows(credentials.authorization)) return ANYONE;
      throw new ServiceError('unauthorized');
    }
    const caller = this.#caller(credentials);
    if (MAY[caller.kind].has(subject)) {
      if (caller.kind !== 'anyone' || subject !== 'visits' || this.#visitAccess !== 'key') return caller;
    }
    throw new ServiceError(caller.kind === 'anyone' ? 'unauthorized' : 'forbidden');
  }

  /**
   * The identity that this caller acts for.
   * @throws ServiceError `unauthorized` or `forbidden` where it may not name this visitor
   */
  actFor(caller: Caller, identity: Identity): Identity {
    const { customerId } = identity;
    switch (caller.kind) {
      case 'server':
        return identity;
      case 'storefront':
        if (customerId === caller.customerId) return identity;
        if (customerId === null) return { ...identity, customerId: caller.customerId };
        throw new ServiceError(
          'forbidden',
          'A storefront acts for the customer who is logged in, and no other.',
        );
      case 'browser':
        if (customerId === null) return identity;
        throw new ServiceError('forbidden', 'A publishable key acts for a session, not for a customer.');
      case 'anyone':
        if (customerId === null || this.#visitAccess === 'open') return identity;
        throw new ServiceError('unauthorized', 'A credential is required to name a customer.');
    }
  }

  #caller({ authorization, apiKey, origin, query }: Credentials): Caller {
    if (authorization !== '') {
      const server = this.#server(bearerOf(authorization));
      if (server !== undefined) return server;
      throw new ServiceError('unauthorized');
    }
    if (apiKey !== '') return this.#server(apiKey) ?? this.#browser(apiKey, origin);
    // Most requests end here; a query that can't hold a credential is not taken apart.
    if (query === '') return ANYONE;
    if (query.includes('signature=')) return this.#storefront(query);
    if (query.includes('key=')) {
      const key = new URLSearchParams(query).get('key');
      if (key !== null) return this.#browser(key, origin);
    }
    return ANYONE;
  }

  #server(key: string): Caller | undefined {
    const index = this.#secretKeys.find(key);
    return index === undefined ? undefined : this.#servers[index];
  }

  #browser(key: string, origin: string): Caller {
    if (this.#publishableKeys.find(key) === undefined) throw new ServiceError('unauthorized');
    if (this.isAllowedOrigin(origin)) return BROWSER;
    throw new ServiceError('forbidden', 'Publishable keys are for pages of the allowed origins.');
  }

  #storefront(query: string): Caller {
    const parameters = verifyProxySignature(query, this.#shopifySecret, Date.now());
    if (parameters === undefined) throw new ServiceError('unauthorized', 'The proxy signature is not valid.');
    const customerId = normaliseId(parameters.get('logged_in_customer_id') ?? '');
    return {
      kind: 'storefront',
      account: null,
      mayLink: true,
      customerId: customerId === '' ? null : customerId,
    };
  }
}
