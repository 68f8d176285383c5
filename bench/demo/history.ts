// Weeks before the afternoon, for a dashboard that has something to show: made in ClickHouse, by rules like those of
// visitor.ts. Visitors look, some look again, some wish, some of those buy; more of them come each week. The last days have
// about as much of everything as the afternoon has, so that one chart shows both. All of it is marked: profile ids begin
// with `demo.`, order ids with `demo-`, and payloads have `"demo":true`.

import type { ClickHouseClient } from '@clickhouse/client';
import { CATALOGUE, CURRENCIES } from './catalogue.js';

/** Days of history, the last of them yesterday. */
export const DAYS = 70;
const VISITORS = 240_000;

/** The same at every run. @param now milliseconds since 1970 */
export async function makeHistory(client: ClickHouseClient, now: number): Promise<void> {
  const today = Math.floor(now / 86_400_000) * 86_400_000;
  for (const query of STATEMENTS)
    await client.command({ query, query_params: { start: today - DAYS * 86_400_000, end: today } });
}

const texts = (values: readonly string[]) => `['${values.join("','")}']`;

/** A share from 0 to 1 that follows from the visitor and what it is for. */
const chance = (what: string) => `(cityHash64(v, '${what}') % 10000 / 10000)`;

/** Visitors: when each comes first (`at`, milliseconds), and what each looks at (`n`, a place in the catalogue). */
const PEOPLE = `
  SELECT
    number AS v,
    -- The letter is the kind of a profile id: customer or session.
    concat('demo.', if(${chance('customer')} < 0.4, 'c', 's'), lower(hex(sipHash64(v)))) AS profile,
    if(${chance('device')} < 0.65, 'mobile', 'desktop') AS device,
    floor(${DAYS} * pow(${chance('day')}, 0.8)) AS first_day,
    -- Fewer come in the middle of the week.
    first_day + if(toDayOfWeek(fromUnixTimestamp64Milli(toInt64({start: Int64} + first_day * 86400000), 'UTC')) IN (2, 3) AND ${chance('week')} < 0.35, 3, 0) AS day,
    toInt64({start: Int64} + day * 86400000 + (7 + 15 * sqrt(${chance('hour')})) * 3600000) AS at,
    1 + toUInt32(floor(${CATALOGUE.length} * pow(${chance('product')}, 2.4))) AS n
  FROM numbers(${VISITORS})`;

/** Wishes: one of a third of the visitors. */
const WISHES = `
  SELECT
    *,
    at + 240000 AS wished,
    multiIf(${chance('source')} < 0.55, 'pdp', ${chance('source')} < 0.8, 'pdpSmartSave', ${chance('source')} < 0.93, 'collection', ${chance('source')} < 0.96, 'wishlist', 'email') AS source,
    ${chance('cart')} < 0.36 AS carts,
    wished + toInt64(${chance('cart time')} * ${chance('cart time')} * 9 * 86400000) AS carted,
    carts AND ${chance('buy')} < 0.58 AS buys,
    multiIf(v % 20 < 12, 'EUR', v % 20 < 17, 'USD', 'JPY') AS currency,
    toUInt32(1 + (v % 11 = 0)) AS quantity,
    -- Each seventh product is cheaper in the last three weeks.
    toDecimal64(prices[currency][n] * if(n % 7 = 0 AND wished < {end: Int64} - 21 * 86400000, 1.25, 1), 2) AS paid,
    -- Each fourth buyer had a code for a tenth.
    CAST(if(v % 4 = 0, paid * quantity / 10, 0), 'Decimal(18, 2)') AS discount,
    NOT (n % 9 = 4 AND wished > {end: Int64} - 30 * 86400000 AND ${chance('stock')} < 0.8) AS in_stock
  FROM (${PEOPLE})
  WHERE ${chance('wish')} < 0.34 AND wished < {end: Int64}`;

const CATALOGUE_ARRAYS = `
  ${texts(CATALOGUE.map(({ id }) => id))} AS ids,
  ${texts(CATALOGUE.map(({ variantId }) => variantId))} AS variants,
  ${texts(CATALOGUE.map(({ handle }) => handle))} AS handles,
  ${texts(CATALOGUE.map(({ title }) => title))} AS titles,
  map(${CURRENCIES.map((currency) => `'${currency}', [${CATALOGUE.map(({ prices }) => prices[currency]).join(',')}]`).join(', ')}) AS prices`;

