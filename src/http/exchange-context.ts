// What exchanges share: ExchangeContext for a server, Route for a route.

import type { Logger } from 'pino';
import type { ErrorCode, Overload } from '../errors.js';
import type { Access } from './access.js';
import type { BodyReader } from './body.js';
import type { Head } from './head.js';
import type { KeyUse } from './idempotency.js';
import type { RateLimits } from './limits.js';
import type { LinkedSessions } from './linked-sessions.js';
import type { TickWatch } from './load-shedding.js';
import type { Operation } from './operation.js';
import type { PendingBytes } from './pending-bytes.js';

export interface ExchangeContext {
  readonly access: Access;
  readonly limits: RateLimits;
  readonly linkedSessions: LinkedSessions;
  readonly log: Logger;
  readonly tick: TickWatch;
  readonly bodies: BodyReader;
  readonly pending: PendingBytes;
  readonly closesConnections: boolean;
  openRequests: number;
  readonly onRefusal: (code: ErrorCode, overload?: Overload, sentence?: string) => void;
  onForwarded(): void;
  requestId(head: Head): string;
}

export interface Route {
  readonly operation?: Operation;
  readonly keyUse?: KeyUse;
  /** The operation's headers; if it refuses an Idempotency-Key, also this one. */
  readonly headers?: readonly string[] | undefined;
  readonly hasParameter?: boolean;
  readonly allow?: string;
  readonly isHead?: boolean;
  readonly onAnswer: (status: number, ms: number) => void;
}
