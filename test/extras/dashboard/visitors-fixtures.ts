// Visitors' pages above the real service, with Redis, ClickHouse and a flusher: customers who did all that a page shows.

import { pino } from 'pino';
import type { Test } from 'tap';
import { flush } from '../../../src/app/flush.js';
import { readConfig } from '../../../src/config.js';
import { Service } from '../../../src/extras/dashboard/visitors/service.js';
import { VisitorsPage } from '../../../src/extras/dashboard/visitors/visitors-page.js';
import { shopLinks } from '../../../src/extras/shop-links.js';
import { KEY, startApp } from '../../harness/app.js';
import { connectToClickHouse } from '../../harness/clickhouse.js';
import { startStores } from '../../harness/stores.js';
import { until } from '../../harness/until.js';
import { cookieFor, openDashboard } from './fixtures.js';

// biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
export type Json = any;
export type VisitorFixtures = Awaited<ReturnType<typeof startVisitors>>;

export const SHOP = {
  SHOP_URL: 'https://shop.example',
  IMAGE_HOSTS: 'cdn.shop.example',
};
export const [ANNA, BEN] = ['anna-0123456789abcdef', 'ben-0123456789abcdef'];
export const LOGINS = [
  { name: 'anna', token: ANNA },
  { name: 'ben', token: BEN },
];
export const IMAGE = {
  image: 'https://cdn.shop.example/red.png',
  variantId: '11',
  currencyCode: 'EUR',
  quantity: 2,
};
const AWAY = 'http://127.0.0.1:1';
const DATABASE = 'wishmeter';

export async function startVisitors(t: Test) {
  const { redis, clickhouse, env } = await startStores(t, [DATABASE]);
  const app = await startApp(t, redis, { env: { ...env, ...SHOP } });
  const flushing = await flush(readConfig({ ...env, KEY_PREFIX: app.prefix }), pino({ level: 'silent' }));
  t.teardown(() => flushing.close());
  const client = connectToClickHouse(t, clickhouse.url, DATABASE);
  const serviceUrl = `http://127.0.0.1:${app.port}`;
  let people = 0;

  return {
    ...{ app, client, serviceUrl, clickhouseUrl: clickhouse.url },

    /** A dashboard of its own, so that its log and its limits are the test's. */
    async open(t: Test, url = serviceUrl, key = KEY, patienceMs = 60_000) {
      const lines: string[] = [];
      // LOG_LEVEL=silent must not silence who looked at whom.
      const log = pino({ level: 'silent' }, { write: (line) => void lines.push(line) });
      const links = shopLinks(readConfig(SHOP));
      const visitors = new VisitorsPage(new Service(url, key, patienceMs), links, log);
      const clickhouse = connectToClickHouse(t, AWAY, 'shop');
      const shown = await openDashboard(t, clickhouse, {
        logins: LOGINS,
        visitors,
        log,
        images: links.imageRule,
      });
      const anna = { cookie: await cookieFor(shown.url, ANNA) };
      const send = async (action: string, body: object, headers: Record<string, string> = anna) => {
        const answer = await shown.post(`/visitors/${action}`, JSON.stringify(body), headers);
        const text = await answer.text();
        return { status: answer.status, headers: answer.headers, text, json: JSON.parse(text) as Json };
      };
      const find = async (text: string, by = 'any') => (await send('find', { by, text })).json;
      const logged = () =>
        lines.map((line) => JSON.parse(line)).map(({ login, profileId, msg }) => ({ login, profileId, msg }));
      return { ...shown, anna, send, find, logged, lines };
    },

    /** Has a merged session, a list of one item, visits, a share link, events and an order. */
    async makeCustomer() {
      const n = ++people;
      const [customerId, sessionId, email, orderId] = [
        `70${n}`,
        `session-${n}`,
        `p${n}@mail.test`,
        `order-${n}`,
      ];
      const { shop } = app;
      await shop.visit({ sessionId });
      await shop.visit({ sessionId }, 'blue-hat');
      await shop.add({ sessionId, email, firstName: 'Ada', lastName: 'Berg', locale: 'de' }, IMAGE);
      await shop.login({ customerId, sessionId });
      const hat = { productId: '1002', productTitle: 'Blue hat', productHandle: 'blue-hat' };
      await shop.add({ customerId, email }, hat);
      await shop.remove({ customerId }, { productId: '1002' });
      const { shareLink } = await shop.share({ customerId });
      const line = { product_id: 1002, variant_id: 12, quantity: 1, price: '19.50' };
      const order = { id: orderId, financial_status: 'paid', currency: 'EUR', email };
      const bought = { ...order, customer: { id: customerId }, line_items: [line] };
      const paid = await app.post(`/webhook/purchase`, bought, {
        authorization: `Bearer ${KEY}`,
      });
      if (paid.status !== 200) throw new Error(paid.text);
      const { profileId } = await shop.itemCount({ customerId });
      await inClickHouse(profileId, 4);
      return { customerId, sessionId, email, shareLink, profileId, orderId };
    },
    inClickHouse,
  };

  async function inClickHouse(profileId: string, rows: number): Promise<void> {
    await until('its rows are in ClickHouse', async () => {
      const found = await client.query({
        query: 'SELECT count() AS n FROM events_by_visitor WHERE profile_id = {profileId: String}',
        query_params: { profileId },
        format: 'JSONEachRow',
      });
      const [{ n } = { n: 0 }] = await found.json<{ n: number }>();
      return Number(n) >= rows;
    });
  }
}
