// Visitors' pages over HTTP, above the real service: who may use them, what they show, and what is in the log.

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { readConfig } from '../../../src/config.js';
import { dashboard } from '../../../src/extras/dashboard/dashboard.js';
import { KEY } from '../../harness/app.js';
import { findChromium, launchChromium } from '../../harness/chromium.js';
import { connectToClickHouse } from '../../harness/clickhouse.js';
import { needs } from '../../harness/needs.js';
import { until } from '../../harness/until.js';
import { cookieFor, foreignHeaders, openDashboard, TOKEN } from './fixtures.js';
import { ANNA, BEN, IMAGE, type Json, LOGINS, SHOP, startVisitors } from './visitors-fixtures.js';
import { visitorsInBrowser } from './visitors-in-browser.js';

const fixtures = await startVisitors(t);
const { open, makeCustomer, app, client, serviceUrl, clickhouseUrl, inClickHouse } = fixtures;

/** A service that is none, or that breaks. */
async function pretend(t: Test, answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  t.teardown(() => server.closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test(
  'support finds a visitor by customer id, session id or address, and sees all that is kept',
  async (t) => {
    const { find } = await open(t);
    const { customerId, sessionId, email, shareLink, profileId, orderId } = await makeCustomer();
    const found = await until('the order is there, too', async () => {
      const visitor = await find(customerId);
      return (
        visitor.purchases.count === 1 && visitor.events.count === 4 && visitor.visitLog.count === 2 && visitor
      );
    });
    t.match(found, {
      ...{ by: 'customerId', profileId, others: { count: 0 } },
      customerIds: { count: 1, rows: [customerId] },
      sessionIds: { count: 1, rows: [sessionId] },
      profile: { firstName: 'Ada', lastName: 'Berg', email, locale: 'de', createdAt: /^\d{4}-/ },
      visits: { count: 2 },
      shares: { count: 1, rows: [{ link: shareLink }] },
      purchases: { rows: [{ order_id: orderId, amount: '19.50', currency: 'EUR' }] },
      productAlerts: { count: 0 },
    });
    t.match(found.items, {
      count: 1,
      rows: [
        {
          productTitle: 'Red shoe',
          image: IMAGE.image,
          link: 'https://shop.example/products/red-shoe?variant=11',
        },
      ],
    });
    const what = found.events.rows.map(({ type, title }: Json) => [type, title]);
    t.same(
      what.sort(),
      [
        ['add', 'Blue hat'],
        ['add', 'Red shoe'],
        ['remove', 'Blue hat'],
        ['share', null],
      ].sort(),
    );
    t.ok(found.firstAt < found.lastAt);
    await app.shop.visit({ customerId: '600' });
    await until('the first visit of a visitor without facts says since when', async () => {
      const { visitLog, firstAt } = await find('600');
      return visitLog.count === 1 && firstAt === visitLog.rows[0].occurred_at;
    });
    for (const [by, text] of [
      ['customerId', `gid://shopify/Customer/${customerId}`],
      ['customerId', `  ${customerId}\n`],
      ['sessionId', sessionId],
      ['email', email.toUpperCase()],
    ] as const)
      t.match(await find(text), { by, profileId }, text);
    t.match(
      await find(customerId, 'sessionId'),
      { error: /^Nothing is kept/ },
      'a session of this name is unknown',
    );
  },
);

t.test(
  'a look, a download and an erasure are each a line with the login and the profile, and no more',
  async (t) => {
    const { send, find, logged, lines, anna, url } = await open(t);
    const { customerId, sessionId, email, profileId } = await makeCustomer();
    const ben = { cookie: await cookieFor(url, BEN) };
    await find(email);
    const named = { by: 'customerId', text: customerId, profiles: [profileId] };
    t.equal((await send('export', named, ben)).status, 200);
    t.equal((await send('erase', named)).json.erased, true);
    await find(email);
    await find('Ada Berg');
    const line = (login: string, msg: string) => ({ login, profileId, msg });
    const none = { login: 'anna', profileId: undefined, msg: 'visitor not found' };
    t.same(logged(), [
      line('anna', 'visitor viewed'),
      line('ben', 'visitor exported'),
      line('anna', 'visitor erased'),
      ...[none, none],
    ]);
    const secrets = [KEY, ANNA, TOKEN, anna.cookie, BEN];
    // Times and process ids are numbers, too.
    const said = lines.map((line) => line.replace(/"(time|pid)":\d+/g, '')).join('');
    for (const text of [email, sessionId, customerId, 'Ada', 'Berg', 'mail.test', ...secrets])
      t.notMatch(said, text, 'the log has nothing that was typed, and no secret');
  },
);

t.test("only a login with a name opens visitors' pages, which need DASHBOARD_VISITORS", async (t) => {
  const { send, logged, post, url, anna } = await open(t);
  const { customerId, profileId } = await makeCustomer();
  const named = { by: 'customerId', text: customerId, profiles: [profileId] };
  const shared = { cookie: await cookieFor(url) };
  for (const action of ['find', 'export', 'erase']) {
    t.equal((await send(action, named, {})).status, 401, action);
    const refused = await send(action, named, shared);
    t.equal(refused.status, 403, action);
    t.match(refused.json, { error: /^Visitors' pages need a login of your own/ });
    for (const headers of foreignHeaders(url))
      t.equal((await send(action, named, { ...anna, ...headers })).status, 403, JSON.stringify(headers));
    t.equal(
      (await fetch(`${url}/visitors/${action}`, { headers: anna })).status,
      404,
      'a link or picture does nothing',
    );
  }
  t.equal((await fetch(`${url}/visitors.json`)).status, 401);
  t.equal((await fetch(`${url}/visitors.json`, { headers: shared })).status, 403);
  t.same(await (await fetch(`${url}/visitors.json`, { headers: anna })).json(), { name: 'anna' });
  t.same(logged(), [], 'none of these asked the service');
  t.ok((await app.shop.items({ customerId })).length > 0);
  await post('/logout', '', anna);
  t.equal((await send('find', named)).status, 401, 'a cookie that was logged out opens nothing');

  const off = await openDashboard(t, connectToClickHouse(t, 'http://127.0.0.1:1', 'shop'), {
    logins: LOGINS,
  });
  const cookie = await cookieFor(off.url, ANNA);
  for (const path of ['/visitors', '/visitors.json'])
    t.equal((await fetch(off.url + path, { headers: { cookie } })).status, 404, path);
  t.equal((await off.post('/visitors/find', JSON.stringify(named), { cookie })).status, 404);
  t.notMatch(await (await fetch(off.url)).text(), 'visitors"', 'and no link leads to them');
});

t.test('a page of visitors is not stored, and loads pictures from IMAGE_HOSTS only', async (t) => {
  const { url, find, send } = await open(t);
  const policy = (await fetch(`${url}/visitors`)).headers.get('content-security-policy');
  t.match(policy, "img-src 'self' data: https://cdn.shop.example;");
  t.match(policy, "default-src 'none'; script-src 'self';");
  const images = [
    'javascript:alert(1)',
    'https://evil.example/x.png',
    'http://cdn.shop.example/x.png',
    'data:image/png,x',
  ];
  for (const [at, image] of images.entries())
    await app.shop.add({ sessionId: 'images' }, { productId: `9${at}`, image });
  const { items } = await find('images');
  t.same(
    items.rows.map(({ image }: Json) => image),
    [null, null, null, null],
  );
  const found = await send('find', { by: 'any', text: 'images' });
  t.equal(found.headers.get('cache-control'), 'no-store');
});

t.test('an address of several visitors shows them all; each can be chosen by its id', async (t) => {
  const { send, find, logged } = await open(t);
  const email = 'family@mail.test';
  for (const customerId of ['801', '802']) await app.shop.add({ customerId, email });
  const both = await find(email);
  const [other] = both.others.rows;
  const [[first], [second]] = [both.customerIds.rows, other.customerIds.rows];
  t.same([both.by, both.others.count, [first, second].sort()], ['email', 1, ['801', '802']]);
  const profiles = [both.profileId, both.others.rows[0].profileId];
  t.equal(logged().length, 2, 'a line for each');
  const wrong = await send('erase', { by: 'email', text: email, profiles: profiles.slice(0, 1) });
  t.match(wrong, { status: 409, json: { error: /leads to other visitors than those shown/ } });
  t.equal((await app.shop.items({ customerId: second })).length, 1);
  const whole = await send('export', { by: 'email', text: email, profiles });
  t.same(whole.json, await app.shop.exported({ email }));
  t.match(await find(second), { by: 'customerId', others: { count: 0 } });
  t.equal(
    (await send('erase', { by: 'customerId', text: second, profiles: profiles.slice(1) })).json.erased,
    true,
  );
  t.equal((await app.shop.items({ customerId: first })).length, 1, 'the other one stays');
});

t.test('an id that leads to another visitor by now is neither downloaded nor erased', async (t) => {
  const { send, find, logged } = await open(t);
  await app.shop.add({ sessionId: 'moving' });
  const { profileId } = await find('moving');
  await app.shop.add({ customerId: '850' });
  await app.shop.login({ customerId: '850', sessionId: 'moving' });
  const named = { by: 'sessionId', text: 'moving', profiles: [profileId] };
  for (const action of ['export', 'erase']) {
    const { status, json } = await send(action, named);
    t.equal(status, 409, action);
    t.same(Object.keys(json), ['error'], 'nothing of the other one');
  }
  t.equal(logged().length, 1);
  t.equal((await app.shop.items({ customerId: '850' })).length, 1);
});

t.test('a retired session leads to nobody', async (t) => {
  const { send, find } = await open(t);
  const sessionId = 'shared-device';
  await app.shop.add({ sessionId });
  await app.shop.login({ customerId: '861', sessionId });
  await app.shop.login({ customerId: '862', sessionId });
  await app.shop.erase({ customerId: '862' });
  t.match(await find(sessionId), { error: /^Nothing is kept/ });
  const first = await find('861');
  for (const action of ['export', 'erase'])
    t.equal(
      (await send(action, { by: 'sessionId', text: sessionId, profiles: [first.profileId] })).status,
      404,
    );
  t.equal((await app.shop.items({ customerId: '861' })).length, 1);
});

t.test(
  'texts that are no ids are refused with a reason, and a script that tries ids is stopped',
  async (t) => {
    const { send, logged } = await open(t);
    for (const [body, status, error] of [
      [{ by: 'any', text: ' ' }, 400, /^Type a customer id/],
      [{ by: 'any', text: 7 }, 400, /^Type/],
      [{ by: 'profile', text: 'x' }, 400, /^Type/],
      [{ by: 'any', text: 'x'.repeat(600) }, 400, /^Type/],
      [{ by: 'any', text: 'x', profiles: [7] }, 400, /^Type/],
      [{ by: 'any', text: 'undefined' }, 400, /undefined|id/],
      [{ by: 'customerId', text: 'gid://shopify/Product/7' }, 400, /Customer/],
      [{ by: 'email', text: 'no address' }, 400, /address/],
      [{ by: 'email', text: 'noreply@mail.test' }, 404, /^Nothing is kept/],
    ] as const) {
      const answer = await send('find', body);
      t.equal(answer.status, status, JSON.stringify(body).slice(0, 60));
      t.match(answer.json.error, error);
    }
    t.equal((await send('export', { by: 'any', text: '7' })).status, 400, 'any is for finding only');
    t.equal((await send('erase', { by: 'any', text: '7' })).status, 400);
    const tried: number[] = [];
    for (let n = 0; n < 130; n++)
      tried.push((await send('find', { by: 'customerId', text: 'undefined' })).status);
    t.same(new Set(tried), new Set([400, 429]));
    const asked = logged().length;
    t.ok(asked > 30 && asked < 130, `${asked} of all requests asked the service`);
  },
);

t.test('of a visitor with 30,000 events the page gets the latest 100, and the download all', async (t) => {
  const { send, find } = await open(t);
  const { profileId } = await app.shop.add({ customerId: '890' });
  await inClickHouse(profileId, 1);
  await client.command({
    query: `INSERT INTO events_stored (event_id, type, occurred_at, profile_id, origin, product_handle, payload)
      SELECT generateUUIDv4(), 'add', now64(3) - 40000 + number, {profileId: String}, 'event', concat('handle-', toString(number)),
        concat('{"productTitle":"', repeat('x', 1000), '"}') FROM numbers(30000)`,
    query_params: { profileId },
  });
  const { text, json: visitor } = await send('find', { by: 'any', text: '890' });
  t.equal(visitor.events.count, 30_001);
  t.equal(visitor.events.rows.length, 100);
  t.equal(visitor.events.rows.at(-1).product_handle, 'red-shoe', 'the newest');
  t.equal(visitor.events.rows.at(-2).product_handle, 'handle-29999');
  t.ok(text.length < 200_000, `${text.length}`);
  const whole = await send('export', { by: 'customerId', text: '890', profiles: [profileId] });
  t.equal(whole.json.events.length, 30_001);
  t.match(whole.headers.get('content-disposition'), /^attachment; /);
  for (let n = 0; n < 250; n++) await app.shop.visit({ customerId: '891' }, `h${n}`);
  await app.shop.visit({ customerId: '891' }, 'h99');
  const { visits } = await find('891');
  t.same([visits.count, visits.rows.length, visits.rows[0]], [250, 100, ['h99', 2]]);
});

t.test('a service that is away, hangs, breaks off or is another one is reported in a sentence', async (t) => {
  const hung = await pretend(t, () => {});
  const cut = await pretend(t, (_, response) => {
    response.write('{"profileId":"p","events":[{"type"');
    setImmediate(() => response.destroy());
  });
  const stalled = await pretend(t, (_, response) => response.write('{"profileId":"p",'));
  const page = await pretend(t, (_, response) => response.end('<html>'));
  const other = await pretend(t, (_, response) =>
    response.writeHead(404).end('{"error":"There is nothing here."}'),
  );
  let followed = 0;
  const target = await pretend(t, (_, response) => {
    followed++;
    response.end('{}');
  });
  const elsewhere = await pretend(t, (_, response) => response.writeHead(302, { location: target }).end());
  for (const [url, status, error, key = KEY] of [
    ['http://127.0.0.1:1', 503, /^The service does not answer at DASHBOARD_API_URL/],
    [hung, 504, /^The service does not answer within 2 s/],
    [stalled, 504, /^The service does not answer within 2 s/],
    [cut, 503, /^The service ended its answer early/],
    [page, 502, /is no export/],
    [other, 502, /no GET and DELETE \/profile.*\(404\)/],
    [elsewhere, 502, /\(302\)/],
    [`${serviceUrl}/wrong`, 502, /BASE_PATH/],
    [serviceUrl, 503, /^The service refuses DASHBOARD_API_KEY/, 'sk_wrong_0123456789abcdef'],
  ] as const) {
    const { send, lines } = await open(t, url, key, 2_000);
    const answer = await send('find', { by: 'email', text: 'secret@mail.test' });
    t.equal(answer.status, status, error.source);
    t.match(answer.json.error, error);
    t.notMatch(lines.join(''), /secret|mail\.test|sk_/, 'the log has neither the address nor the key');
    const erased = await send('erase', { by: 'customerId', text: '7', profiles: ['p'] });
    t.ok(erased.status >= 500, 'an erasure says so, too');
  }
  t.equal(followed, 0, 'a redirect does not get the key');
});

t.test('browsers that leave before or during an answer free their place', async (t) => {
  let [asked, left] = [0, 0];
  const url = await pretend(t, (_, response) => {
    asked++;
    response.once('close', () => left++);
    // Half of them hang, and half begin an export that never ends.
    if (asked % 2 === 0) response.write('{"profileId":"p","items":[');
  });
  const { url: shown, anna, send } = await open(t, url);
  const body = JSON.stringify({ by: 'customerId', text: '7', profiles: ['p'] });
  const busy = async () => (await send('find', { by: 'customerId', text: 'x'.repeat(300) })).status;
  for (let round = 0; round < 3; round++) {
    const leaving = new AbortController();
    const before = asked;
    const answers = Array.from({ length: 8 }, () =>
      fetch(`${shown}/visitors/export`, { method: 'POST', headers: anna, body, signal: leaving.signal })
        .then((answer) => answer.text())
        .catch(() => 'left'),
    );
    await until('all eight have asked', () => asked === before + 8);
    t.equal(await busy(), 429, 'no ninth is let in');
    leaving.abort();
    t.same(await Promise.all(answers), Array(8).fill('left'));
    await until('the service is no longer asked', () => left === asked);
  }
});

t.test('a download that breaks off is seen as incomplete', async (t) => {
  const url = await pretend(t, (_, response) => {
    response.write('{"profileId":"p","items":[],"events":[');
    response.write('{"type":"add"}');
    setImmediate(() => response.destroy());
  });
  const { post, anna } = await open(t, url);
  const answer = await post(
    '/visitors/export',
    JSON.stringify({ by: 'customerId', text: '7', profiles: ['p'] }),
    anna,
  );
  t.equal(answer.status, 200);
  await t.rejects(answer.text());
});

t.test('`wishmeter dashboard` reaches the service by its settings', async (t) => {
  const config = readConfig({
    ...{
      ...SHOP,
      HOST: '127.0.0.1',
      DASHBOARD_PORT: '0',
      DASHBOARD_TOKEN: TOKEN,
      CLICKHOUSE_URL: clickhouseUrl,
    },
    ...{ DASHBOARD_LOGINS: `anna:${ANNA}`, DASHBOARD_VISITORS: 'on', DASHBOARD_API_KEY: KEY },
    DASHBOARD_API_URL: `${serviceUrl}/`,
  });
  const { customerId, profileId } = await makeCustomer();
  const { port, close } = await dashboard(config, pino({ level: 'silent' }, { write: () => {} }));
  t.teardown(close);
  const url = `http://127.0.0.1:${port}`;
  const headers = { cookie: await cookieFor(url, ANNA) };
  const body = JSON.stringify({ by: 'any', text: customerId });
  const found = await fetch(`${url}/visitors/find`, { method: 'POST', headers, body });
  t.match(await found.json(), { profileId });
});

const chromium = findChromium();
t.test('in a browser', needs(chromium.missing), async (t) => {
  const browser = await launchChromium(t, chromium.shell);
  await visitorsInBrowser(t, browser, fixtures);
});
