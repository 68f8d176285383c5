// POST /event, /profile/guest and /profile/merge: lines for ClickHouse, a visitor's facts, and the profiles of an address.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eachRedis, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { BROWSER, LOGGED_OUT, postProxied, SHOPPERS } from '../harness/app-proxy.js';
import type { Answer } from '../harness/client.js';
import { monitorRedis } from '../harness/monitor.js';
import { startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

t.test('events and facts', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis);
  const other = await startApp(t, redis, { prefix: app.prefix });
  const { add, erase, event, exported, share, visit } = app.shop;
  const lastEvent = async () => {
    const { event_id, occurred_at, ...rest } = (await app.rows()).at(-1) ?? {};
    return rest;
  };

  t.test("POST /event answers the profile id, and appends a line with the event's columns", async (t) => {
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
    const key = { 'idempotency-key': 'moved' };
    await app.post('/event', { identity, type: 'moveToCart', payload }, { ...TRUSTED, ...key });
    t.match((await app.rows()).at(-1)?.['event_id'], UUID_V7, 'with an Idempotency-Key, too');
    const answer = await app.post('/event', { identity, type: 'moveToCart', payload }, TRUSTED);
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: `{"profileId":"${profileId}"}` });

    const { event_id, occurred_at } = (await app.rows()).at(-1) ?? {};
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
    t.notMatch(JSON.stringify(await app.rows()), /jane|Doe-Roe/i, 'and never enter the stream');
  });

  t.test('a payload is stored as it was sent: any names, and 1,000 levels deep', async (t) => {
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

  t.test(
    'a payload of 16,384 bytes is accepted and one of 16,385 is not, and whitespace does not count',
    async (t) => {
      const identity = { sessionId: 'large' };
      const payloadOf = (bytes: number, unit: string) => {
        const rest = bytes - Buffer.byteLength('{"a":""}');
        const size = Buffer.byteLength(unit);
        return { a: unit.repeat(Math.floor(rest / size)) + 'y'.repeat(rest % size) };
      };
      const issues = [{ path: '/payload', message: 'must have at most 16384 bytes as JSON' }];
      for (const unit of ['x', 'é', '😀']) {
        await event(identity, 'add', payloadOf(16_384, unit));
        const more = { identity, type: 'add', payload: payloadOf(16_385, unit) };
        const json = { code: 'payload_too_large', issues };
        t.match(await app.post('/event', more, TRUSTED), { status: 413, json }, unit);
      }
      const fits = { identity, type: 'add', payload: payloadOf(16_384, 'x') };
      const blown = JSON.stringify(fits, null, 8).replaceAll('\n', '\n\n\n');
      t.equal((await app.post('/event', blown, TRUSTED)).status, 200);
    },
  );

  t.test('large events that arrive at once are appended in batches of at most 16', async (t) => {
    const app = await startApp(t, redis);
    const payload = { quotes: '"'.repeat(8_000) };
    const guests = Array.from({ length: 200 }, (_, i) => ({ sessionId: `s${i}` }));
    await Promise.all(guests.map((guest) => app.shop.event(guest, 'add', payload)));
    t.equal((await app.rows()).length, 200);
    const small = Number(await app.figure('batch_operations_bucket{le="16",script="recordEvents"}'));
    t.ok(small > 0);
    t.equal(await app.figure('batch_operations_count{script="recordEvents"}'), small);
  });

  t.test('at the high-water mark events get 503, nothing is appended, and visits go on', async (t) => {
    const app = await startApp(t, redis, { env: { STREAM_HIGH_WATER: '1000' } });
    const body = { identity: { sessionId: 's' }, type: 'add', payload: { fill: 'x'.repeat(100) } };
    let accepted = 0;
    while ((await app.post('/event', body, TRUSTED)).status === 200) accepted++;
    t.ok(accepted >= 2 && accepted <= 4, `${accepted} events are about 1,000 bytes`);
    const before = await app.dump();
    const { status, headers, json } = await app.post('/event', body, TRUSTED);
    t.match([status, json.code, headers['retry-after']], [503, 'overloaded', /^[1-9]\d*$/]);
    t.same(await app.dump(), before);
    t.equal((await app.rows()).length, accepted);
    t.match(await app.shop.visit({ sessionId: 's' }), { count: 1 });
  });

  t.test('a guest gets a profile that keeps the given facts', async (t) => {
    const names = { firstName: 'G', lastName: 'Uest' };
    const facts = { device: 'desktop', locale: 'de', email: 'g@example.org', ...names };
    const guest = { sessionId: 'g-1', customerId: null };
    const answer = await app.post('/profile/guest', { ...guest, ...facts }, TRUSTED);
    const { profileId } = answer.json;
    t.match(answer, { status: 200, text: JSON.stringify({ profileId }) });
    t.match(await exported({ sessionId: 'g-1' }), { profileId, profile: facts });
    t.equal((await app.post('/profile/guest', guest, TRUSTED)).json.profileId, profileId);
    t.equal((await visit({ sessionId: 'g-1' })).profileId, profileId);
    t.same(await erase({ sessionId: 'g-1' }), { erased: true }, 'it was known');
  });

  t.test('a visitor who comes back after an erasure has their facts again', async (t) => {
    const email = 'back@facts.example';
    for (const who of [{ sessionId: 'comes-back' }, { customerId: 'comes-back' }])
      for (const by of [app, other]) {
        const identity = { ...who, email, firstName: 'Ann' };
        await event(identity);
        await erase(who);
        await by.shop.event(identity);
        t.match(await exported(who as Record<string, string>), { profile: { email, firstName: 'Ann' } });
        t.match(await exported({ email }), { profile: { firstName: 'Ann' } });
        await erase(who);
      }
  });

  t.test('the last request decides a fact, whichever server got the one before', async (t) => {
    const who = { sessionId: 'two-servers' };
    await event({ ...who, firstName: 'Ann' });
    await other.shop.event({ ...who, firstName: 'Bea' });
    await event({ ...who, firstName: 'Ann' });
    t.equal((await exported(who)).profile.firstName, 'Ann');
  });

  t.test(
    'facts that spell fields of a profile survive a merge, and leave nothing after an erasure',
    async (t) => {
      for (const fact of ['share', 'name', 'lastLink', 'registered', 'target', 'itemBytes']) {
        const [session, customer] = [{ sessionId: `device-${fact}` }, { customerId: `device-${fact}` }];
        await event({ ...session, device: fact, locale: fact, lastName: fact });
        const { code } = await share(session);
        await visit(customer);
        await share(customer);
        await visit({ ...session, ...customer });
        const found = await exported(customer);
        t.match(found, { profile: { device: fact, lastName: fact } });
        t.ok(found.shares.includes(code));
        t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 200);
        await erase(customer);
        // Before the share code is requested: that would remove a key that leads nowhere.
        const keys = await app.keys();
        t.notOk(keys.join().includes(code), 'no key is left');
        t.equal((await app.get(`/share/${code}/items`, TRUSTED)).status, 404);
      }
    },
  );

  t.test('properties named __proto__ and constructor come back as they were stored', async (t) => {
    const who = { sessionId: 'proto' };
    const properties = JSON.parse('{"__proto__": 1, "constructor": {"__proto__": "x"}}');
    await add(who, { productHandle: '__proto__', properties });
    await visit(who, '__proto__');
    const found = await exported(who);
    t.same(Object.keys(found.visits), ['__proto__']);
    t.equal(JSON.stringify(found.items[0].properties), JSON.stringify(properties));
    t.equal((await app.get('/product/visit?__proto__=x', TRUSTED)).status, 400);
  });
});

