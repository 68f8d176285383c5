// What goes in as lines is shown as rows: the columns of the contract, each row once, odd content as it was, and what the
// views make of it.

import t from 'tap';
import { insertEvents } from '../../src/clickhouse/insert.js';
import { encodeEvent, encodeOrderLine } from '../../src/events/row.js';
import { type EventRow, eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';

const { emptied, ask } = await startDatabases();

const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  events: [
    'event_id UUID',
    'type LowCardinality(String)',
    "occurred_at DateTime64(3, 'UTC')",
    'profile_id String',
    'customer_id Nullable(String)',
    'session_id Nullable(String)',
    'device LowCardinality(String)',
    'locale LowCardinality(String)',
    'origin LowCardinality(String)',
    'product_id String',
    'variant_id String',
    'product_handle String',
    'source LowCardinality(String)',
    'channel LowCardinality(String)',
    'share_code String',
    'currency LowCardinality(String)',
    'inventory_available Nullable(Bool)',
    'quantity Nullable(UInt32)',
    'price Nullable(Decimal(18, 2))',
    'compare_at Nullable(Decimal(18, 2))',
    'payload String',
  ],
  visits: [
    "occurred_at DateTime64(3, 'UTC')",
    'profile_id String',
    'product_handle String',
    'device LowCardinality(String)',
  ],
  purchases: [
    "occurred_at DateTime64(3, 'UTC')",
    'order_id String',
    'profile_id String',
    'customer_id Nullable(String)',
    'session_id Nullable(String)',
    'product_id String',
    'variant_id String',
    'quantity UInt32',
    'price Nullable(Decimal(18, 2))',
    'discount Decimal(18, 2)',
    'amount Nullable(Decimal(18, 2))',
    'currency LowCardinality(String)',
    'test Bool',
  ],
};

t.test('analysts see the columns of the contract', async (t) => {
  const { database } = await emptied(t);
  for (const [view, expected] of Object.entries(COLUMNS)) {
    const columns = await ask<{ name: string; type: string }>(`DESCRIBE TABLE ${database}.${view}`);
    t.same(
      columns.map(({ name, type }) => `${name} ${type}`),
      expected,
      view,
    );
  }
});

t.test('a visit that was stored twice, under two tokens, is shown once', async (t) => {
  const { own } = await emptied(t);
  await own.command({ query: 'SYSTEM STOP MERGES visits_stored' });
  const visit = {
    occurred_at: '2026-03-01 10:00:00.123',
    stream: 1,
    entry: 2,
    place: 3,
    profile_id: '7.sx',
    product_handle: 'shoe',
    device: 'phone',
  };
  const insert = (change: object, token: string) =>
    own.insert({
      table: 'visits_stored',
      values: [{ ...visit, ...change }],
      format: 'JSONEachRow',
      clickhouse_settings: { insert_deduplication_token: token },
    });
  await insert({}, 'first');
  await insert({}, 'second');
  t.same(await ask('SELECT count() AS n FROM visits_stored', own), [{ n: '2' }]);
  t.same(await ask('SELECT * FROM visits', own), [
    { occurred_at: visit.occurred_at, profile_id: '7.sx', product_handle: 'shoe', device: 'phone' },
  ]);
  for (const [i, change] of [{ stream: 2 }, { entry: 3 }, { place: 4 }, { profile_id: '8.sy' }].entries())
    await insert(change, `other ${i}`);
  t.same(await ask('SELECT count() AS n FROM visits', own), [{ n: '5' }], 'each other name is another visit');
});

t.test('what is left out of a line takes the default; unknown fields are skipped', async (t) => {
  const { own } = await emptied(t, { ...eventRow(), from_a_newer_producer: { x: 1 } } as EventRow);
  const columns = 'device, locale, product_id, channel, quantity, price, compare_at';
  t.same(await ask(`SELECT ${columns} FROM events`, own), [
    {
      ...{ device: '', locale: '', product_id: '', channel: '' },
      ...{ quantity: null, price: null, compare_at: null },
    },
  ]);
});

t.test(
  'odd content comes back as it was: emoji, newlines, 16 KiB, times, cents, a payload as text',
  async (t) => {
    const payload = { note: 'line\nbreak "quoted" \\ 😀 \u0000 \u2028', big: 'ü'.repeat(8_000) };
    const odd = {
      occurred_at: '2026-03-01T23:59:59.987Z',
      price: '19.90',
      compare_at: '1234567890123456.78',
    };
    const { own } = await emptied(
      t,
      ...[payload, JSON.stringify(payload)].map((one) => eventRow({ ...odd, payload: one })),
    );
    const rows = await ask<{ payload: string }>(
      'SELECT payload, toString(occurred_at) AS at, toString(price) AS p, toString(compare_at) AS c FROM events',
      own,
    );
    t.equal(rows.length, 2);
    for (const { payload: text, ...row } of rows) {
      t.same(row, { at: '2026-03-01 23:59:59.987', p: '19.9', c: '1234567890123456.78' });
      t.same(JSON.parse(text), payload);
    }
  },
);

