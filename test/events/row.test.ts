// The line of an event: valid JSON with the contract's columns for any payload, as JSONExtract reads it; and the order of ids.

import fc from 'fast-check';
import t from 'tap';
import { PAYLOAD_COLUMNS, type PayloadColumn } from '../../src/clickhouse/columns.js';
import { newOrderedId } from '../../src/events/event-id.js';
import { encodeEvent, type NewEvent } from '../../src/events/row.js';
import { forFetch, startTestClickHouse } from '../harness/clickhouse.js';
import { identityOf } from '../harness/samples.js';

const REQUIRED = ['event_id', 'type', 'occurred_at', 'profile_id', 'origin', 'payload'];
const isText = (value: unknown) => typeof value === 'string' && value !== '' && value.isWellFormed();
const isDecimal = (value: unknown) => /^-?\d{1,16}(\.\d{1,2})?$/.test(String(value));
const OF_PAYLOAD: Readonly<Record<PayloadColumn, (value: unknown) => boolean>> = {
  product_id: isText,
  variant_id: isText,
  product_handle: isText,
  source: isText,
  channel: isText,
  share_code: isText,
  currency: (value) => /^[A-Za-z]{2,3}$/.test(String(value)),
  inventory_available: (value) => typeof value === 'boolean',
  quantity: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32,
  price: isDecimal,
  compare_at: isDecimal,
};
const COLUMNS: Readonly<Record<string, (value: unknown) => boolean>> = {
  ...Object.fromEntries(REQUIRED.map((name) => [name, () => true])),
  customer_id: isText,
  session_id: isText,
  device: isText,
  locale: isText,
  ...OF_PAYLOAD,
};
const row = (payload: Record<string, unknown>, more: Partial<NewEvent> = {}) =>
  JSON.parse(
    encodeEvent({
      type: 'add',
      origin: 'event',
      profileId: '1a.sX',
      identity: identityOf({}),
      payload,
      ...more,
    }),
  ) as Record<string, unknown>;
/** The form of a value that ClickHouse can read; the test with ClickHouse below has examples. */
function readable(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value === 'number') {
    const isBeyond = value >= 2 ** 64 || value <= -(2 ** 63);
    return isBeyond && !String(value).includes('e') ? String(value) : value;
  }
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(readable);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name.toWellFormed(), readable(one)]));
}
const anyText = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom('a', '"', '\\', '/', '\n', '\r', '\u0000', '\u2028', 'é', '😀', '\ud800', '\udc00'),
  }),
);
const anyValue = fc.oneof(
  anyText,
  fc.jsonValue(),
  fc.integer(),
  fc.double(),
  fc.constantFrom('19.90', '0', '-1.5', '1e3', '', '1.234', 'EUR', 'EURO', true),
);
const documented = Object.keys(PAYLOAD_COLUMNS);
// As a client sends it: without values that JSON can't have.
const anyPayload = fc
  .tuple(
    fc.record(Object.fromEntries(documented.map((name) => [name, anyValue])), { requiredKeys: [] }),
    fc.dictionary(anyText, anyValue),
  )
  .map(([known, free]) => JSON.parse(JSON.stringify({ ...free, ...known })) as Record<string, unknown>);
const anyIdentity = fc
  .record(Object.fromEntries(Object.keys(identityOf({})).map((name) => [name, fc.option(anyText)])))
  .map(
    (identity) =>
      Object.fromEntries(
        Object.entries(identity).map(([k, v]) => [k, v?.toWellFormed() ?? null]),
      ) as unknown as NewEvent['identity'],
  );