const PRODUCT = `concat('{"demo":true,"productId":"', ids[n], '","productTitle":"', titles[n], '"}')`;

/** An INSERT of events. @param id tells this kind of event from others of the visitor @param columns what it has beside */
function events(id: string, at: string, columns: Readonly<Record<string, string>>, where: string): string {
  const all = {
    event_id: `reinterpretAsUUID(sipHash128(v, '${id}'))`,
    occurred_at: `fromUnixTimestamp64Milli(${at}, 'UTC')`,
    profile_id: 'profile',
    device: 'device',
    ...columns,
  };
  return `INSERT INTO events_stored (${Object.keys(all).join(', ')})
    WITH ${CATALOGUE_ARRAYS}
    SELECT ${Object.values(all).join(', ')} FROM (${WISHES}) WHERE ${where} AND ${at} < {end: Int64}`;
}

const ofProduct = { product_id: 'ids[n]', variant_id: 'variants[n]', product_handle: 'handles[n]' };
const price = { quantity: 'quantity', price: 'paid', currency: 'currency' };

const SHARED = `${chance('share')} < 0.12`;

const STATEMENTS: readonly string[] = [
  // The first look, a second at the same product, and some at others on later days.
  `INSERT INTO visits_stored (occurred_at, stream, entry, line, profile_id, product_handle, device)
    WITH ${CATALOGUE_ARRAYS}
    SELECT
      fromUnixTimestamp64Milli(at + if(look < 2, look * 120000, toInt64(look * ${chance('again')} * 3 * 86400000)), 'UTC') AS occurred_at,
      65535, toUInt32(v), toUInt16(look), profile,
      handles[if(look < 2 OR look = 4, n, 1 + (n + 17 * look + v) % 60)],
      device
    FROM (${PEOPLE})
    ARRAY JOIN range(1 + toUInt32(6 * ${chance('looks')})) AS look
    WHERE occurred_at < fromUnixTimestamp64Milli({end: Int64}, 'UTC')`,
  events(
    'add',
    'wished',
    {
      type: "'add'",
      origin: "'item'",
      source: 'source',
      inventory_available: 'in_stock',
      payload: PRODUCT,
      ...ofProduct,
      ...price,
    },
    'true',
  ),
  events(
    'removal',
    'wished + 90000',
    { type: "'remove'", origin: "'item'", payload: PRODUCT, ...ofProduct, ...price },
    `NOT carts AND ${chance('removal')} < if(source = 'pdpSmartSave', 0.3, 0.08)`,
  ),
  events(
    'cart',
    'carted',
    { type: "'moveToCart'", origin: "'item'", payload: PRODUCT, ...ofProduct, ...price },
    'carts',
  ),
  `INSERT INTO purchases_stored (order_id, line, version, event_id, occurred_at, updated_at, taken_at, profile_id, product_id,
      variant_id, quantity, price, currency, discount, amount)
    WITH ${CATALOGUE_ARRAYS}, fromUnixTimestamp64Milli(carted + 900000, 'UTC') AS bought
    SELECT concat('demo-', toString(v)), '1', carted, reinterpretAsUUID(sipHash128(v, 'order')), bought, bought, bought, profile,
      ids[n], variants[n], quantity, paid, currency, discount, paid * quantity - discount
    FROM (${WISHES}) WHERE buys AND carted + 900000 < {end: Int64}`,
  events(
    'share',
    'wished + 60000',
    {
      type: "'share'",
      origin: "'share'",
      channel: "['Link', 'Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'][1 + v % 6]",
      share_code: "concat('demo', toString(v))",
      payload: `'{"demo":true}'`,
    },
    SHARED,
  ),
  events(
    'open',
    'wished + 3660000',
    { type: "'shareOpen'", origin: "'open'", share_code: "concat('demo', toString(v))", device: "''" },
    `${SHARED} AND ${chance('open')} < 0.6`,
  ),
];
