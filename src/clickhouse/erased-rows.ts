// Decides which rows an erasure covers: rows of an erased profile, and rows that name an erased customer or session. Redis
// holds erasures by profile id, identity name (identityName hashes long ids) or EVERY_PROFILE, with a time: a visitor who
// returns may get the same ids and keeps the new rows.
//
// A clock that was ahead leaves rows in the future. An erasure covers them, too: no returning visitor has made them.

import { EVERY_PROFILE, identityName, MAX_CLEAR_ID_BYTES } from '../identity-rules.js';

/** Time of an erasure in milliseconds since 1970, by the clock that stamps the rows. */
export type Until = Readonly<Record<'server' | 'redis', number>>;

/** Profile id, identity name or EVERY_PROFILE -> rows up to that time, and rows in the future, are erased. */
export type ErasedUntil = ReadonlyMap<string, { readonly until: Until }>;

/** Correct clocks differ by less. A row from further ahead was stamped by a wrong clock. */
const AHEAD_MS = 60_000;

/** Rows later than this time, in milliseconds since 1970, are in the future. */
export function futureFrom(): number {
  return Date.now() + AHEAD_MS;
}

/** Columns that name a row's visitor; rows of visits have only the profile. */
export interface OwnedRow {
  readonly profile_id?: unknown;
  readonly customer_id?: unknown;
  readonly session_id?: unknown;
}

/** @param held `<server's time> <Redis's time>`, written by lua/profiles/queueErasures.lua */
export function untilOf(held: string): Until {
  const [server, redis] = held.split(' ').map(Number) as [number, number];
  return { server, redis };
}

/** @param at the row's time by this clock, milliseconds since 1970 */
export function isErasedRow(row: OwnedRow, at: number, clock: keyof Until, erased: ErasedUntil): boolean {
  return erasedUnder(row).some((key) => {
    const until = erased.get(key)?.until[clock];
    return until !== undefined && (at <= until || at > futureFrom());
  });
}

/** Keys of all erasures that may cover a row. */
export function erasedUnder(row: OwnedRow): string[] {
  const keys = [EVERY_PROFILE, String(row.profile_id)];
  if (typeof row.customer_id === 'string') keys.push(identityName('c', row.customer_id));
  if (typeof row.session_id === 'string') keys.push(identityName('s', row.session_id));
  return keys;
}

/** True for an identity name; a profile id has no colon. */
export function isIdentityName(key: string): boolean {
  return key.charAt(1) === ':';
}

/** SQL condition: the row names one of the identities in `namedParams`. */
export const NAMES_IDENTITY = `(${named('customer_id', 'customers')} OR ${named('session_id', 'sessions')})`;

function named(column: string, list: string): string {
  return `${column} IN {${list}: Array(String)} OR length(${column}) > ${MAX_CLEAR_ID_BYTES}
    AND hex(SHA256(assumeNotNull(${column}))) IN {${list}Hashed: Array(String)}`;
}

/** Query parameters of NAMES_IDENTITY, because ClickHouse logs the text of queries. */
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
