// A server of operations that a test makes, without Redis.

import { pino } from 'pino';
import { Access, type AccessSettings } from '../../src/http/access.js';
import { RateLimits } from '../../src/http/limits.js';
import { LinkedSessions } from '../../src/http/linked-sessions.js';
import type { Operation } from '../../src/http/operation.js';
import { PendingBytes } from '../../src/http/pending-bytes.js';
import { Server } from '../../src/http/server.js';
import { loadUws } from '../../src/http/uws.js';

interface ServerSettings {
  readonly access?: Partial<AccessSettings>;
  /** Whether sessions belong to customers; by default none does. */
  readonly areLinked?: boolean;
  readonly readMs?: number;
}

export async function listen(
  operations: readonly Operation[],
  { access = {}, areLinked = false, ...more }: ServerSettings = {},
): Promise<Server> {
  const { uws } = await loadUws();
  return new Server({
    uws,
    host: '127.0.0.1',
    port: 0,
    basePath: '',
    operations,
    unprefixed: [],
    access: new Access({
      apiKeys: [],
      publishableKeys: [],
      allowedOrigins: [],
      shopifySecrets: [],
      shopUrl: 'http://shop',
      visitAccess: 'session',
      metricsToken: '',
      ...access,
    }),
    limits: new RateLimits({ perCaller: 0, perAnonymousAddress: 0, trustedProxies: 0 }),
    linkedSessions: new LinkedSessions({ belongsToCustomer: async () => areLinked }, 'closed'),
    log: pino({ level: 'silent' }),
    onAnswers: () => () => {},
    onRefusal: () => {},
    pending: new PendingBytes(),
    longestTickMs: 1_000,
    trustedProxies: 0,
    ...more,
  });
}
