// Decides which rows an erasure covers: only rows up to its time, because a returning visitor may get the same ids. A
// row in the future comes from a wrong clock, so it is erased, too.

import { EVERY_PROFILE, identityName, MAX_CLEAR_ID_BYTES } from '../identity-rules.js';

/** Milliseconds since 1970, by the clock that stamps the rows. */
export type Until = Readonly<Record<'server' | 'redis', number>>;

/** Queued erasures as Redis has them: a profile id, an identity's name or EVERY_PROFILE -> see `untilOf`. */
export type Erasures = ReadonlyMap<string, string>;

/** Correct clocks differ by less than this. */
const AHEAD_MS = 60_000;

export function futureFrom(): number {
  return Date.now() + AHEAD_MS;
}

export interface OwnedRow {
  readonly profile_id?: unknown;
  readonly customer_id?: unknown;
  readonly session_id?: unknown;
}

/** @param erasure `<server's time> <Redis's time>` */
export function untilOf(erasure: string): Until {
  const [server, redis] = erasure.split(' ').map(Number) as [number, number];
  return { server, redis };
}

export function isErasedRow(row: OwnedRow, at: number, clock: keyof Until, erasures: Erasures): boolean {
  return erasedUnder(row).some((key) => {
    const erasure = erasures.get(key);
    return erasure !== undefined && (at <= untilOf(erasure)[clock] || at > futureFrom());
  });
}

export function erasedUnder(row: OwnedRow): string[] {
  const keys = [EVERY_PROFILE, String(row.profile_id)];
  if (typeof row.customer_id === 'string') keys.push(identityName('c', row.customer_id));
  if (typeof row.session_id === 'string') keys.push(identityName('s', row.session_id));
  return keys;
}

/** A profile id has no colon. */
export function isIdentityName(key: string): boolean {
  return key.charAt(1) === ':';
}

export const NAMES_IDENTITY = `(${named('customer_id', 'customers')} OR ${named('session_id', 'sessions')})`;

function named(column: string, list: string): string {
  return `${column} IN {${list}: Array(String)} OR length(${column}) > ${MAX_CLEAR_ID_BYTES}
    AND hex(SHA256(assumeNotNull(${column}))) IN {${list}Hashed: Array(String)}`;
}

/** Names are parameters of queries, because ClickHouse logs the text of queries. */
export function namedParams(names: readonly string[]): Record<string, string[]> {
  const idsOf = (prefix: string) =>
    names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(2));
  const hashesOf = (prefix: string) =>
    idsOf(prefix).map((digest) => Buffer.from(digest, 'base64url').toString('hex').toUpperCase());
  return {
    customers: idsOf('c:'),
    sessions: idsOf('s:'),
    customersHashed: hashesOf('C:'),
    sessionsHashed: hashesOf('S:'),
  };
}
