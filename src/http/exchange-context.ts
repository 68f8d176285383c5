// What an exchange is given besides its request: what all of a server share, and what those of one route share.

import type { Logger } from 'pino';
import type { ErrorCode, Overload } from '../errors.js';
import type { Access } from './access.js';
import type { BodyReader } from './body.js';
import type { Head } from './head.js';
import type { RateLimits } from './limits.js';
import type { LinkedSessions } from './linked-sessions.js';
import type { Turn } from './load-shedding.js';
import type { Operation } from './operation.js';
import type { PendingBytes } from './pending-bytes.js';

/** What all exchanges of a server share. */
export interface ExchangeContext {
  readonly access: Access;
  readonly limits: RateLimits;
  readonly linkedSessions: LinkedSessions;
  readonly log: Logger;
  readonly turn: Turn;
  readonly bodies: BodyReader;
  readonly pending: PendingBytes;
  /** Whether each answer closes its connection. */
  readonly closesConnections: boolean;
  /** Requests that were neither answered nor aborted. */
  openRequests: number;
  /** Called with the code of every answer that is an error, and its sentence if that is not the code's. */
  readonly onRefusal: (code: ErrorCode, overload?: Overload, sentence?: string) => void;
  /** Called for each request that a proxy says to forward. */
  onForwarded(): void;
  /** The id of a request: the caller's, where it sent a sane one. */
  requestId(head: Head): string;
}

/** What all requests for one path and method share. */
export interface Route {
  /** Absent for paths and methods that no operation has. */
  readonly operation?: Operation;
  readonly hasParameter?: boolean;
  /** For 405: the methods that the path takes. */
  readonly allow?: string;
  /** Whether its method is HEAD; asked of each request where absent. */
  readonly isHead?: boolean;
  /** Called with the status of every answer, and its milliseconds. */
  readonly onAnswer: (status: number, ms: number) => void;
}
