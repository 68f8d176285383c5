// POST /share and GET /share/:code/items.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { connectTo, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { eventsOf, gist } from '../harness/stream.js';
import { itemOf, NOT_JSON } from './wishlist.js';

const share = (app: TestApp, identity: object, channel?: unknown) =>
  app.post('/share', { identity, channel }, TRUSTED);
const shared = (app: TestApp, code: string) => app.get(`/share/${code}/items`, TRUSTED);

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, {
    env: { SHOP_URL: 'https://shop.example/', APP_PROXY_PATH: 'my-list' },
  });

  t.test('a share link leads to the items, newest first, with the bodies of the contract', async (t) => {
    const who = { sessionId: 'sharer' };
    const { profileId } = (await app.post('/item/add', itemOf(who, { productId: '1' }), TRUSTED)).json;
    await app.post('/item/add', itemOf(who, { productId: '2' }), TRUSTED);
    const answer = await share(app, who);
    const { code } = answer.json;
    t.match(code, /^[a-z0-9]{19}$/, '98 bits, and the same in any case');
    const shareLink = `https://shop.example/apps/my-list/wishlist/share/${code}`;
    t.match(answer, { status: 200, text: JSON.stringify({ shareLink, code }) });

    const listed = (await app.post('/item/list', { identity: who }, TRUSTED)).json;
    const found = await shared(app, code);
    t.equal(found.status, 200);
    t.equal(found.text, JSON.stringify({ shareCode: code, profileId, items: listed.items }));
    t.same(
      found.json.items.map((item: { productId: string }) => item.productId),
      ['2', '1'],
    );
  });

  t.test(
    'shared 50 times at once over two servers it is one code, and no other one leads anywhere',
    async (t) => {
      const fresh = await startApp(t, redis);
      const second = await startApp(t, redis, { prefix: fresh.prefix });
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => share(i % 2 ? fresh : second, { sessionId: 'racer' }, 'Email')),
      );
      t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
      t.equal(new Set(answers.map(({ json }) => json.code)).size, 1);
      const keys = createKeys(fresh.prefix);
      const isShare = keyPattern(keys.share('*'));
      const codes = Object.keys(await dumpRedis(redis, fresh.prefix)).filter((key) => isShare.test(key));
      t.same(codes, [keys.share(answers[0]?.json.code)], 'what lost the race is forgotten');
    },
  );

  t.test('codes go on resolving after a merge, and two codes of one profile both do', async (t) => {
    const guest = { sessionId: 'merge-guest' };
    const customer = { customerId: '10' };
    await app.post('/item/add', itemOf(guest, { productId: '1' }), TRUSTED);
    await app.post('/item/add', itemOf(customer, { productId: '2' }), TRUSTED);
    const ofGuest = (await share(app, guest)).json.code;
    const ofCustomer = (await share(app, customer)).json.code;
    const { profileId } = (await app.post('/profile/merge', { identity: { ...guest, ...customer } }, TRUSTED))
      .json;
    for (const code of [ofGuest, ofCustomer]) {
      const { json } = await shared(app, code);
      t.match(json, { shareCode: code, profileId });
      t.equal(json.items.length, 2);
    }
    t.equal((await share(app, guest)).json.code, ofCustomer, "the customer's code stays the profile's");

    const other = { sessionId: 'merge-guest-2' };
    const code = (await share(app, other)).json.code;
    await app.post('/product/visit', { identity: { customerId: '11' }, productHandle: 'x' }, TRUSTED);
    await app.post('/profile/merge', { identity: { ...other, customerId: '11' } }, TRUSTED);
    t.equal((await share(app, { customerId: '11' })).json.code, code, 'a profile without one takes it over');
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test(
    'a code is found in any case and with a trailing slash, on the page and for its items',
    async (t) => {
      const { code, shareLink } = (await share(app, { sessionId: 'rewritten' })).json;
      const { pathname } = new URL(shareLink);
      for (const spelled of [
        code,
        code.toUpperCase(),
        code.replace(/^.{9}/, (s: string) => s.toUpperCase()),
      ]) {
        for (const slash of ['', '/']) {
          const found = await app.get(`/share/${spelled}/items${slash}`, TRUSTED);
          t.match(found, { status: 200, json: { shareCode: code } }, spelled + slash);
          for (const path of [`/wishlist/share/${spelled}`, pathname.replace(code, spelled)])
            t.equal((await app.get(path + slash)).status, 200, path + slash);
        }
      }
      t.equal((await app.get(`/wishlist/share/${code}//`)).status, 404);
    },
  );

  t.test('a profile keeps its code; each share is an event with channel, code and link', async (t) => {
    const who = { customerId: '9', device: 'mobile' };
    const { code, shareLink } = (await share(app, who)).json;
    for (const channel of ['Link', 'Email', 'Facebook', 'Twitter', 'Pinterest']) {
      t.same((await share(app, who, channel)).json, { shareLink, code });
    }
    const events = await eventsOf(redis, app, { customerId: '9' });
    t.same(
      events.map(gist),
      ['Link', 'Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'].map((channel) => ({
        type: 'share',
        origin: 'share',
        payload: { channel, shareCode: code, shareLink },
      })),
    );
    t.match(events[2], { channel: 'Email', share_code: code, device: 'mobile' });
  });

  t.test('who shares an empty wishlist has a profile from then on', async (t) => {
    const { code } = (await share(app, { sessionId: 'empty' })).json;
    const visit = { identity: { sessionId: 'empty' }, productHandle: 'x' };
    const { profileId } = (await app.post('/product/visit', visit)).json;
    t.same((await shared(app, code)).json, { shareCode: code, profileId, items: [] });
  });

  t.test('an unknown code is 404, whatever it looks like', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    for (const code of [
      'AAAAAAAAAAAAAAAA',
      'x',
      'x'.repeat(2_000),
      '%00',
      '%2e%2e',
      '{share:x}',
      '*',
      '__proto__',
    ]) {
      const answer = await shared(app, code);
      t.match(answer, { status: 404, json: { code: 'not_found', error: String } }, code.slice(0, 20));
    }
    t.equal((await app.get('/share//items', TRUSTED)).status, 404);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test('wrong bodies change nothing', async (t) => {
    const before = await dumpRedis(redis, app.prefix);
    const identity = { sessionId: 'wrong' };
    const bodies = [
      undefined,
      null,
      [],
      {},
      'x',
      { identity: null },
      { identity: {} },
      { identity: { sessionId: '0' } },
      { identity: { sessionId: 1 } },
      { identity, channel: 'link' },
      { identity, channel: 'WhatsApp' },
      { identity, channel: 1 },
      { identity, channel: ['Link'] },
      ...NOT_JSON,
    ];
    for (const body of bodies) t.equal((await app.post('/share', body, TRUSTED)).status, 400, String(body));
    t.same((await share(app, identity, 'x')).json.issues, [
      { path: '/channel', message: 'must be one of Link, Email, Facebook, Twitter, Pinterest, null' },
    ]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });

  t.test(
    'without settings of its own the link is one that the embedded service can be tried with',
    async (t) => {
      const app = await startApp(t, redis);
      const { shareLink, code } = (await share(app, { sessionId: 's' })).json;
      t.equal(shareLink, `http://localhost:0/apps/wishmeter/wishlist/share/${code}`, 'PORT is 0');
      t.equal((await app.get(new URL(shareLink).pathname)).status, 200);
    },
  );

  t.test('a code of mixed case from before goes on working, in that case', async (t) => {
    const app = await startApp(t, redis);
    await app.post('/item/add', itemOf({ sessionId: 'old' }), TRUSTED);
    const code: string = (await share(app, { sessionId: 'old' })).json.code;
    const keys = createKeys(app.prefix);
    const client = connectTo(redis.urls[0] as string);
    t.teardown(() => client.disconnect());
    const old = 'g7I3D3eDgLwDwpr-';
    await client.copy(keys.share(code), keys.share(old));
    const profileId = (await client.get(keys.share(code))) as string;
    await client.hset(keys.profile(profileId), 'share', old);
    t.match(await app.get(`/share/${old}/items`, TRUSTED), {
      status: 200,
      json: { shareCode: old, items: [{}] },
    });
    t.equal((await app.get(`/wishlist/share/${old}/`)).status, 200);
    t.equal((await app.get(`/wishlist/share/${old.toLowerCase()}`)).status, 404);
  });

  t.test('SHARE_PAGE_URL gets the code as it was made, whatever the link was rewritten to', async (t) => {
    const app = await startApp(t, redis, { env: { SHARE_PAGE_URL: 'https://shop.example/list' } });
    const code: string = (await share(app, { sessionId: 'moved' })).json.code;
    const moved = await app.get(`/wishlist/share/${code.toUpperCase()}/`);
    t.match(moved, { status: 302, headers: { location: `https://shop.example/list?code=${code}` } });
  });
});
