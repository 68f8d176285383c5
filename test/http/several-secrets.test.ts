// SHOPIFY_SECRET with several secrets: each is good for every signature, and no other one is.

import t from 'tap';
import { startApp, TRUSTED } from '../harness/app.js';
import { proxied } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { deliver, JSON_TYPE, orderOf, sign } from './orders.js';
import { itemOf } from './wishlist.js';

const APP = 'shpss_of-the-app-now';
const BEFORE = 'shpss_of-the-app-before';
const ADMIN = 'of-the-admin-0123456789';
const ALL = [APP, BEFORE, ADMIN];
const OTHER = 'shpss_of-another-app';
const WRONG = [OTHER, `${APP},${BEFORE}`, ALL.join(','), APP.slice(0, -1), `${APP} `];

t.test('several secrets', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: ` ${APP}, ${BEFORE},${ADMIN},` } });

  const signedBy = (body: string, secret: string) => ({ 'x-shopify-hmac-sha256': sign(body, secret) });

  t.test('an order is authentic under each of them, and under no other', async (t) => {
    for (const secret of ALL) {
      const body = JSON.stringify(orderOf({ id: 1 }, []));
      t.equal((await deliver(app, body, undefined, signedBy(body, secret))).status, 200, secret);
    }
    for (const secret of WRONG) {
      const body = JSON.stringify(orderOf({ id: 1 }, []));
      t.equal((await deliver(app, body, undefined, signedBy(body, secret))).status, 401, secret);
    }
  });

  t.test('so is a compliance webhook', async (t) => {
    const post = (secret: string) => {
      const body = JSON.stringify({
        shop_domain: 's.myshopify.com',
        customer: { id: 77, email: 'a@b.example' },
      });
      return app.post('/webhook/customers/redact', body, { ...JSON_TYPE, ...signedBy(body, secret) });
    };
    for (const secret of ALL) t.equal((await post(secret)).status, 200, secret);
    for (const secret of WRONG) t.equal((await post(secret)).status, 401, secret);
  });

  t.test('so is a request of the app proxy', async (t) => {
    const post = (secret: string) =>
      app.post(proxied('/item/list', { logged_in_customer_id: '1' }, secret), {
        identity: { customerId: '1' },
      });
    for (const secret of ALL) t.equal((await post(secret)).status, 200, secret);
    for (const secret of WRONG)
      t.match(await post(secret), { status: 401, json: { code: 'unauthorized' } }, secret);
  });

  t.test('so is the share page that a theme frames', async (t) => {
    const identity = { customerId: '5' };
    await app.post('/item/add', itemOf(identity), TRUSTED);
    const { code } = (await app.post('/share', { identity }, TRUSTED)).json;
    const type = async (secret: string) =>
      (await app.get(proxied(`/wishlist/share/${code}`, {}, secret))).headers['content-type'];
    for (const secret of ALL) t.match(await type(secret), /^application\/liquid/, secret);
    for (const secret of WRONG) t.match(await type(secret), /^text\/html/, secret);
  });
});
