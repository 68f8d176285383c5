// Analysts' tools connect to the embedded ClickHouse as they are set up at first.

import t from 'tap';
import { openShop } from './shop.js';
import { TOOLS } from './tools.js';

const { origin, http } = await openShop(t);

for (const { tool, params, headers, statements } of TOOLS)
  t.test(`${tool} is answered`, async (t) => {
    for (const sql of statements) {
      const answer = await fetch(`${origin}/?${new URLSearchParams(params)}`, {
        method: 'POST',
        body: sql,
        headers: { ...headers },
      });
      const bytes = Buffer.from(await answer.arrayBuffer());
      t.equal(answer.status, 200, `${sql}: ${bytes.toString('latin1', 0, 300)}`);
      t.not(bytes.length, 0, sql);
    }
  });

t.test('clickhouse-connect sees that Native has no block header here', async (t) => {
  const answer = await http({ client_protocol_version: '54405', query: 'SELECT 1 AS check FORMAT Native' });
  t.equal(answer.text, '\u0001\u0001\u0005check\u0005UInt8\u0001');
});

t.test('health checks are answered as a server answers them', async (t) => {
  for (const method of ['GET', 'HEAD'])
    for (const path of ['/ping', '/', '/replicas_status']) {
      const answer = await fetch(origin + path, { method });
      t.equal(answer.status, 200, `${method} ${path}`);
      t.equal(await answer.text(), method === 'GET' ? 'Ok.\n' : '');
    }
  t.equal(await (await fetch(`${origin}/?query=SELECT+1&user=analyst`)).text(), '1\n');
  t.equal((await fetch(`${origin}/?query=SELECT+1`, { method: 'HEAD' })).status, 405);
});
