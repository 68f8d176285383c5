// `flush`, `deliver` and `receivers` as processes: an event reaches the receiver of docs/receivers.md, which verifies it.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../../bench/servers/ports.js';
import { runHere } from '../../cli/in-process.js';
import { runWishmeter, tempDir } from '../../cli/wishmeter.js';
import { startApp, TRUSTED } from '../../harness/app.js';
import { Contract } from '../../harness/openapi.js';
import { startStores } from '../../harness/stores.js';
import { until } from '../../harness/until.js';
import { startTool } from './fixtures.js';

const ALLOWED = { RECEIVERS_PRIVATE: 'allow' };

async function startDocumented(t: Test, port: number, secret: string): Promise<() => string> {
  const text = readFileSync('docs/receivers.md', 'utf8');
  const [, code = ''] = /<!-- receiver -->\n```js\n(.*?)```/s.exec(text) ?? [];
  const file = join(await tempDir(t), 'receiver.mjs');
  const library = import.meta.resolve('standardwebhooks');
  await writeFile(file, code.replace("'standardwebhooks'", `'${library}'`));
  const child = spawn(process.execPath, [file], {
    env: { SECRET: secret, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => void child.kill('SIGKILL'));
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    printed += chunk;
  });
  return () => printed;
}

t.test('deliveries by flush, deliver and receivers as processes', async (t) => {
  const { redis, env } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, { prefix: 'wm', env: ALLOWED });
  const settings = { ...env, ...ALLOWED };
  const ask = async (...args: string[]) => {
    const { code, stdout, stderr } = await runHere('receivers', args, settings);
    t.equal(code, 0, stderr);
    return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  };
  const flush = runWishmeter(t, { args: ['flush'], env: settings });
  const deliver = runWishmeter(t, { args: ['deliver'], env: settings });
  const tool = await startTool(t);
  const [{ id, secret }] = await ask('add', tool.url, 'add,remove,purchase');
  tool.secret = secret;

  await t.test('the receiver of docs/receivers.md prints the added item', async (t) => {
    const port = await freePort();
    const body = { url: `http://127.0.0.1:${port}/`, types: ['add'] };
    const made = (await app.post('/receivers', body, TRUSTED)).json;
    const printed = await startDocumented(t, port, made.secret);
    await app.shop.add({ sessionId: 's-1' });
    await until('it is printed', () => /^add \S+ Red shoe\n/.test(printed()));
    await app.del(`/receivers/${made.id}`, undefined, TRUSTED);
  });

  await t.test(
    'a receiver gets an add, a removal and an order, but no share, which is none of its types',
    async () => {
      await app.shop.share({ sessionId: 's-1' });
      await app.shop.remove({ sessionId: 's-1' });
      const order = {
        ...{ id: 7, currency: 'EUR', note_attributes: [{ name: 'wishlist_session_id', value: 's-1' }] },
        line_items: [{ product_id: 2, variant_id: null, quantity: 1, price: '1.00' }],
      };
      t.equal((await app.post('/webhook/purchase', order, TRUSTED)).status, 200);
      await until('all three', () => tool.delivered.length >= 3);
      t.same(tool.delivered.map(({ body }) => body.type).sort(), ['add', 'purchase', 'remove']);
      const contract = new Contract((await app.get('/openapi.json')).json);
      for (const { body } of tool.delivered)
        t.equal(contract.deliveryFault(body.type === 'purchase' ? 'purchase' : 'event', body), undefined);
      t.match((await ask())[0], { id, pending: 0, isEnabled: true, secret: undefined });
    },
  );

  await t.test('`replay` sends the events of ClickHouse again, with the same bodies and ids', async () => {
    const before = tool.delivered.splice(0).map(({ id, body }) => ({ id, body }));
    t.same(await ask('replay', id, '--since', '1h'), [{ queued: 3 }]);
    await until('all three', () => tool.delivered.length >= 3);
    const byId = (a: { id: string }, b: { id: string }) => (a.id < b.id ? -1 : 1);
    t.same(tool.delivered.map(({ id, body }) => ({ id, body })).sort(byId), before.sort(byId));
    t.same(await ask('replay', id, '--since', new Date(Date.now() + 60_000).toISOString()), [{ queued: 0 }]);
    const older = 'occurred_at - INTERVAL 2 DAY AS occurred_at, generateUUIDv4() AS event_id';
    const insert = `INSERT INTO events_stored SELECT * REPLACE (${older}) FROM events_stored LIMIT 1`;
    t.match(await runHere('sql', ['--write', insert], settings), { code: 0 });
    t.same(await ask('replay', id, '--since', '3d'), [{ queued: 4 }]);
    await until('all four', () => tool.delivered.length >= 7);
    t.same(tool.faults, []);
  });

  await t.test('a paused receiver gets nothing, and all pending events once it is resumed', async () => {
    tool.delivered.splice(0);
    t.match(await ask('pause', id), [{ id, isEnabled: false }]);
    // A running deliver notices the pause at its next poll, which may come after the event.
    deliver.child.kill();
    await deliver.ended;
    runWishmeter(t, { args: ['deliver'], env: settings });
    await app.shop.add({ sessionId: 's-2' });
    await until('it waits', async () => (await ask())[0].pending === 1);
    t.same(await ask('test', id), [{ status: 200 }]);
    t.equal(tool.delivered.length, 1);
    t.equal(tool.delivered.splice(0)[0]?.body.type, 'test');
    await app.shop.add({ sessionId: 's-3' });
    await until('both wait', async () => (await ask())[0].pending === 2);
    await app.del('/profile', { identity: { customerId: null, sessionId: 's-3' } }, TRUSTED);
    flush.child.kill();
    await flush.ended;
    runWishmeter(t, { args: ['flush'], env: settings }); // erases at its start
    await until('flush removes what waits of an erased visitor', async () => (await ask())[0].pending === 1);
    t.match(await ask('resume', id), [{ id, isEnabled: true }]);
    await until('it arrives', () => tool.delivered.length === 1);
  });

  await t.test('a wrong argument of `receivers` is answered with one sentence', async (t) => {
    for (const line of ['add https://x', 'pause', `replay ${id}`, `replay ${id} --since x`, 'x y'])
      t.match(await runHere('receivers', line.split(' '), settings), { code: 2 }, line);
    for (const [args, stderr] of [
      [['pause', 'x'], /no receiver of this id/],
      [['add', 'https://u:p@shop.example/', 'add'], /url must have no user or password/],
      [['add', 'https://shop.example/', 'x'], /types\/0 must be one of/],
    ] as const)
      t.match(await runHere('receivers', args, settings), { code: 1, stderr });
  });
});
