// Decides which rows an erasure covers: only rows up to its time, because a returning visitor may get the same ids. A
// row in the future comes from a wrong clock, so it is erased, too.

import { EVERY_PROFILE, identityName, MAX_CLEAR_ID_BYTES } from '../identity-rules.js';

/** Milliseconds since 1970, by the clock that stamps the rows. */
export type Until = Readonly<Record<'server' | 'redis', number>>;

/** Queued erasures as Redis has them: a profile id, a customer's name or EVERY_PROFILE -> see `untilOf`. */
export type Erasures = ReadonlyMap<string, string>;

/** Correct clocks differ by less than this. */
const AHEAD_MS = 60_000;

export function futureFrom(): number {
  return Date.now() + AHEAD_MS;
}

export interface OwnedRow {
  readonly profile_id?: unknown;
  readonly customer_id?: unknown;
  readonly origin?: unknown;
  readonly order_id?: unknown;
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
  if (typeof row.customer_id === 'string' && isOfOrder(row)) keys.push(identityName('c', row.customer_id));
  return keys;
}

/** A profile id has no colon. */
export function isCustomerKey(key: string): boolean {
  return key.charAt(1) === ':';
}

/** An order of a customer may be recorded under a session's profile. Other rows are their profile's, whomever they name. */
function isOfOrder({ origin, order_id: orderId }: OwnedRow): boolean {
  return ORDER_ORIGINS.includes(origin as string) || (typeof orderId === 'string' && orderId !== '');
}

const ORDER_ORIGINS = ['order', 'purchase'];

/** Rows of events_stored that are about an order. */
export const IS_OF_ORDER = `origin IN (${ORDER_ORIGINS.map((origin) => `'${origin}'`).join(', ')})`;

export const NAMES_CUSTOMER = `(customer_id IN {customers: Array(String)} OR length(customer_id) > ${MAX_CLEAR_ID_BYTES}
    AND hex(SHA256(assumeNotNull(customer_id))) IN {customersHashed: Array(String)})`;

/** Names are parameters of queries, because ClickHouse logs the text of queries. */
export function customerParams(names: readonly string[]): Record<string, string[]> {
  const idsOf = (prefix: string) =>
    names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  const hashes = idsOf('C:').map((digest) => Buffer.from(digest, 'base64url').toString('hex').toUpperCase());
  return { customers: idsOf('c:'), customersHashed: hashes };
}
