// POST /share, GET /share/:code/items, and openings: a person's opening is one row, which doesn't name the
// person.

import t from 'tap';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { startTestRedis } from '../harness/redis.js';
import { gist } from '../harness/stream.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, {
    env: { SHOP_URL: 'https://shop.example/', APP_PROXY_PATH: 'my-list' },
  });
  const { add, items, login, share, visit } = app.shop;
  const shared = (code: string) => app.get(`/share/${code}/items`, TRUSTED);

  t.test('a profile that is shared 50 times at once over two servers gets one code', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    const who = { sessionId: 'racer' };
    const servers = Array.from({ length: 50 }, (_, i) => (i % 2 ? app : second));
    const answers = await Promise.all(servers.map(({ shop }) => shop.share(who, 'Email')));
    const codes = [...new Set(answers.map(({ code }) => code))];
    t.equal(codes.length, 1);
    t.same((await app.shop.exported(who)).shares, codes, 'and no other one is kept');
  });

  t.test('share codes still lead to the list after a merge, also two codes of one profile', async (t) => {
    const [guest, customer] = [{ sessionId: 'merge-guest' }, { customerId: '10' }];
    await add(guest, { productId: '1' });
    await add(customer, { productId: '2' });
    const ofGuest = (await share(guest)).code;
    const ofCustomer = (await share(customer)).code;
    const { profileId } = await login({ ...guest, ...customer });
    for (const code of [ofGuest, ofCustomer])
      t.match((await shared(code)).json, { shareCode: code, profileId, items: { length: 2 } });
    t.equal((await share(guest)).code, ofCustomer, "the customer's code stays the profile's");

    const other = { sessionId: 'merge-guest-2' };
    const { code } = await share(other);
    await visit({ customerId: '11' });
    await login({ ...other, customerId: '11' });
    t.equal((await share({ customerId: '11' })).code, code, 'a profile without one takes it over');
  });

  // The tests below cross no slots.
  if (redis.urls.length > 1) return;

  t.test(
    'GET /share/:code/items returns the items, newest first, with the bodies of the contract',
    async (t) => {
      const identity = { sessionId: 'sharer' };
      const { code: empty } = await share(identity);
      const { profileId } = await visit(identity);
      t.same((await shared(empty)).json, { shareCode: empty, profileId, items: [] }, 'it has a profile then');
      await add(identity, { productId: '1' });
      await add(identity, { productId: '2' });
      const answer = await app.post('/share', { identity }, TRUSTED);
      const { code } = answer.json;
      t.match(code, /^[a-z0-9]{19}$/, '98 bits, and the same in any case');
      const shareLink = `https://shop.example/apps/my-list/wishlist/share/${code}`;
      t.match(answer, { status: 200, text: JSON.stringify({ shareLink, code }) });
      const found = await shared(code);
      t.equal(found.status, 200);
      const listed = (await items(identity)).map((item) => ({ ...item, image: null }));
      t.equal(found.text, JSON.stringify({ shareCode: code, profileId, items: listed }));
      t.match(found.json.items, [{ productId: '2' }, { productId: '1' }]);
    },
  );

  t.test('a shared list has the images that its share page shows, and null for others', async (t) => {
    const identity = { sessionId: 'pictures' };
    const images = [
      'https://cdn.shopify.com/a.jpg',
      'https://evil.example/b.jpg',
      'http://cdn.shopify.com/c.jpg',
    ];
    for (const [i, image] of images.entries()) await add(identity, { productId: `${i}`, image });
    const { items: shown } = (await shared((await share(identity)).code)).json;
    t.same(new Set(shown.map((item: { image: unknown }) => item.image)), new Set([images[0], null]));
  });

  t.test('a share code works in upper case and with a slash, for the page and for its items', async (t) => {
    const { code, shareLink } = await share({ sessionId: 'rewritten' });
    const { pathname } = new URL(shareLink);
    for (const spelled of [code, code.toUpperCase(), code.replace(/^.{9}/, (s) => s.toUpperCase())])
      for (const slash of ['', '/']) {
        const found = await app.get(`/share/${spelled}/items${slash}`, TRUSTED);
        t.match(found, { status: 200, json: { shareCode: code } }, spelled + slash);
        for (const path of [`/wishlist/share/${spelled}`, pathname.replace(code, spelled)])
          t.equal((await app.get(path + slash)).status, 200, path + slash);
      }
    t.equal((await app.get(`/wishlist/share/${code}//`)).status, 404);
  });

  t.test(
    'a profile keeps its share code, and each share is an event with channel, code and link',
    async (t) => {
      const who = { customerId: '9', device: 'mobile' };
      const channels = ['Link', 'Link', 'Email', 'Facebook', 'Twitter', 'Pinterest'];
      const links = [];
      for (const channel of channels) links.push(await share(who, channel));
      const [{ code, shareLink } = { code: '', shareLink: '' }] = links;
      for (const link of links) t.same(link, { shareLink, code });
      const events = await app.events({ customerId: '9' });
      const payloads = channels.map((channel) => ({ channel, shareCode: code, shareLink }));
      const expected = payloads.map((payload) => ({ type: 'share', origin: 'share', payload }));
      t.same(events.map(gist), expected);
      t.match(events[2], { channel: 'Email', share_code: code, device: 'mobile' });
    },
  );

  t.test('no character of a share code is predictable', async (t) => {
    const sharers = Array.from({ length: 600 }, (_, i) => ({ sessionId: `sharer-${i}` }));
    const codes = (await Promise.all(sharers.map((identity) => share(identity)))).map(({ code }) => code);
    t.equal(new Set(codes).size, codes.length);
    const places = Array.from(codes[0] ?? '', (_, place) => new Set(codes.map((code) => code[place])).size);
    const bits = places.reduce((sum, characters) => sum + Math.log2(characters), 0);
    t.ok(bits > 90, `${bits.toFixed(1)} bits are seen in ${codes.length} codes`);
    const elsewhere = await startApp(t, redis);
    const other = await elsewhere.shop.share({ sessionId: 'sharer-0' });
    t.not(other.code, codes[0], 'nor is it made of the visitor');
  });

  t.test('an unknown share code is 404, whatever it looks like, and changes nothing', async (t) => {
    const { code: known } = await share({ sessionId: 'known' });
    const odd = ['x', 'x'.repeat(2_000), '%00', '*', '..%2f', '{share:x}', '__proto__', 'known'];
    const before = await app.dump();
    const { status, text } = await shared('A'.repeat(16));
    t.match({ status, text }, { status: 404, text: /"code":"not_found"/ });
    for (const code of [known.slice(0, -1), `${known}a`, ...odd])
      t.match(await shared(code), { status, text }, `${code}: whatever it looks like`);
    t.equal((await app.get('/share//items', TRUSTED)).status, 404);
    t.same(await app.dump(), before);
  });
});

