// What is stored of a payload can be read by ClickHouse's JSONExtract, whatever was sent.

import t from 'tap';
import { encodeEvent } from '../../src/events/row.js';
import { forFetch, startTestClickHouse } from '../harness/clickhouse.js';
import { identityOf } from '../harness/samples.js';

const clickhouse = await startTestClickHouse(t);
const { origin, headers } = forFetch(clickhouse.url);
const ask = async (sql: string, body = '') => {
  const answer = await fetch(`${origin}/?query=${encodeURIComponent(sql)}`, {
    method: 'POST',
    headers,
    body,
  });
  const text = await answer.text();
  t.equal(answer.status, 200, text);
  return text;
};

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

t.test('each value alone, nested, and in the name of a field', async (t) => {
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
  await ask('INSERT INTO p SETTINGS input_format_skip_unknown_fields = 1 FORMAT JSONEachRow', lines.join(''));
  t.equal(
    await ask("SELECT count() FROM p WHERE JSONExtractString(payload, 'mark') = 'm'"),
    `${lines.length}\n`,
  );
});
