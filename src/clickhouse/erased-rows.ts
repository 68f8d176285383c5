// Which rows an erasure covers: those of an erased profile, and those that name an erased customer or session. Redis
// holds what was erased under the profile's id, the identity's name (identityName hashes long ids), or EVERY_PROFILE;
// each with a time, because a visitor who comes back gets the same ids and keeps the rows made since.
//
// A clock that was ahead for a moment has left rows in the future. No visitor who came back has made them: they are covered, too.

import { EVERY_PROFILE, identityName, MAX_CLEAR_ID_BYTES } from '../identity-rules.js';

/** Milliseconds since 1970, of the clock that a row's time was taken from. */
export type Until = Readonly<Record<'server' | 'redis', number>>;

/** Profile id, identity name or EVERY_PROFILE -> rows up to then are erased, and those in the future. */
export type ErasedUntil = ReadonlyMap<string, { readonly until: Until }>;

/** Milliseconds by which right clocks may differ. A later row was made while a clock was ahead. */
const AHEAD_MS = 60_000;

/** From when on rows lie in the future, milliseconds since 1970. */
export function futureFrom(): number {
  return Date.now() + AHEAD_MS;
}

/** The columns that an erasure is compared with; `visits` has the profile only. */
export interface OwnedRow {
  readonly profile_id?: unknown;
  readonly customer_id?: unknown;
  readonly session_id?: unknown;
}

/** @param held an erasure as lua/erasures.lua writes it */
export function untilOf(held: string): Until {
  const [server, redis] = held.split(' ').map(Number) as [number, number];
  return { server, redis };
}

/** @param at the row's time, milliseconds since 1970, of this clock */
export function isErasedRow(row: OwnedRow, at: number, clock: keyof Until, erased: ErasedUntil): boolean {
  return erasedUnder(row).some((key) => {
    const until = erased.get(key)?.until[clock];
    return until !== undefined && (at <= until || at > futureFrom());
  });
}

/** Under what an erasure may be held that covers a row. */
export function erasedUnder(row: OwnedRow): string[] {
  const keys = [EVERY_PROFILE, String(row.profile_id)];
  if (typeof row.customer_id === 'string') keys.push(identityName('c', row.customer_id));
  if (typeof row.session_id === 'string') keys.push(identityName('s', row.session_id));
  return keys;
}

/** Whether a key of an erasure is an identity's name. A profile id has no colon. */
export function isIdentityName(key: string): boolean {
  return key.charAt(1) === ':';
}

/** Rows with one of the names in `namedParams`, as ClickHouse's condition. */
export const NAMES_IDENTITY = `(${named('customer_id', 'customers')} OR ${named('session_id', 'sessions')})`;

function named(column: string, list: string): string {
  return `${column} IN {${list}: Array(String)} OR length(${column}) > ${MAX_CLEAR_ID_BYTES}
    AND hex(SHA256(assumeNotNull(${column}))) IN {${list}Hashed: Array(String)}`;
}

/** Parameters of NAMES_IDENTITY. Their values stay out of the query's text, which ClickHouse logs. */
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