t.test('events_per_day counts an event that was stored twice, under two tokens, once', async (t) => {
  const at = (day: string, type: string) => eventRow({ occurred_at: `${day}T23:59:59.999Z`, type });
  const rows = [
    at('2026-03-02', 'add'),
    at('2026-03-01', 'share'),
    at('2026-03-01', 'add'),
    at('2026-03-01', 'add'),
  ];
  const { own } = await emptied(t);
  await own.command({ query: 'SYSTEM STOP MERGES events_stored' });
  for (const token of ['first', 'second'])
    await insertEvents(own, Buffer.from(rows.map(lineOf).join('')), token, never);
  t.same(await ask('SELECT count() AS n FROM events_stored', own), [{ n: '8' }]);
  t.same(await ask('SELECT count() AS n FROM events', own), [{ n: '4' }]);
  t.same(await ask('SELECT * FROM events_per_day', own), [
    { day: '2026-03-01', type: 'add', events: '2' },
    { day: '2026-03-01', type: 'share', events: '1' },
    { day: '2026-03-02', type: 'add', events: '1' },
  ]);
});

t.test('top_products: by adds, then by moves to cart, under the handle last seen', async (t) => {
  const of = (type: string, product_id: string, handle = '', second = 0) =>
    eventRow({ type, product_id, product_handle: handle, occurred_at: `2026-03-01T00:00:0${second}.000Z` });
  const { own } = await emptied(
    t,
    of('add', '1'),
    of('add', '2', 'newer', 2),
    of('add', '2', 'older', 1),
    of('moveToCart', '1', 'one'),
    of('add', '3'),
    of('remove', '3'),
    of('add', ''),
  );
  t.same(await ask('SELECT * FROM top_products', own), [
    { product_id: '2', product_handle: 'newer', adds: '2', moves_to_cart: '0' },
    { product_id: '1', product_handle: 'one', adds: '1', moves_to_cart: '1' },
    { product_id: '3', product_handle: '', adds: '1', moves_to_cart: '0' },
  ]);
});

t.test('shares_by_channel: a link that was shared twice is one link', async (t) => {
  const of = (channel: string, share_code: string, profile_id: string) =>
    eventRow({ type: 'share', channel, share_code, profile_id });
  const { own } = await emptied(
    t,
    of('Link', 'a', 'p1'),
    of('Link', 'a', 'p1'),
    of('Email', 'a', 'p1'),
    of('Link', 'b', 'p2'),
  );
  t.same(await ask('SELECT * FROM shares_by_channel', own), [
    { channel: 'Link', shares: '3', share_links: '2', profiles: '2' },
    { channel: 'Email', shares: '1', share_links: '1', profiles: '1' },
  ]);
});

t.test(
  'purchases: each line of an order once, however often it is recorded, and none is an event',
  async (t) => {
    const { own } = await emptied(t);
    await own.command({ query: 'SYSTEM STOP MERGES events_stored' });
    const who = { device: null, locale: null, email: null, firstName: null, lastName: null };
    const identity = { customerId: '7', sessionId: null, ...who };
    const line = { productId: '1', variantId: '2', quantity: 2, price: '10.00', discounts: ['2.50'] };
    const at = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    const order = { orderId: '5', currency: 'EUR', isTest: false };
    const encode = (index: number, changes: object = {}) =>
      encodeOrderLine(at, '1a.cx', identity, { ...order, isTest: index === 1 }, index, {
        ...line,
        ...changes,
      });
    const lines = encode(0) + encode(1, { productId: null, quantity: 1, price: '0.005', discounts: [] });
    await insertEvents(own, Buffer.from(lines + lines), 'one', never);
    await insertEvents(own, Buffer.from(lines), 'two', never);
    const both = {
      occurred_at: '2026-01-02 03:04:05.678',
      order_id: '5',
      profile_id: '1a.cx',
      customer_id: '7',
      session_id: null,
      variant_id: '2',
      currency: 'EUR',
    };
    t.same(await ask('SELECT * FROM purchases ORDER BY price DESC', own), [
      { ...both, product_id: '1', quantity: 2, price: 10, discount: 2.5, amount: 17.5, test: false },
      { ...both, product_id: '', quantity: 1, price: 0.01, discount: 0, amount: 0.01, test: true },
    ]);
    t.same(await ask('SELECT count() AS n FROM events', own), [{ n: '0' }]);
  },
);

t.test('the line of the service is what the table takes, column by column', async (t) => {
  const { own } = await emptied(t);
  const identity = {
    customerId: '7',
    sessionId: 'ü-😀',
    device: 'desktop',
    locale: 'de',
    email: 'a@b.example',
    firstName: 'A',
    lastName: 'B',
  };
  const payload = {
    productId: 'gid://shopify/Product/12',
    variantId: null,
    productHandle: 'red "shoe"',
    source: 'pdp',
    quantity: 2,
    price: '19.90',
    compareAt: '25.00',
    currencyCode: 'EUR',
    inventoryAvailable: false,
    more: { deep: [1, 'two'] },
  };
  const at = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
  const line = encodeEvent({ type: 'add', origin: 'item', profileId: '1.sx', identity, payload, at });
  await insertEvents(own, Buffer.from(line), 'one', never);
  const [row] = await ask<Record<string, unknown>>('SELECT * EXCEPT event_id FROM events', own);
  t.same(row, {
    type: 'add',
    occurred_at: '2026-01-02 03:04:05.678',
    profile_id: '1.sx',
    customer_id: '7',
    session_id: 'ü-😀',
    device: 'desktop',
    locale: 'de',
    origin: 'item',
    product_id: '12',
    variant_id: '',
    product_handle: 'red "shoe"',
    source: 'pdp',
    channel: '',
    share_code: '',
    currency: 'EUR',
    inventory_available: false,
    quantity: 2,
    price: 19.9,
    compare_at: 25,
    payload: JSON.stringify(payload),
  });
  t.notMatch(line, /a@b.example|firstName/, 'names and addresses stay out');
});
