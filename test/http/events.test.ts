// POST /event: its answer, and the line that waits for ClickHouse once it is given.

import t from 'tap';
import { eachRedis, KEY, startApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { rowsOf } from '../harness/stream.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

eachRedis(t, async (t, redis) => {
  t.test('500 events at once are 500 lines, each once, and the pending figures are theirs', async (t) => {
    const app = await startApp(t, redis);
    await Promise.all(
      Array.from({ length: 500 }, (_, i) => app.shop.event({ sessionId: `s${i % 50}` }, 'add', { i })),
    );
    const rows = await rowsOf(redis, app);
    t.same(
      rows.map(({ payload }) => JSON.parse(String(payload)).i).sort((a, b) => a - b),
      Array.from({ length: 500 }, (_, i) => i),
    );
    t.equal(new Set(rows.map(({ event_id }) => event_id)).size, 500);
    const figures = await app.figures();
    const sumOf = (name: string) =>
      [...figures.matchAll(new RegExp(`^wishmeter_stream_${name}\\{[^}]*\\} (\\d+)$`, 'gm'))].reduce(
        (sum, [, n]) => sum + Number(n),
        0,
      );
    t.equal(sumOf('pending_events'), 500);
    const bytes = rows.reduce((sum, row) => sum + Buffer.byteLength(JSON.stringify(row)) + 1, 0);
    t.equal(sumOf('pending_bytes'), bytes);
  });

  // The rest crosses no slots.
  if (redis.urls.length > 1) return;

  const app = await startApp(t, redis);
  const lastEvent = async () => {
    const { event_id, occurred_at, ...rest } = (await rowsOf(redis, app)).at(-1) ?? {};
    return rest;
  };

  t.test('an event answers the profile id, and is in the stream with its columns', async (t) => {
    const started = Date.now();
    const facts = { email: 'jane@example.org', firstName: 'Jane', lastName: 'Doe-Roe' };
    const identity = { customerId: 'gid://shopify/Customer/1', device: 'desktop', locale: 'de', ...facts };
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
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: `{"profileId":"${profileId}"}` });

    const [{ event_id, occurred_at } = {}] = await rowsOf(redis, app);
    t.match(event_id, UUID_V7);
    t.ok(Number(occurred_at) >= started && Number(occurred_at) <= Date.now(), 'when the service took it');
    t.same(await lastEvent(), {
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
    await app.shop.event({ customerId: '1', email: null, firstName: 'Joan' });
    const { profile } = await app.shop.exported({ customerId: '1' });
    t.match(profile, { ...facts, firstName: 'Joan', device: 'desktop', locale: 'de' }, 'facts stay');
    t.notMatch(JSON.stringify(await rowsOf(redis, app)), /jane|Doe-Roe/i, 'and never enter the stream');
  });

  t.test('a share has its channel and code; what is not sent is not in the line', async (t) => {
    const who = { sessionId: 's1' };
    const payload = { channel: 'Link', shareCode: 'abc', shareLink: 'https://shop.example/share/abc' };
    const { profileId } = await app.shop.event(who, 'share', payload);
    t.match(await lastEvent(), {
      channel: 'Link',
      share_code: 'abc',
      session_id: 's1',
      profile_id: profileId,
    });
    for (const type of ['add', 'remove', 'autoRemoveAfterPurchase']) {
      await app.post('/event', { identity: who, type }, TRUSTED);
      const expected = { type, profile_id: profileId, origin: 'event', session_id: 's1', payload: '{}' };
      t.same(await lastEvent(), expected);
    }
  });

  t.test('a payload is stored as it came: any names, and 1,000 levels deep', async (t) => {
    for (const raw of [
      '{"__proto__":{"productId":"evil"},"constructor":"x","toJSON":"y","hasOwnProperty":1}',
      `{"a":${'['.repeat(999)}${']'.repeat(999)}}`,
    ]) {
      await app.post('/event', `{"identity":{"sessionId":"s3"},"type":"add","payload":${raw}}`, TRUSTED);
      const row: Record<string, unknown> = await lastEvent();
      t.equal(row['payload'], raw);
      t.notOk('product_id' in row);
    }
  });

  t.test('large events that come at once are batches that the flusher can hold', async (t) => {
    const app = await startApp(t, redis);
    const payload = { quotes: '"'.repeat(8_000) };
    await Promise.all(
      Array.from({ length: 200 }, (_, i) => app.shop.event({ sessionId: `s${i}` }, 'add', payload)),
    );
    t.equal((await rowsOf(redis, app)).length, 200);
    const figures = await app.figures();
    const batches = (name: string) =>
      new RegExp(`^wishmeter_batch_operations_${name} (\\d+)$`, 'm').exec(figures)?.[1];
    t.equal(batches('bucket{le="16",script="record"}'), batches('count{script="record"}'));
  });

  t.test('at the high-water mark events get 503, nothing is appended, and visits go on', async (t) => {
    const app = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1000' } });
    const event = { identity: { sessionId: 's' }, type: 'add', payload: { fill: 'x'.repeat(100) } };
    let accepted = 0;
    while ((await app.post('/event', event, TRUSTED)).status === 200) accepted++;
    t.ok(accepted >= 2 && accepted <= 4, `${accepted} events are about 1,000 bytes`);
    const before = await dumpRedis(redis, app.prefix);
    t.match(await app.post('/event', event, TRUSTED), {
      status: 503,
      headers: { 'retry-after': /^[1-9]\d*$/ },
      json: { code: 'overloaded', error: String },
    });
    t.same(await dumpRedis(redis, app.prefix), before);
    t.equal((await rowsOf(redis, app)).length, accepted);
    t.match(await app.shop.visit({ sessionId: 's' }), { count: 1 });
  });

  t.test('an event needs a credential, also where visits need none', async (t) => {
    const open = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
    const event = { identity: { sessionId: 's' }, type: 'add' };
    t.match(await open.post('/event', event), { status: 401, headers: { 'www-authenticate': 'Bearer' } });
    t.same(await rowsOf(redis, open), []);
    t.equal((await open.post('/event', event, { 'x-api-key': KEY })).status, 200);
  });
});