const PERSON = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' };
const OWNER = { sessionId: 'owner' };
t.test('openings', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  await app.shop.add(OWNER);
  const { code } = await app.shop.share(OWNER);
  const page = `/wishlist/share/${code}`;
  const items = `/share/${code}/items`;
  const opens = async () => (await app.rows()).filter(({ type }) => type === 'shareOpen');
  let counted = 0;
  const made = async (...requests: (() => Promise<unknown>)[]) => {
    for (const request of requests) await request();
    const before = counted;
    counted = (await opens()).length;
    return counted - before;
  };

  t.test('each opening of a share link by a person is one row', async (t) => {
    t.equal(await made(() => app.get(page, PERSON)), 1, 'the page');
    t.equal(await made(() => app.get(page, PERSON)), 1, 'the page again');
    t.equal(await made(() => app.get(`/wishlist/share/${code.toUpperCase()}`, PERSON)), 1, 'in any case');
    t.equal(await made(() => app.get(proxied(page, { logged_in_customer_id: '' }), PERSON)), 1, 'in a theme');
    t.equal(await made(() => app.get(items, TRUSTED)), 1, 'the items, for a page of the shop');
    t.equal(await made(() => app.get(`/share/${code.toUpperCase()}/items`, TRUSTED)), 1, 'in any case');
    t.equal(await app.figure('events_total{type="shareOpen"}'), 6);
    for (const row of await opens()) {
      const columns = 'event_id occurred_at origin profile_id share_code type';
      t.same(Object.keys(row).sort().join(' '), columns, 'nothing of the person');
      t.match(row, { origin: 'open', share_code: code });
    }
  });

  t.test('robots, prefetches, HEAD and unknown codes do not count as openings of a share link', async (t) => {
    // visits.test.ts tests which agents are robots.
    t.equal(await made(() => app.get(page, { 'user-agent': 'WhatsApp/2.23.20.0' })), 0);
    for (const [name, value] of [
      ['sec-purpose', 'prefetch;prerender'],
      ['purpose', 'prefetch'],
      ['x-moz', 'prefetch'],
    ] as const) {
      t.equal(await made(() => app.get(page, { ...PERSON, [name]: value })), 0, name);
      t.equal(await made(() => app.get(items, { ...TRUSTED, [name]: value })), 0, `${name}, the items`);
    }
    t.equal(await made(() => app.send('HEAD', page, undefined, PERSON)), 0, 'HEAD');
    t.equal(await made(() => app.send('HEAD', items, undefined, TRUSTED)), 0, 'HEAD of the items');
    t.equal(await made(() => app.get('/wishlist/share/aaaaaaaaaaaaaaaaaaa', PERSON)), 0, 'unknown');
  });

  t.test('with SHARE_PAGE_URL the request for the items counts as the opening', async (t) => {
    const env = { SHARE_PAGE_URL: 'https://shop.example/shared' };
    const other = await startApp(t, redis, { env, prefix: app.prefix });
    const openPage = async () => t.equal((await other.get(page, PERSON)).status, 302);
    t.equal(await made(openPage, () => other.get(items, TRUSTED)), 1);
  });

  t.test(
    'a half-full stream records no openings, but the share page is shown and events are recorded',
    async (t) => {
      const small = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '4000' } });
      await small.shop.add(OWNER);
      const { code } = await small.shop.share(OWNER);
      for (let n = 0; n < 20; n++) t.equal((await small.get(`/wishlist/share/${code}`, PERSON)).status, 200);
      const lost = (await small.figure('share_opens_not_recorded_total')) ?? 0;
      t.ok(lost > 0);
      const types = (await small.rows()).map(({ type }) => type);
      t.equal(types.filter((type) => type === 'shareOpen').length, 20 - lost);
      t.ok(await small.shop.event(OWNER, 'add', {}), 'an event');
    },
  );
});