t.test(
  "every event is one line of valid JSON with the contract's columns, and its payload comes back whole",
  async () => {
    fc.assert(
      fc.property(
        anyPayload,
        anyIdentity,
        fc.constantFrom('add', 'remove', 'share'),
        (payload, identity, type) => {
          const line = encodeEvent({ type, origin: 'event', profileId: '1a.sX', identity, payload });
          if (line.indexOf('\n') !== line.length - 1) throw new Error('not one line');
          const parsed = JSON.parse(line) as Record<string, unknown>;
          const columns = Object.keys(parsed);
          for (const name of REQUIRED) if (!columns.includes(name)) throw new Error(`no ${name}`);
          for (const name of columns) {
            const isOf = COLUMNS[name];
            if (isOf === undefined) throw new Error(`${name} is no column`);
            if (!isOf(parsed[name])) throw new Error(`${name}: ${parsed[name]}`);
          }
          if (new Set(line.match(/(?<=^\{|,)"[a-z_]+":/g)).size < columns.length)
            throw new Error('a column twice');
          // The payload is itself text in the line, so that ClickHouse can always read it.
          if (!String(parsed['payload']).isWellFormed()) throw new Error('payload has no UTF-8');
          if (JSON.stringify(JSON.parse(String(parsed['payload']))) !== JSON.stringify(readable(payload)))
            throw new Error('payload');
        },
      ),
      { numRuns: 500 },
    );
  },
);
t.test('an invalid currency, and stock that is no boolean, leave their columns empty', async (t) => {
  for (const currencyCode of ['', 'EURO', 'E R', 'US1', 5, null, ['EUR'], 'EUR\n'])
    t.notOk('currency' in row({ currencyCode }), String(currencyCode));
  for (const inventoryAvailable of ['true', 1, null])
    t.notOk('inventory_available' in row({ inventoryAvailable }), String(inventoryAvailable));
});
t.test(
  'quantities and prices that their columns would refuse or round stay out of the columns',
  async (t) => {
    for (const quantity of [-1, 1.5, 2 ** 32, '3', null, true, [3]])
      t.notOk('quantity' in row({ quantity }), String(quantity));
    for (const quantity of [0, 1, 2 ** 32 - 1]) t.equal(row({ quantity })['quantity'], quantity);
    for (const price of [
      '1.234',
      '1,5',
      '.5',
      '1.',
      '1e3',
      '',
      ' 1',
      '12345678901234567',
      '1.5\n',
      null,
      true,
    ])
      t.notOk('price' in row({ price }), String(price));
    for (const price of ['0', '19.9', '19.90', '-1', '1234567890123456.78', '007'])
      t.equal(row({ price })['price'], price);
    for (const price of [1.234, 0.1 + 0.2, 1e21, 1e16, Number.NaN, Number.POSITIVE_INFINITY])
      t.notOk('price' in row({ price }), String(price));
    for (const price of [0, 19.9, 19.95, -1, 1200]) t.equal(row({ price })['price'], String(price));
    t.match(row({ price: 9.5, compareAt: 12 }), { price: '9.5', compare_at: '12' });
  },
);
t.test('columns have no control characters, and the payload has them only as escapes', async (t) => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: that none is there is the point
  const controls = /[\u0000-\u001f\u007f-\u009f]/;
  const evil = '\u001b]0;pwned\u0007\u009b31m\u007f\u0000\r\nx';
  const texts = ['productId', 'variantId', 'productHandle', 'source', 'channel', 'shareCode'];
  const payload = Object.fromEntries(texts.map((name) => [name, evil]));
  const identity = identityOf({ sessionId: 's', device: evil, locale: evil });
  for (const given of [{}, { payloadJson: JSON.stringify(payload) }]) {
    const event = { type: 'add', origin: 'event', profileId: '1a.sX', identity, payload } as const;
    // As from a server: other callers' `source` and `channel` become known words.
    const line = encodeEvent({ ...event, ...given, isFromServer: true });
    t.notMatch(line.trimEnd(), controls);
    const { payload: stored = '', ...columns } = JSON.parse(line) as Record<string, string>;
    const clean = Object.keys(columns).filter((name) => columns[name] === ']0;pwned31mx');
    t.equal(clean.length, texts.length + 2, 'each of them');
    t.notMatch(stored, controls);
    t.same(JSON.parse(stored), payload, 'nothing of it is lost');
  }
});
/** Values as JSON has them, and as they are stored. */
const VALUES: readonly (readonly [sent: string, stored: unknown])[] = [
  ['18446744073709549568', 2 ** 64 - 2 ** 11],
  ['18446744073709551616', '18446744073709552000'],
  ['-9223372036854774784', -(2 ** 63) + 2 ** 10],
  ['-9223372036854775809', '-9223372036854776000'],
  ['123456789012345678901', '123456789012345680000'],
  ['1e20', '100000000000000000000'],
  ['1e21', 1e21],
  ['123456789012345678901234', Number('123456789012345678901234')],
  ['1e308', 1e308],
  ['-1.5e300', -1.5e300],
  ['1e400', null],
  ['5e-324', 5e-324],
  ['0.1234567890123456789', Number('0.1234567890123456789')],
  ['"\\ud800"', '\ufffd'],
  ['"a\\udc00\\ud800b"', 'a\ufffd\ufffdb'],
  ['"\\ud83d\\ude00"', '😀'],
  ['"\\\\ud800"', '\\ud800'],
  ['"\\\\\\ud800"', '\\\ufffd'],
  ['"99999999999999999999, -99999999999999999999"', '99999999999999999999, -99999999999999999999'],
  ['"\\"99999999999999999999"', '"99999999999999999999'],
  ['"\\u0000\\u009b\\ud800"', '\u0000\u009b\ufffd'],
];
t.test('ClickHouse reads every payload: each value alone, nested, and in the name of a field', async (t) => {
  const clickhouse = await startTestClickHouse(t);
  const { origin, headers } = forFetch(clickhouse.url);
  const ask = async (query: string, body = '', settings = {}) => {
    const answer = await fetch(`${origin}/?${new URLSearchParams({ query, ...settings })}`, {
      method: 'POST',
      headers,
      body,
    });
    const text = await answer.text();
    t.equal(answer.status, 200, text);
    return text;
  };
  await ask('CREATE TABLE p (payload String) ENGINE = Memory');
  const payloads = VALUES.flatMap(([sent, stored]): [string, unknown][] => [
    [`{"a":${sent},"mark":"m"}`, { a: stored, mark: 'm' }],
    [
      `{"properties":{"l":[1,${sent},[${sent}]]},"mark":"m"}`,
      { properties: { l: [1, stored, [stored]] }, mark: 'm' },
    ],
    ...(typeof stored === 'string' && sent.startsWith('"')
      ? ([[`{${sent}:${sent},"mark":"m"}`, { [stored]: stored, mark: 'm' }]] as [string, unknown][])
      : []),
  ]);
  const lines = payloads.map(([sent]) => {
    const payload = JSON.parse(sent);
    const event = { type: 'add', origin: 'event', profileId: '1a.sX', identity: identityOf({}) } as const;
    return encodeEvent({ ...event, payload });
  });
  for (const [i, line] of lines.entries())
    t.same(JSON.parse(JSON.parse(line).payload), payloads[i]?.[1], String(payloads[i]?.[0]));
  await ask('INSERT INTO p FORMAT JSONEachRow', lines.join(''), { input_format_skip_unknown_fields: '1' });
  t.equal(
    await ask("SELECT count() FROM p WHERE JSONExtractString(payload, 'mark') = 'm'"),
    `${lines.length}\n`,
  );
});

t.test('ids of items made within one millisecond ascend, so that a list keeps their order', async (t) => {
  const ids = Array.from({ length: 40_000 }, () => newOrderedId(1_795_000_000_000));
  t.same(
    ids.findIndex((id, i) => i > 0 && id <= (ids[i - 1] as string)),
    -1,
  );
});
