// The page of receivers, over HTTP and in a browser: it shows no secret, and it works without Redis and without ClickHouse.

import { pino } from 'pino';
import type { Test } from 'tap';
import { readConfig } from '../../../src/config.js';
import { dashboard } from '../../../src/extras/dashboard/dashboard.js';
import { connectToClickHouse } from '../../harness/clickhouse.js';
import type { TestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { openDeliveries, startTool } from '../receivers/fixtures.js';
import { newPage, type PageFixtures } from './browser.js';
import { cookieFor, type Fixtures, foreignHeaders, openDashboard, TOKEN } from './fixtures.js';

const AWAY = 'http://127.0.0.1:1';
let opened = 0;
async function open(t: Test, redis: TestRedis) {
  const deliveries = await openDeliveries(t, redis, `p${opened++}`);
  const clickhouse = connectToClickHouse(t, AWAY, 'shop');
  const shown = await openDashboard(t, clickhouse, { receivers: async () => deliveries.receivers });
  const cookie = await shown.session();
  const list = async () => {
    const answer = await fetch(`${shown.url}/receivers.json`, { headers: { cookie } });
    return { status: answer.status, text: await answer.text() };
  };
  const sendTest = (id: string, headers: Record<string, string> = { cookie }) =>
    shown.post(`/receivers/${id}/test`, '', headers);
  return { ...deliveries, ...shown, cookie, list, sendTest };
}

export async function receiversOverHttp(t: Test, { redis }: Fixtures): Promise<void> {
  t.test('the page lists each receiver with its last hour, and why it was disabled', async (t) => {
    const { receiver, receivers, send, deliverer, list } = await open(t, redis);
    const [good, gone, paused] = [await startTool(t), await startTool(t), await startTool(t)];
    const a = await receiver(good, { types: ['add', 'purchase'] });
    const b = await receiver(gone);
    const c = await receiver(paused);
    gone.answer = (res) => void res.writeHead(410).end();
    await receivers.change(c.id, { isEnabled: false });
    const began = Date.now();
    await send({}, {});
    deliverer();
    await until('both have answered', async () => {
      const [first, second] = [await receivers.statusOf(a.id), await receivers.statusOf(b.id)];
      return first.delivered === 2 && second.failures > 0 && !(await receivers.get(b.id)).isEnabled;
    });
    const { receivers: listed } = JSON.parse((await list()).text);
    // Those that were made in one millisecond status in any order.
    const shown = [a, b, c].map(({ id }) => listed.find((one: { id: string }) => one.id === id));
    t.match(shown[0], { state: 'on', why: null, delivered: 2, pending: 0, lastError: '' });
    const refused = { why: 'it answered 410', lastError: 'answered 410' };
    t.match(shown[1], { state: 'disabled', delivered: 0, pending: 2, ...refused });
    t.match(shown[2], { state: 'paused', why: null, delivered: 0, pending: 2, lastError: '' });
    t.same([shown[0].host, shown[0].types], [new URL(good.url).host, ['add', 'purchase']]);
    t.equal(shown[0].failures, 0);
    t.ok(shown[1].failures >= 1);
    t.ok(shown[1].lastFailureAt >= began && shown[0].lastSuccessAt >= began);
  });
  t.test('neither the list nor a test shows a secret, or the path of an address', async (t) => {
    const { receivers, list, sendTest } = await open(t, redis);
    const tool = await startTool(t);
    const url = `${tool.url}/T00/path-secret?key=query-secret`;
    const { id, secret } = await receivers.add({ url, types: ['*'], includePersonal: false });
    const { secret: second } = await receivers.change(id, { rotateSecret: true });
    const sent = await (await sendTest(id)).text();
    for (const text of [(await list()).text, sent])
      for (const one of [secret, second, 'whsec_', 'path-secret', 'query-secret', 'previous'])
        t.notMatch(text, one);
    t.same(JSON.parse(sent), { status: 200 });
  });
  t.test(
    'a test is sent by a POST of the page itself, after a login, and its outcome is shown',
    async (t) => {
      const { url, cookie, receiver, receivers, sendTest } = await open(t, redis);
      const tool = await startTool(t);
      const { id } = await receiver(tool);
      t.equal((await fetch(`${url}/receivers/${id}/test`, { headers: { cookie } })).status, 404);
      t.equal((await fetch(`${url}/receivers.json`)).status, 401);
      t.equal((await sendTest(id, {})).status, 401);
      for (const headers of foreignHeaders(url))
        t.equal((await sendTest(id, { ...headers, cookie })).status, 403, JSON.stringify(headers));
      t.same(tool.delivered, []);
      t.same(await (await sendTest(id)).json(), { status: 200 });
      t.match(tool.delivered, [{ body: { type: 'test' } }]);
      t.equal(tool.delivered.length, 1);
      t.same(tool.faults, [], 'it was signed');
      t.equal((await sendTest('00000000-0000-4000-8000-000000000000')).status, 404);
      await receivers.change(id, { url: 'http://127.0.0.1:1/' });
      t.same(await (await sendTest(id)).json(), { error: 'ECONNREFUSED' });
    },
  );
  t.test('without a Redis that answers the page says so, and Redis is asked again', async (t) => {
    const log = pino({ level: 'silent' });
    const start = async (env: Record<string, string>) => {
      const config = readConfig({
        ...{ HOST: '127.0.0.1', DASHBOARD_PORT: '0', DASHBOARD_TOKEN: TOKEN, CLICKHOUSE_URL: AWAY },
        ...env,
      });
      const { port, close } = await dashboard(config, log);
      t.teardown(close);
      const url = `http://127.0.0.1:${port}`;
      const headers = { cookie: await cookieFor(url) };
      t.equal((await fetch(`${url}/receivers`)).status, 200, 'the page itself is there');
      const panel = await fetch(`${url}/panels/days?from=2026-03-01&to=2026-03-02`, { headers });
      t.equal(panel.status, 503);
      t.same(await panel.json(), { error: 'ClickHouse does not answer.', away: true });
      t.equal((await fetch(`${url}/healthz`)).status, 200, 'the dashboard itself is up');
      return async () => {
        const answer = await fetch(`${url}/receivers.json`, { headers });
        return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
      };
    };
    const none = await start({});
    t.match(await none(), { status: 503, body: { error: /without REDIS_URL/ } });
    const KEY_PREFIX = `p${opened++}`;
    const early = await start({ REDIS_URL: redis.urls.join(','), KEY_PREFIX });
    const away = { error: /Redis does not answer, or has no data/, away: true };
    t.match(await early(), { status: 503, body: away });
    await openDeliveries(t, redis, KEY_PREFIX);
    t.same(await early(), { status: 200, body: { receivers: [] } });
  });
}

export async function receiversPage(t: Test, { redis, browser }: PageFixtures): Promise<void> {
  const { url, receiver, receivers } = await open(t, redis);
  const tool = await startTool(t);
  const { id } = await receiver(tool);
  const { page, said } = await newPage(t, browser, url, { viewport: { width: 390, height: 844 } });
  await page.goto(`${url}/receivers#token=${TOKEN}`);
  const card = page.locator(`[data-receiver="${id}"]`);
  await card.waitFor();

  await t.test('a button sends a test, and shows its outcome', async (t) => {
    t.match(await card.textContent(), new URL(tool.url).host);
    t.equal(await card.locator('.state').textContent(), 'On');
    await card.getByRole('button', { name: 'Send a test' }).click();
    await card.getByText('it took the test (200)').waitFor();
    t.equal(tool.delivered.length, 1);
    tool.answer = (res) => void res.writeHead(500).end();
    await card.getByRole('button', { name: 'Send a test' }).click();
    await card.getByText('it answered 500, which counts as a failure').waitFor();
    t.same(said, []);
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 390);
  });

  await t.test('without Redis the page of receivers says so, and links to the other pages', async (t) => {
    for (const [body, said] of [
      [{ error: 'x', away: true }, 'Redis has not answered'],
      [{ error: 'the dashboard was started without REDIS_URL' }, 'without REDIS_URL'],
    ] as const) {
      await page.route('**/receivers.json', (route) => route.fulfill({ status: 503, json: body }));
      await page.reload();
      await page.getByText(said).waitFor();
      t.ok(await page.getByRole('link', { name: 'Overview' }).isVisible());
      t.notOk(await page.locator('#range').isVisible(), 'it is of no days');
      await page.unroute('**/receivers.json');
    }
  });

  await t.test('a paused receiver says so, and how to resume it', async (t) => {
    await receivers.change(id, { isEnabled: false });
    await page.reload();
    await card.locator('.state', { hasText: 'Paused' }).waitFor();
    t.match(await card.textContent(), `wishmeter receivers resume ${id}`);
  });

  await t.test('without receivers the page says how to make one', async () => {
    await receivers.remove(id);
    await page.reload();
    await page.getByText('There are no receivers yet').waitFor();
  });
}
