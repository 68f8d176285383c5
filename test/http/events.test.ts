// POST /event: its answer, and the line that is in Redis once it is given.

import t from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, KEY, startApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { rowsOf } from '../harness/stream.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const lastEvent = async () => (await rowsOf(redis, app)).at(-1);

  t.test('an event answers the profile id, and is in the stream with its columns', async (t) => {
    const started = Date.now();
    const identity = {
      customerId: 'gid://shopify/Customer/1',
      device: 'desktop',
      locale: 'de',
      email: 'a@b',
      firstName: 'A',
      lastName: 'B',
    };
    const payload = {
      productId: 'gid://shopify/Product/22',
      variantId: '33',
      productHandle: 'red-shoe',
      productTitle: 'Red shoe',
      variantTitle: null,
      quantity: 2,
      price: '19.90',
      compareAt: '25.00',
      image: 'https://cdn.example/red.png',
      source: 'pdp',
    };
    const answer = await app.post('/event', { identity, type: 'moveToCart', payload }, TRUSTED);
    t.equal(answer.status, 200);
    const { profileId } = answer.json;
    t.equal(answer.text, `{"profileId":"${profileId}"}`);

    const [row = {}] = await rowsOf(redis, app);
    const { event_id, occurred_at, ...rest } = row;
    t.match(event_id, UUID_V7);
    t.ok(Number(occurred_at) >= started && Number(occurred_at) <= Date.now(), 'when the service took it');
    t.same(rest, {
      type: 'moveToCart',
      profile_id: profileId,
      origin: 'event',
      customer_id: '1',
      device: 'desktop',
      locale: 'de',
      product_id: '22',
      variant_id: '33',
      product_handle: 'red-shoe',
      source: 'pdp',
      quantity: 2,
      price: '19.90',
      compare_at: '25.00',
      payload: JSON.stringify(payload),
    });
  });

  t.test('500 events at once are 500 lines, each once, and the pending figures are theirs', async (t) => {
    const app = await startApp(t, redis);
    const answers = await Promise.all(
      Array.from({ length: 500 }, (_, i) =>
        app.post('/event', { identity: { sessionId: `s${i % 50}` }, type: 'add', payload: { i } }, TRUSTED),
      ),
    );
    t.ok(answers.every(({ status }) => status === 200));
    const rows = await rowsOf(redis, app);
    t.same(
      rows.map(({ payload }) => JSON.parse(String(payload)).i).sort((a, b) => a - b),
      Array.from({ length: 500 }, (_, i) => i),
    );
    t.equal(new Set(rows.map(({ event_id }) => event_id)).size, 500);
    const dump = await dumpRedis(redis, app.prefix);
    const entries = dump[createKeys(app.prefix).events(0)] as [string, string[]][];
    const bytes = entries.reduce((sum, [, fields]) => sum + Buffer.byteLength(fields[3] ?? ''), 0);
    t.same(dump[createKeys(app.prefix).eventsState(0)], { events: '500', bytes: String(bytes) });
  });

  t.test('with several shards each visitor has one, in the order in which it was answered', async (t) => {
    const app = await startApp(t, redis, { env: { EVENT_SHARDS: '4' } });
    for (const i of [0, 1, 2]) {
      await Promise.all(
        Array.from({ length: 40 }, (_, who) =>
          app.post('/event', { identity: { sessionId: `v${who}` }, type: 'add', payload: { i } }, TRUSTED),
        ),
      );
    }
    const shards = await Promise.all([0, 1, 2, 3].map((shard) => rowsOf(redis, app, shard)));
    t.ok(
      shards.every((rows) => rows.length > 0),
      'all shards are used',
    );
    for (const who of Array.from({ length: 40 }, (_, who) => `v${who}`)) {
      const theirs = shards
        .map((rows) => rows.filter(({ session_id }) => session_id === who))
        .filter((rows) => rows.length);
      t.same(
        theirs.map((rows) => rows.map(({ payload }) => payload)),
        [['{"i":0}', '{"i":1}', '{"i":2}']],
      );
    }
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  t.test('a share has its channel and code; what is not sent is not in the line', async (t) => {
    const payload = {
      channel: 'Link',
      shareCode: 'abc',
      shareLink: 'https://shop.example/apps/w/wishlist/share/abc',
    };
    const { json } = await app.post(
      '/event',
      { identity: { sessionId: 's1' }, type: 'share', payload },
      TRUSTED,
    );
    t.match(await lastEvent(), {
      channel: 'Link',
      share_code: 'abc',
      session_id: 's1',
      profile_id: json.profileId,
    });
    for (const type of ['add', 'remove', 'autoRemoveAfterPurchase']) {
      t.equal((await app.post('/event', { identity: { sessionId: 's1' }, type }, TRUSTED)).status, 200);
      const { event_id, occurred_at, ...rest } = (await lastEvent()) ?? {};
      t.same(rest, { type, profile_id: json.profileId, origin: 'event', session_id: 's1', payload: '{}' });
    }
  });

  t.test(
    'an odd payload is stored whole, and what its columns do not take is left out of them',
    async (t) => {
      const payload = {
        productId: 2.5,
        variantId: ['33'],
        productHandle: { a: 1 },
        source: 'a"b\\c\n\u0000\u2028😀\ud800',
        channel: true,
        shareCode: null,
        quantity: 'two',
        price: '19.999',
        compareAt: 25,
        __proto__x: 1,
        nested: { deep: [1, [2, [3, { '': null }]]], 'key"': -0.5e-7 },
        [`long ${'k'.repeat(300)}`]: 'x',
      };
      const { status } = await app.post(
        '/event',
        { identity: { sessionId: 's2' }, type: 'add', payload },
        TRUSTED,
      );
      t.equal(status, 200);
      const { event_id, occurred_at, profile_id, ...rest } = (await lastEvent()) ?? {};
      t.same(rest, {
        type: 'add',
        origin: 'event',
        session_id: 's2',
        source: 'a"b\\c\u2028😀\ufffd',
        payload: JSON.stringify(payload).replace('\\ud800', '\ufffd'),
      });
    },
  );

  t.test('keys of a payload that mean something to JavaScript mean nothing here', async (t) => {
    const payload = '{"__proto__":{"productId":"evil"},"constructor":"x","toJSON":"y","hasOwnProperty":1}';
    await app.post('/event', `{"identity":{"sessionId":"s3"},"type":"add","payload":${payload}}`, TRUSTED);
    const row = (await lastEvent()) ?? {};
    t.equal(row['payload'], payload);
    t.notOk('product_id' in row);
  });

  t.test('a payload may be 1,000 levels deep', async (t) => {
    const payload = `{"a":${'['.repeat(999)}${']'.repeat(999)}}`;
    const body = `{"identity":{"sessionId":"s4"},"type":"add","payload":${payload}}`;
    t.equal((await app.post('/event', body, TRUSTED)).status, 200);
    t.equal((await lastEvent())?.['payload'], payload);
  });

  t.test('e-mail and names are kept with the profile and never enter the stream', async (t) => {
    const facts = {
      email: 'jane@example.org',
      firstName: 'Jane',
      lastName: 'Doe-Roe',
      device: 'mobile',
      locale: 'en',
    };
    const { json } = await app.post(
      '/event',
      { identity: { sessionId: 's5', ...facts }, type: 'add' },
      TRUSTED,
    );
    const profile = createKeys(app.prefix).profile(json.profileId);
    const dump = await dumpRedis(redis, app.prefix);
    t.match(dump[profile], {
      ...facts,
      createdAt: /^\d{4}-.*Z$/,
      updatedAt: /^\d{4}-.*Z$/,
    });
    t.notMatch(JSON.stringify(await rowsOf(redis, app)), /jane|Doe-Roe/i);

    await app.post(
      '/event',
      { identity: { sessionId: 's5', email: null, firstName: 'Joan' }, type: 'add' },
      TRUSTED,
    );
    t.match(
      (await dumpRedis(redis, app.prefix))[profile],
      { ...facts, firstName: 'Joan' },
      'facts that are not given stay as they were',
    );
  });

  t.test(
    'large events that come at once are entries that the flusher can hold, not one of many megabytes',
    async (t) => {
      const app = await startApp(t, redis);
      const payload = { quotes: '"'.repeat(8_000) };
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, i) =>
          app.post('/event', { identity: { sessionId: `s${i}` }, type: 'add', payload }, TRUSTED),
        ),
      );
      t.ok(answers.every(({ status }) => status === 200));
      t.equal((await rowsOf(redis, app)).length, 200);
      const entries = (await dumpRedis(redis, app.prefix))[createKeys(app.prefix).events(0)] as [
        string,
        string[],
      ][];
      const largest = Math.max(...entries.map(([, fields]) => Buffer.byteLength(fields[3] ?? '')));
      t.ok(largest < 1_000_000, `${largest} bytes`);
    },
  );

  t.test('at the high-water mark events get 503, nothing is appended, and visits go on', async (t) => {
    const app = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1000' } });
    const event = { identity: { sessionId: 's' }, type: 'add', payload: { fill: 'x'.repeat(100) } };
    let accepted = 0;
    let answer = await app.post('/event', event, TRUSTED);
    for (; answer.status === 200; answer = await app.post('/event', event, TRUSTED)) accepted++;
    t.ok(accepted >= 2 && accepted <= 4, `${accepted} events are about 1,000 bytes`);
    t.match(answer, {
      status: 503,
      headers: { 'retry-after': /^[1-9]\d*$/ },
      json: { code: 'overloaded', error: 'Too much is waiting to be stored; send the request again.' },
    });
    const before = await dumpRedis(redis, app.prefix);
    t.equal((await app.post('/event', event, TRUSTED)).status, 503);
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal((await rowsOf(redis, app)).length, accepted);
    const visit = { identity: { sessionId: 's' }, productHandle: 'x' };
    t.match(await app.post('/product/visit?count=true', visit), { status: 200, json: { count: 1 } });
  });

  t.test('an event needs a credential, also where visits need none', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const event = { identity: { sessionId: 's' }, type: 'add' };
    t.match(await app.post('/event', event), {
      status: 401,
      headers: { 'www-authenticate': 'Bearer' },
      json: { code: 'unauthorized' },
    });
    t.same(await rowsOf(redis, app), []);
    t.equal((await app.post('/event', event, { 'x-api-key': KEY })).status, 200);
  });
});
