// 503 and then? Over HTTP: a full stream, and replies of Redis that are lost on the way. What was refused is sent
// again under its key, and ends as if it had not been refused: one answer, one change, one event.

import t, { type Test } from 'tap';
import { loadScript } from '../../src/redis/scripts.js';
import { type Answer, eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { startProxy } from '../harness/proxy.js';
import { startTestRedis, type TestRedis } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import { until } from '../harness/until.js';
import { itemOf } from '../http/wishlist.js';

const WHO = { customerId: '7' };
const ITEM = { productId: '1001', variantId: '2002' };
const ORDER = {
  id: 1,
  currency: 'EUR',
  customer: { id: 7 },
  line_items: [{ product_id: 1001, variant_id: 2002, quantity: 1, price: '1.00' }],
};
const HOOK = { ...TRUSTED, 'content-type': 'application/json', 'x-shopify-webhook-id': 'd-1' };

/** A request without an answer is taken to be under way for less time than by default. */
const timing = { requestGraceMs: 20 };
const under = (key: string) => ({ ...TRUSTED, 'idempotency-key': key });

interface Step {
  readonly name: string;
  send(app: TestApp, key: string): Promise<Answer>;
  /** Of the answer, what is the same in every run. */
  readonly answer: object;
  /** The event that the step makes. */
  readonly event: object;
  /** Items on the wishlist afterwards. */
  readonly items: number;
}

const add = (quantity: number): Step => ({
  name: `add ${quantity}`,
  send: (app, key) => app.post('/item/add', itemOf(WHO, { quantity }), under(key)),
  answer: { productId: '1001', variantId: '2002', quantity },
  event: { type: 'add', customer_id: '7', product_id: '1001' },
  items: 1,
});

const remove = (event: 'remove' | 'moveToCart'): Step => ({
  name: event,
  send: (app, key) => app.post('/item/remove', { identity: WHO, ...ITEM, event }, under(key)),
  answer: { removed: true, ...ITEM },
  event: { type: event, product_id: '1001', ...(event === 'remove' ? {} : { quantity: 2, price: '79.90' }) },
  items: 0,
});

const share: Step = {
  name: 'share',
  send: (app, key) => app.post('/share', { identity: WHO }, under(key)),
  answer: { code: String, shareLink: String },
  event: { type: 'share', channel: 'Link', share_code: String },
  items: 1,
};

/** One after another they meet every state. */
const STEPS: readonly Step[] = [
  add(1),
  add(1),
  share,
  add(2),
  remove('moveToCart'),
  add(2),
  share,
  remove('remove'),
  add(3),
  {
    name: 'purchase',
    send: (app) => app.post('/webhook/purchase', ORDER, HOOK),
    answer: {},
    event: { type: 'autoRemoveAfterPurchase', product_id: '1001', quantity: 1 },
    items: 0,
  },
];

/** Lines of events in the stream; lines of orders travel with them. */
async function eventLines(redis: TestRedis, app: TestApp) {
  return (await rowsOf(redis, app)).filter(({ origin }) => origin !== 'order');
}

/** The stream as ClickHouse would show it: each id once. */
async function shown(redis: TestRedis, app: TestApp) {
  const rows = await eventLines(redis, app);
  return [...new Map(rows.map((row) => [row['event_id'], row])).values()];
}

async function isDoneOnce(t: Test, redis: TestRedis, app: TestApp, steps: readonly Step[], answer: Answer) {
  const { name, answer: expected, items } = steps.at(-1) as Step;
  t.match({ status: answer.status, json: answer.json }, { status: 200, json: expected }, name);
  const list = await app.post('/item/list', { identity: WHO }, TRUSTED);
  t.equal(list.json.items.length, items, `${name}: items`);
  t.match(
    await shown(redis, app),
    steps.map(({ event }) => event),
    `${name}: events`,
  );
  t.equal((await shown(redis, app)).length, steps.length);
}

eachRedis(t, async (t, redis) => {
  t.test('at the high-water mark: 503, and sent again when there is room it is done once', async (t) => {
    const full = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1' }, timing });
    const roomy = await startApp(t, redis, { prefix: full.prefix, timing });
    await roomy.send('PUT', '/settings', { autoRemoveAfterPurchase: true }, TRUSTED);
    for (const [i, step] of STEPS.entries()) {
      for (let tries = 0; tries < 2; tries++) {
        const refused = await step.send(full, `k${i}`);
        t.match(refused, { status: 503, json: { code: 'overloaded' }, headers: { 'retry-after': '1' } });
        t.equal((await shown(redis, full)).length, i, 'nothing was appended');
      }
      await isDoneOnce(t, redis, roomy, STEPS.slice(0, i + 1), await step.send(roomy, `k${i}`));
    }
    t.match(await roomy.post('/webhook/purchase', ORDER, HOOK), { status: 200 });
    t.equal((await eventLines(redis, roomy)).length, STEPS.length, 'and each line was appended once');
    const orders = (await rowsOf(redis, roomy)).filter(({ origin }) => origin === 'order');
    t.equal(new Set(orders.map((row) => row['event_id'])).size, 1, 'the order has one line');
  });
});

t.test('a change whose reply is lost is asked for again under its number, and done once', async (t) => {
  const redis = await startTestRedis(t);
  const proxy = await startProxy(t, redis.url);
  const app = await startApp(t, { urls: [proxy.url] });
  const calm = await startApp(t, redis, { prefix: app.prefix });
  await calm.send('PUT', '/settings', { autoRemoveAfterPurchase: true }, TRUSTED);
  for (const [i, step] of STEPS.entries()) {
    await until('ready', async () => (await app.get('/readyz')).status === 200);
    proxy.cutReplyAfter(0, new RegExp(loadScript('wishlist').sha));
    const answer = await step.send(app, `k${i}`);
    t.equal(answer.status, 200, `${step.name}: ${answer.text}`);
    await isDoneOnce(t, redis, calm, STEPS.slice(0, i + 1), answer);
  }
  t.ok(proxy.cuts >= STEPS.length, `${proxy.cuts} replies were lost`);
});
