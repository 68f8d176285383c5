// What analysts' tools read: the requests of their drivers, and formats that begin with names.

import t from 'tap';
import { analyst, openShop } from './fixtures.js';
import { TOOLS } from './tools.js';

const { http, post, bare } = await openShop(t);

for (const { tool, params, headers, statements } of TOOLS)
  t.test(`the statements of ${tool} are answered`, async (t) => {
    for (const sql of statements) {
      const { status, bytes } = await bare(sql, params, headers);
      t.equal(status, 200, `${sql}: ${bytes.toString('latin1', 0, 300)}`);
      t.not(bytes.length, 0, sql);
    }
  });

t.test('clickhouse-connect gets Native without a block header', async (t) => {
  const answer = await http({ client_protocol_version: '54405', query: 'SELECT 1 AS check FORMAT Native' });
  t.equal(answer.text, '\u0001\u0001\u0005check\u0005UInt8\u0001');
});

t.test('a streamed format with names has them once, whatever they are', async (t) => {
  const columns = 'number AS a, toString(number) AS `b\n"c`';
  const texts = ['TabSeparatedWithNames', 'TSVRawWithNamesAndTypes', 'CSVWithNames', 'CSVWithNamesAndTypes'];
  const json = ['JSONCompactEachRowWithNamesAndTypes', 'JSONCompactStringsEachRowWithNames'];
  for (const format of [...texts, ...json, 'RowBinaryWithNames', 'RowBinaryWithNamesAndTypes']) {
    const get = async (rows: number, blocks: string, more = '') => {
      const sql = `SELECT ${columns} FROM numbers(${rows}) ${more} FORMAT ${format}`;
      return (await bare(sql, { max_block_size: blocks, max_threads: '1' })).bytes.toString('latin1');
    };
    t.equal(await get(1_000, '300'), await get(1_000, '1000'), format);
    t.equal(await get(5, '7', 'WHERE number > 9'), await get(0, '1000'), `${format}, no rows`);
  }
  const large = await post(analyst, 'SELECT number FROM numbers(1000001) FORMAT RowBinaryWithNames');
  t.equal(large.status, 200, 'more rows than are held whole');
});
