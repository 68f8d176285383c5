// Authentication and authorisation: "Who may call" of docs/api.md as tables.

import { hash } from 'node:crypto';
import type { VisitAccess } from '../config.js';
import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { KeyRing } from '../key-ring.js';
import { knownWord } from '../known-words.js';
import { bearerOf, metricsAccess } from '../metrics/exposition.js';
import { type NamedIdentity, trust } from '../validation/requests.js';
import { hasSignature, type SignatureFault, verifyProxySignature } from './proxy-signature.js';

type CallerKind = 'server' | 'storefront' | 'browser' | 'anyone';

export type AccessGroup = GuardedGroup | 'metrics' | 'open';
type GuardedGroup = 'visits' | 'wishlist' | 'public' | 'administration' | 'delivery';

export function isGuarded(group: AccessGroup): group is GuardedGroup {
  return group !== 'open' && group !== 'metrics';
}

export interface Caller {
  readonly kind: CallerKind;
  /** Derived from a server's secret key; the scope of its rate limit and idempotency keys. */
  readonly account: string | null;
  readonly mayLink: boolean;
  readonly customerId: string | null;
}

export interface Credentials {
  readonly authorization: string;
  readonly apiKey: string;
  readonly origin: string;
  readonly referer: string;
  readonly fetchSite: string;
}

const MAY: Record<CallerKind, ReadonlySet<GuardedGroup>> = {
  server: new Set<GuardedGroup>(['visits', 'wishlist', 'administration', 'delivery']),
  storefront: new Set<GuardedGroup>(['visits', 'wishlist']),
  browser: new Set<GuardedGroup>(['visits', 'wishlist']),
  // A webhook's signature is verified later, with the body.
  anyone: new Set<GuardedGroup>(['visits', 'delivery']),
};

const WORDS: readonly [CallerKind, string][] = [
  ['server', 'a secret key'],
  ['storefront', 'an app-proxy signature'],
  ['browser', 'a publishable key'],
];
const needed = (group: GuardedGroup) =>
  WORDS.filter(([kind]) => MAY[kind].has(group))
    .map(([, words]) => words)
    .join(' or ');
const NEEDS: Record<GuardedGroup, string> = {
  visits: needed('visits'),
  wishlist: needed('wishlist'),
  public: '',
  administration: needed('administration'),
  delivery: `${needed('delivery')} or a webhook signature`,
};

const SIGNATURE_FAULTS: Record<Exclude<SignatureFault, 'shop'>, string> = {
  unset: "The proxy signature can't be checked: SHOPIFY_SECRET is not set.",
  wrong: 'The proxy signature is not the one of this query under SHOPIFY_SECRET.',
  stale: 'The proxy signature is right, but its timestamp is more than 90 s from now.',
};

const BROWSER: Caller = { kind: 'browser', account: null, mayLink: false, customerId: null };
const ANYONE: Caller = { kind: 'anyone', account: null, mayLink: false, customerId: null };
const SIGNED_READER: Caller = { kind: 'storefront', account: null, mayLink: false, customerId: null };

export interface AccessSettings {
  readonly apiKeys: readonly string[];
  readonly publishableKeys: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly shopifySecrets: readonly string[];
  readonly shopDomain: string;
  readonly shopUrl: string;
  readonly visitAccess: VisitAccess;
  readonly metricsToken: string;
}

export class Access {
  readonly #secretKeys: KeyRing;
  readonly #servers: readonly Caller[];
  readonly #publishableKeys: KeyRing;
  readonly #allowedOrigins: ReadonlySet<string>;
  readonly #shopifySecrets: readonly string[];
  readonly #shopDomain: string;
  readonly #shopOrigins: readonly string[];
  readonly #visitAccess: VisitAccess;
  readonly #mayReadMetrics: (authorization: string) => boolean;

