// The commands that production runs, each on its own, against a Redis and a ClickHouse by URL.

import t from 'tap';
import { startStores } from '../harness/stores.js';
import { client, logLines, sql } from './started.js';
import { runWishmeter, until, wishmeter } from './wishmeter.js';

const KEY = 'sk_a-key-for-this-test';

t.test('migrate, serve, flush: each by itself', async (t) => {
  const stores = await startStores(t);
  const { clickhouse } = stores;
  const env = { ...stores.env, API_KEYS: KEY };
  const run = (command: string) => runWishmeter(t, { args: [command], env });

  const first = await wishmeter({ args: ['migrate'], env });
  t.match(first, { code: 0, stdout: /^001_\w+\n002_\w+\n/, stderr: '' });
  t.match(await wishmeter({ args: ['migrate'], env }), { code: 0, stdout: 'Nothing to do.\n' });

  const serving = run('serve');
  const line = await until('serve serves', () =>
    logLines(serving.stdout()).find(({ msg }) => msg === 'serving'),
  );
  const shop = client(`http://127.0.0.1:${line.port}`, KEY);
  t.equal((await shop.visit('s-1', 'red-shoe')).status, 200);
  t.equal(await shop.count('s-1', 'red-shoe'), 1);
  t.equal((await shop.event('s-1', 'add', { productId: '1' })).status, 200);

  t.notMatch(serving.stdout(), /set API_KEYS/);

  const flushing = run('flush');
  await until('the event is in ClickHouse', async () => {
    return (await sql(clickhouse.url, 'SELECT count() FROM events')) === '1';
  });

  for (const { child, ended } of [serving, flushing]) {
    child.kill('SIGTERM');
    t.match(await ended, { code: 0, signal: null, stderr: '' });
  }
});

t.test('a migration that ClickHouse does not answer is one sentence', async (t) => {
  const env = { CLICKHOUSE_URL: 'http://127.0.0.1:1' };
  const { code, stderr } = await wishmeter({ args: ['migrate'], env });
  t.equal(code, 1);
  t.match(stderr, /^wishmeter: [^\n]*ECONNREFUSED[^\n]*\n$/);
});