/** Profiles that one address leads to. */
const MOST = 100;
eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: SHOPPERS });
  const { add, erase, event, exported, login, share, visit } = app.shop;
  const byEmail = (email: string) => app.get(withQuery('/profile', { email }), TRUSTED);

  t.test(
    'an address given by a browser or a storefront does not lead to the visitor who claimed it',
    async (t) => {
      const victim = { customerId: '501' };
      const email = 'victim@claims.example';
      await add({ ...victim, email });
      const { profileId } = await exported(victim);
      const [typed, signed] = [{ sessionId: 'typed' }, { sessionId: 'signed' }];
      for (const path of ['/event', '/item/add', '/share']) {
        const body = { type: 'add', ...ITEM };
        const claims = { ...body, identity: { ...typed, email } };
        t.equal((await app.post(path, claims, BROWSER)).status, 200, path);
        const ours = await postProxied(app, path, LOGGED_OUT, { ...body, identity: { ...signed, email } });
        t.equal(ours.status, 200, path);
      }
      const loggedIn = { identity: { customerId: '502', sessionId: 'of-502', email }, ...ITEM };
      t.equal((await postProxied(app, '/item/add', '502', loggedIn)).status, 200);

      for (const who of [typed, signed, { customerId: '502' }])
        t.match((await exported(who)).profile, { email }, 'kept with the profile, and exported');
      const found = await byEmail(email);
      t.match(found, { status: 200, json: { profileId } });
      t.notOk('others' in found.json);
      t.match(await exported({ ...victim, email }), { profileId });
      t.same(await erase({ ...victim, email }), { erased: true });
      t.equal((await byEmail(email)).status, 404);
      t.same(await erase({ email }), { erased: false });
      t.match((await exported(typed)).profile, { email }, 'the stranger is not erased with the victim');
    },
  );

  // Addresses of orders: orders.test.ts.
  t.test('an address that a server gives leads to its visitor, whichever operation gives it', async (t) => {
    const given = {
      event,
      item: add,
      share,
      guest: (identity: object) => app.post('/profile/guest', identity, TRUSTED),
      login: (identity: { sessionId: string }) => login({ ...identity, customerId: 'by-login' }),
    };
    for (const [how, give] of Object.entries(given)) {
      const identity = { sessionId: `by-${how}`, email: `${how}@given.example` };
      await give(identity);
      const { status, json } = await byEmail(identity.email);
      t.equal(status, 200, how);
      t.same(json.identities?.sessionIds, [identity.sessionId], how);
    }
  });

  t.test('a placeholder address leads to nobody, whoever gives it', async (t) => {
    const names = ['none@shop.test', 'NULL@null.null', 'undefined@undefined', 'noreply@shop.test'];
    const tests = [
      'no-reply@shop.test',
      'test@test.com',
      'Test@Test.de',
      'ann@example.com',
      'bob@EXAMPLE.org',
    ];
    const placeholders = [...names, ...tests];
    for (const [i, email] of placeholders.entries()) {
      const who = { sessionId: `placeholder-${i}` };
      await add({ ...who, email });
      t.match((await exported(who)).profile, { email }, `${email} is kept`);
      t.equal((await byEmail(email)).status, 404, `${email} leads nowhere`);
      t.match(await exported({ ...who, email }), { profile: { email } }, 'beside an id it is nobody else');
    }
    for (const [i, email] of ['nonesuch@shop.test', 'tester@test.com', 'ann@myexample.com'].entries()) {
      await add({ sessionId: `person-${i}`, email });
      t.equal((await byEmail(email)).status, 200, `${email} is a person's`);
    }
  });

  t.test(
    'an address leads to its latest 100 visitors, and its erasure reads no whole collection',
    async (t) => {
      const email = 'everybody@form.example';
      const guests = Array.from({ length: MOST + 5 }, (_, i) => `filled-${i}`);
      for (const sessionId of guests) {
        t.equal((await app.post('/profile/guest', { sessionId, email }, TRUSTED)).status, 200);
        await sleep(2); // so that no two have the same millisecond
      }
      // The first one is among the latest again.
      await app.post('/profile/guest', { sessionId: 'filled-0', email }, TRUSTED);
      t.equal(await app.figure('email_profiles_dropped_total'), 6);
      const { json } = await byEmail(email);
      const found = [json, ...json.others].flatMap(({ identities }) => identities.sessionIds);
      t.same(found.sort(), [guests[0], ...guests.slice(6)].sort());

      const commands: string[] = [];
      const ends = await Promise.all(
        redis.urls.map((url) => monitorRedis(url, (words) => commands.push(words.join(' ')))),
      );
      t.same(await erase({ email }), { erased: true });
      for (const end of ends) end();
      const whole = commands.filter((one) =>
        /^(hgetall|hkeys|hvals|smembers|z?l?range \S+ 0 -1)\b(?!.*:meta$)/i.test(one),
      );
      t.same(whole, []);
      t.equal((await byEmail(email)).status, 404);
      for (const sessionId of guests.slice(1, 6)) {
        t.match((await exported({ sessionId })).profile, { email }, `${sessionId} was one of too many`);
        t.same(await erase({ sessionId, email }), { erased: true }, 'and is found by its id');
      }
      await visit({ sessionId: guests[50] as string });
      t.same((await exported({ sessionId: guests[50] as string })).profile, {});
    },
  );

  const mergesOf = async (profileId: string) => {
    const rows = (await app.rows()).filter((row) => row['profile_id'] === profileId);
    return rows.flatMap(({ origin, type, payload }) =>
      origin === 'merge' ? [{ type, ...JSON.parse(String(payload)) }] : [],
    );
  };
  t.test(
    'a login of a guest records one merge for analysts, which says whether the customer is new',
    async (t) => {
      for (const [customerId, isNew] of [
        ['101', true],
        ['102', false],
      ] as const) {
        const ids = { sessionId: `a-${customerId}`, customerId };
        const { profileId } = await visit({ sessionId: ids.sessionId });
        t.same(await mergesOf(profileId), []);
        if (!isNew) await visit({ customerId });
        const { profileId: into } = await login(ids);
        await login(ids);
        await event({ customerId }, 'add');
        t.same(await mergesOf(profileId), [{ type: 'profileMerge', into, isNew }]);
        t.same(await mergesOf(into), []);
      }
      const ids = { sessionId: 'a-3', customerId: '103' };
      await login(ids);
      await visit(ids);
      t.equal(
        (await app.rows()).filter(({ origin }) => origin === 'merge').length,
        2,
        'an unknown session is no guest',
      );
    },
  );

  if (redis.urls.length > 1) return;

  const callers: Readonly<Record<string, (path: string, body: unknown) => Promise<Answer>>> = {
    'a server': (path, body) => app.post(path, body, TRUSTED),
    'a storefront': (path, body) => postProxied(app, path, '', body),
    'a browser': (path, body) => app.post(path, body, BROWSER),
    anyone: (path, body) => app.post(path, body),
  };
  const KNOWN = ['desktop', 'Mobile', 'PHONE', 'tablet', 'TV', 'App', 'app '];
  const DEVICES = [
    ...KNOWN.map((device) => [device, device.trim().toLowerCase()] as const),
    ...['fridge', '__proto__'].map((device) => [device, 'other'] as const),
  ];
  t.test('an unknown device of a visit becomes `other`, unless a server sends it', async (t) => {
    for (const [caller, post] of Object.entries(callers))
      for (const [device] of DEVICES) {
        const name = `${caller} ${device}`;
        const body = { identity: { sessionId: name, device }, productHandle: name };
        t.equal((await post('/product/visit', body)).status, 200, name);
      }
    const visits = (await app.visitLog()).flat();
    const logged = new Map(visits.map(([, handle, device]) => [handle, device]));
    for (const caller of Object.keys(callers))
      for (const [device, known] of DEVICES)
        t.equal(logged.get(`${caller} ${device}`.trim()), caller === 'a server' ? device : known, caller);
  });

  type Words = readonly [device: string, source: unknown, channel: unknown];
  const NO_WORDS: Words = ['tv', undefined, undefined];
  const EVENTS: readonly { readonly sent: Words; readonly strangers: Words }[] = [
    { sent: ['fridge', 'tiktok', 'Pigeon'], strangers: ['other', 'other', 'other'] },
    { sent: ['Phone', 'PDP', 'link'], strangers: ['phone', 'pdp', 'Link'] },
    { sent: ['tv', 'pdpSmartSave', 'Email'], strangers: ['tv', 'pdpSmartSave', 'Email'] },
    { sent: ['tv', 5, ''], strangers: NO_WORDS },
    { sent: NO_WORDS, strangers: NO_WORDS },
  ];
  t.test(
    'an unknown device, source or channel of an event becomes `other`, unless a server sends it',
    async (t) => {
      const { anyone: _, ...known } = callers;
      const sends = Object.entries(known).flatMap(([caller, post]) =>
        EVENTS.map((words, i) => ({ caller, post, ...words, sessionId: `${caller} ${i}` })),
      );
      for (const { post, sent, sessionId } of sends) {
        const [device, source, channel] = sent;
        const body = { identity: { sessionId, device }, type: 'add', payload: { source, channel } };
        t.equal((await post('/event', body)).status, 200, sessionId);
      }
      const rows = new Map((await app.rows()).map((row) => [row['session_id'], row]));
      for (const { caller, sent, strangers, sessionId } of sends) {
        const row = rows.get(sessionId) ?? {};
        const [, source, channel] = sent;
        t.equal(row['payload'], JSON.stringify({ source, channel }), sessionId);
        const expected = caller !== 'a server' || typeof source !== 'string' ? strangers : sent;
        t.same([row['device'], row['source'], row['channel']], expected, sessionId);
      }
    },
  );
  t.test("an unknown device from a storefront is stored as `other` among the visitor's facts", async (t) => {
    const identity = { sessionId: 'facts', device: 'fridge', email: 'a@example.org' };
    await postProxied(app, '/event', '', { identity, type: 'add' });
    t.match(await app.shop.exported({ sessionId: 'facts' }), { profile: { device: 'other' } });
  });
});