  constructor(settings: AccessSettings) {
    this.#secretKeys = new KeyRing(settings.apiKeys);
    this.#servers = settings.apiKeys.map((key) => ({
      kind: 'server',
      account: `key ${hash('sha256', key, 'base64url').slice(0, 16)}`,
      mayLink: true,
      customerId: null,
    }));
    this.#publishableKeys = new KeyRing(settings.publishableKeys);
    this.#allowedOrigins = new Set(settings.allowedOrigins);
    this.#shopifySecrets = settings.shopifySecrets;
    this.#shopDomain = settings.shopDomain;
    this.#shopOrigins = [new URL(settings.shopUrl).origin, `https://${settings.shopDomain}`];
    this.#visitAccess = settings.visitAccess;
    this.#mayReadMetrics = metricsAccess(settings.metricsToken);
  }

  get hasOrigins(): boolean {
    return this.#allowedOrigins.size > 0;
  }

  isAllowedOrigin(origin: string): boolean {
    return this.#allowedOrigins.has(origin);
  }

  identify(group: AccessGroup, credentials: Credentials, query: string, isWrite: boolean): Caller {
    // Credentials are ignored, because platforms may add some to probes.
    if (group === 'open') return ANYONE;
    if (group === 'metrics') {
      if (this.#mayReadMetrics(credentials.authorization)) return ANYONE;
      throw new ServiceError('unauthorized');
    }
    if (group === 'public') return this.#reader(query);
    const caller = this.#caller(credentials, query, isWrite);
    if (MAY[caller.kind].has(group)) {
      if (caller.kind !== 'anyone' || group !== 'visits' || this.#visitAccess !== 'key') return caller;
    }
    if (caller.kind === 'anyone')
      throw new ServiceError('unauthorized', `A credential is required: ${NEEDS[group]}.`);
    throw new ServiceError('forbidden', `This credential may not do this: it takes ${NEEDS[group]}.`);
  }

  actFor(caller: Caller, named: NamedIdentity): Identity {
    if (caller.kind === 'server') return trust(named);
    const identity = withKnownDevice(trust(named));
    const { customerId } = identity;
    switch (caller.kind) {
      case 'storefront':
        if (customerId === caller.customerId) return identity;
        if (customerId === null) return { ...identity, customerId: caller.customerId };
        throw new ServiceError(
          'forbidden',
          'A storefront acts for the customer who is logged in; for another it takes a secret key.',
        );
      case 'browser':
        if (customerId === null) return identity;
        throw new ServiceError(
          'forbidden',
          'A publishable key acts for a session; for a customer it takes a secret key or an app-proxy signature.',
        );
      case 'anyone':
        if (customerId === null || this.#visitAccess === 'open') return identity;
        throw new ServiceError(
          'unauthorized',
          'To name a customer takes a secret key or an app-proxy signature.',
        );
    }
  }

  #caller(credentials: Credentials, query: string, isWrite: boolean): Caller {
    const { authorization, apiKey } = credentials;
    if (authorization !== '') {
      const server = this.#server(bearerOf(authorization));
      if (server !== undefined) return server;
      throw new ServiceError('unauthorized');
    }
    if (apiKey !== '') return this.#server(apiKey) ?? this.#browser(apiKey, credentials);
    if (query === '') return ANYONE;
    if (hasSignature(query)) return this.#storefront(credentials, query, isWrite);
    if (query.includes('key=')) {
      const key = new URLSearchParams(query).get('key');
      if (key !== null) return this.#browser(key, credentials);
    }
    return ANYONE;
  }

  /** No credential is needed. A signature only means that the request came through the shop's app proxy. */
  #reader(query: string): Caller {
    if (!hasSignature(query)) return ANYONE;
    const verified = this.#verified(query);
    return typeof verified === 'string' ? ANYONE : SIGNED_READER;
  }

  /** @throws ServiceError `forbidden` if another shop signed the query */
  #verified(query: string): URLSearchParams | Exclude<SignatureFault, 'shop'> {
    const signers = { secrets: this.#shopifySecrets, shopDomain: this.#shopDomain };
    const verified = verifyProxySignature(query, signers, Date.now());
    if (verified === 'shop')
      throw new ServiceError('forbidden', 'Another shop than SHOP_DOMAIN signed this query.');
    return verified;
  }

  #server(key: string): Caller | undefined {
    const index = this.#secretKeys.find(key);
    return index === undefined ? undefined : this.#servers[index];
  }

  #browser(key: string, { origin, referer }: Credentials): Caller {
    if (this.#publishableKeys.find(key) === undefined) {
      const rule = 'This is no secret key, and a publishable key begins with pk_.';
      throw new ServiceError('unauthorized', key.startsWith('pk_') ? undefined : rule);
    }
    if (this.isAllowedOrigin(origin === '' ? originOfReferer(referer) : origin)) return BROWSER;
    throw new ServiceError(
      'forbidden',
      'Publishable keys are for pages of ALLOWED_ORIGINS; from elsewhere it takes a secret key.',
    );
  }

  /**
   * Shopify signs the logged-in customer, whichever page sends the request. Another site's page could link its own
   * session to that customer, so its writes are refused.
   */
  #storefront({ origin, fetchSite }: Credentials, query: string, isWrite: boolean): Caller {
    const parameters = this.#verified(query);
    if (typeof parameters === 'string') throw new ServiceError('unauthorized', SIGNATURE_FAULTS[parameters]);
    const isForeign = origin !== '' && !this.#shopOrigins.includes(origin) && !this.isAllowedOrigin(origin);
    if (isWrite && (isForeign || fetchSite === 'cross-site'))
      throw new ServiceError(
        'forbidden',
        "A storefront's requests come from the shop's own pages; from elsewhere it takes a secret key.",
      );
    return {
      kind: 'storefront',
      account: null,
      mayLink: true,
      customerId: parameters.get('logged_in_customer_id') || null,
    };
  }
}

function withKnownDevice(identity: Identity): Identity {
  if (identity.device === null) return identity;
  const device = knownWord('device', identity.device);
  return device === identity.device ? identity : { ...identity, device };
}

function originOfReferer(referer: string): string {
  return URL.canParse(referer) ? new URL(referer).origin : '';
}

export function withLogin(body: unknown, { customerId }: Caller): unknown {
  if (customerId === null || typeof body !== 'object' || body === null || 'identity' in body) return body;
  // A list stays as it is, because spreading it would make a valid object of it.
  if (Array.isArray(body)) return body;
  return { ...body, identity: { customerId } };
}
