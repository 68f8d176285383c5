// Native for clients of a later revision: the head of a block and a byte for each column are added, wherever columns end.

import t from 'tap';
import { openWorld } from './world.js';

const { origin } = await openWorld(t);
const LATER = '54460';

async function native(
  sql: string,
  revision?: string,
  settings: Record<string, string> = {},
): Promise<Buffer> {
  const params = new URLSearchParams({
    default_format: 'Native',
    ...settings,
    ...(revision ? { client_protocol_version: revision } : {}),
  });
  const answer = await fetch(`${origin}/?${params}`, { method: 'POST', body: sql });
  return Buffer.from(await answer.arrayBuffer());
}

/** Of one column and one block, all of it shorter than 128: what stands before its values, and its values. */
function split(bytes: Buffer): [head: Buffer, values: Buffer] {
  const name = 3 + bytes.readUInt8(2);
  const type = name + 1 + bytes.readUInt8(name);
  return [bytes.subarray(2, type), bytes.subarray(type)];
}

const COLUMNS = [
  'number',
  'toString(number) AS s',
  "toFixedString('ab', 5) AS f",
  'number % 2 = 0 AS b',
  'toDecimal32(number, 2) AS d32',
  'toDecimal64(number, 2) AS d64',
  'toDecimal128(number, 2) AS d128',
  'toDecimal256(number, 2) AS d256',
  'toInt256(number) AS i256',
  "toDateTime64(number, 3, 'Europe/Berlin') AS t64",
  "toDateTime(number, 'UTC') AS t32",
  'toDate(number) AS day',
  'toDate32(number) AS day32',
  "toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u",
  "toIPv4('127.0.0.1') AS ip4",
  "toIPv6('::1') AS ip6",
  'toIntervalDay(number) AS i',
  "CAST(number % 2, 'Enum8(\\'a, b)\\' = 0, \\'c\\' = 1)') AS e",
  'toNullable(toString(number)) AS n',
  'NULL AS nothing',
  'toLowCardinality(toString(number)) AS lc',
  'toLowCardinality(if(number % 3 = 0, NULL, toString(number))) AS lcn',
  'arrayMap(x -> toLowCardinality(toString(x)), range(number % 4)) AS alc',
  "map(toLowCardinality('k'), (toLowCardinality(toString(number)), number)) AS mlc",
  'range(number % 4) AS a',
  'arrayMap(x -> arrayMap(y -> toString(y), range(x)), range(number % 4)) AS aa',
  'map(toString(number), range(number % 3)) AS m',
  "CAST((number, toString(number), [number]), 'Tuple(`a, (` UInt8, s Nullable(String), DateTime64 Array(UInt64))') AS tu",
  'tuple(number, (1, toString(number))) AS tt',
  "CAST(number, 'SimpleAggregateFunction(sum, UInt64)') AS sa",
];

t.test('every column ends where it ends, of all types', async (t) => {
  const from = 'FROM numbers(17)';
  const one = Buffer.of(1, 0, 2, 0xff, 0xff, 0xff, 0xff, 0);
  const singles: Buffer[] = [];
  for (const column of COLUMNS) {
    const [head, values] = split(await native(`SELECT ${column} ${from}`));
    const expected = Buffer.concat([head, Buffer.of(0), values]);
    singles.push(expected);
    const later = await native(`SELECT ${column} ${from}`, LATER);
    t.ok(later.equals(Buffer.concat([one, Buffer.of(1, 17), expected])), column);
  }
  const sql = `SELECT ${COLUMNS.join(', ')} ${from}`;
  const whole = Buffer.concat([one, Buffer.of(singles.length, 17), ...singles]);
  t.ok((await native(sql, LATER)).equals(whole), 'all of them in one block');
  const blocks = await native(sql, LATER, { max_block_size: '3', max_threads: '1' });
  t.equal(blocks.toString('latin1').split(one.toString('latin1')).length - 1, 6, 'each block has its head');
});

t.test('what can not be measured is refused in words', async (t) => {
  const answer = await native('SELECT uniqState(number) FROM numbers(3)', LATER);
  t.match(answer.toString('latin1'), /NOT_IMPLEMENTED/);
  t.match(answer.toString('latin1'), /__exception__/);
});

t.test('no rows are no blocks, and an older client gets what it asked for', async (t) => {
  t.equal((await native('SELECT 1 WHERE 0', LATER)).length, 0);
  t.ok((await native('SELECT 1', '54405')).equals(await native('SELECT 1')));
});
