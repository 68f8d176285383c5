// Words of strangers: device, source and channel become columns that figures are grouped by, so callers without a secret key
// add no words of their own to them. A server's words are kept as sent, and so is every payload.

import t from 'tap';
import { startApp, TRUSTED } from '../harness/app.js';
import { postProxied, SECRET } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { loggedVisits, rowsOf } from '../harness/stream.js';

const PUBLISHABLE = 'pk_0123456789abcdef';
const ORIGIN = 'https://shop.example';
const BROWSER = { 'x-api-key': PUBLISHABLE, origin: ORIGIN };

const redis = await startTestRedis(t);
const app = await startApp(t, redis, {
  env: { SHOPIFY_SECRET: SECRET, PUBLISHABLE_KEYS: PUBLISHABLE, ALLOWED_ORIGINS: ORIGIN },
});

type Post = (path: string, body: unknown) => ReturnType<typeof app.post>;
const CALLERS: Readonly<Record<string, Post>> = {
  'a server': (path, body) => app.post(path, body, TRUSTED),
  'a storefront': (path, body) => postProxied(app, path, '', body),
  'a browser': (path, body) => app.post(path, body, BROWSER),
  anyone: (path, body) => app.post(path, body),
};

const DEVICES = [
  ['desktop', 'desktop'],
  ['Mobile', 'mobile'],
  ['PHONE', 'phone'],
  ['tablet', 'tablet'],
  ['TV', 'tv'],
  ['App', 'app'],
  ['app ', 'app'],
  ['fridge', 'other'],
  ['__proto__', 'other'],
] as const;

let sessions = 0;
for (const [caller, post] of Object.entries(CALLERS)) {
  t.test(`${caller}: the device of a visit`, async (t) => {
    for (const [device, known] of DEVICES) {
      const sessionId = `v-${sessions++}`;
      const answer = await post('/product/visit', {
        identity: { sessionId, device },
        productHandle: sessionId,
      });
      t.equal(answer.status, 200, answer.text);
      const visits = (await loggedVisits(redis, app)).flat();
      const [, , logged] = visits.find(([, handle]) => handle === sessionId) ?? [];
      t.equal(logged, caller === 'a server' ? device : known, device);
    }
  });
  if (caller === 'anyone') continue;

  t.test(`${caller}: device, source and channel of an event`, async (t) => {
    const send = async (device: string, payload: object) => {
      const sessionId = `e-${sessions++}`;
      const answer = await post('/event', { identity: { sessionId, device }, type: 'add', payload });
      t.equal(answer.status, 200, answer.text);
      const row = (await rowsOf(redis, app)).find((one) => one['session_id'] === sessionId) ?? {};
      t.same(JSON.parse(String(row['payload'])), payload, 'the payload is as sent');
      return [row['device'], row['source'], row['channel']];
    };
    const isServer = caller === 'a server';
    t.same(
      await send('fridge', { source: 'tiktok', channel: 'Pigeon' }),
      isServer ? ['fridge', 'tiktok', 'Pigeon'] : ['other', 'other', 'other'],
    );
    t.same(
      await send('Phone', { source: 'PDP', channel: 'link' }),
      isServer ? ['Phone', 'PDP', 'link'] : ['phone', 'pdp', 'Link'],
    );
    t.same(await send('tv', { source: 'pdpSmartSave', channel: 'Email' }), ['tv', 'pdpSmartSave', 'Email']);
    t.same(await send('tv', { source: 5, channel: '' }), ['tv', undefined, undefined]);
    t.same(await send('tv', {}), ['tv', undefined, undefined]);
  });
}

t.test('what is kept of a stranger has the known device, too', async (t) => {
  const identity = { sessionId: 'facts', device: 'fridge', email: 'a@example.org' };
  await postProxied(app, '/event', '', { identity, type: 'add' });
  t.match(await app.shop.exported({ sessionId: 'facts' }), { profile: { device: 'other' } });
});
