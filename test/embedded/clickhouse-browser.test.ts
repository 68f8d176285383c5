// An evil page in a real browser on the machine of the embedded ClickHouse: it may send requests to loopback, as every
// page may, and tries all that a page has. It reads nothing and changes nothing.

import { createServer, type RequestListener, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { findChromium, launchChromium } from '../harness/chromium.js';
import { needs } from '../harness/needs.js';
import { openClickHouse } from './fixtures.js';

const chromium = findChromium();
const WRITE = "INSERT INTO visitors VALUES ('written')";
const WAIT_LIMIT = { timeout: 90_000 };

if ('missing' in chromium) t.test('an evil page', needs(chromium.missing), () => {});
else {
  const readable = { database: 'default', tables: ['visitors'] };
  const { origin: clickhouse, client, one } = await openClickHouse(t, { readable });
  await client.command({
    query: 'CREATE TABLE visitors (session_id String) ENGINE = MergeTree ORDER BY session_id',
  });
  // What a TSVRaw answer would be as a script, if a browser took it for one.
  const stolen = "window.stolen='session-4711'";
  await client.insert({ table: 'visitors', values: [{ session_id: stolen }], format: 'JSONEachRow' });

  const listen = async (listener: RequestListener, host: string) => {
    const server = createServer(listener);
    await new Promise<void>((up) => server.listen(0, '127.0.0.1', up));
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://${host}:${(server.address() as AddressInfo).port}`;
  };
  // Everything goes through a relay that notes what arrived and how it was answered: a page is not told.
  const answers: { readonly what: string; readonly status: number | undefined }[] = [];
  const origin = await listen((req, res) => {
    const { method, url = '/', headers } = req;
    const onward = request(new URL(url, clickhouse), { method, headers }, (answer) => {
      answers.push({ what: `${method} ${headers['sec-fetch-dest']} ${url}`, status: answer.statusCode });
      res.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(res);
    });
    req.pipe(onward);
  }, '127.0.0.1');
  const to = (query: string) => `${origin}/?query=${encodeURIComponent(query)}`;
  const read = to('SELECT session_id FROM visitors FORMAT TSVRaw');
  const write = to(WRITE);
  /** Another site's page. */
  const evil = (page: string) =>
    listen((req, res) => {
      res.writeHead(200, { 'Content-Type': 'text/html' }).end(req.url === '/' ? page : '');
    }, 'localhost');
  const browser = await launchChromium(t, chromium.file);

  t.test('no element and no script of another site reads or writes', async (t) => {
    t.equal((await (await fetch(read)).text()).trim(), stolen, 'the analyst needs no password');
    answers.length = 0;
    const url = await evil(`<!doctype html>
      <script src="${read}"></script>
      <img src="${write}"><img src="${read}">
      <link rel="stylesheet" href="${read}">
      <iframe src="${read}"></iframe><iframe src="${write}"></iframe>
      <script>
        const outcome = async (send) => {
          try { const answer = await send(); return answer.type + ' ' + (await answer.text()); }
          catch (error) { return 'failed'; }
        };
        (async () => {
          const seen = [String(window.stolen)];
          for (const mode of ['no-cors', 'cors'])
            for (const init of [{}, { method: 'POST', body: '' }, { method: 'POST', body: "${WRITE}" }])
              for (const at of ["${read}", "${write}", "${origin}/"])
                seen.push(await outcome(() => fetch(at, { mode, ...init })));
          navigator.sendBeacon("${write}");
          navigator.sendBeacon("${origin}/", "${WRITE}");
          window.seen = seen;
        })();
      </script>`);
    const page = await browser.newPage();
    await page.goto(url);
    await page.waitForFunction('window.seen', undefined, WAIT_LIMIT);
    t.equal(await page.evaluate('String(window.stolen)'), 'undefined');
    for (const frame of page.frames().slice(1))
      t.notMatch(await frame.content().catch(() => ''), 'session-4711');
    t.notMatch(await page.evaluate<string>('window.seen.join()'), 'session-4711');
    const arrived = answers.splice(0);
    for (const what of [/^GET script/, /^GET image .*INSERT/, /^GET style/, /^GET iframe/, /^\w+ empty/])
      t.ok(
        arrived.some((one) => what.test(one.what)),
        `${what} did arrive`,
      );
    t.same(
      arrived.filter(({ status }) => status !== 403),
      [],
      'and were refused',
    );
    t.equal(await one('SELECT count() FROM visitors'), '1');
  });

  t.test('a form of another site is refused', async (t) => {
    const url = await evil(`<!doctype html>
      <form method="post" enctype="text/plain" action="${origin}/">
        <input name="${WRITE} --" value="x">
      </form><script>document.forms[0].submit()</script>`);
    const page = await browser.newPage();
    const answered = page.waitForResponse((answer) => answer.url().startsWith(origin), WAIT_LIMIT);
    await page.goto(url).catch(() => {}); // its own navigation may go before
    t.equal((await answered).status(), 403);
    t.equal(await one('SELECT count() FROM visitors'), '1');
  });

  t.test('the address bar of the machine’s own browser reads', async (t) => {
    const page = await browser.newPage();
    t.match(await (await page.goto(read.replace('TSVRaw', 'JSON')))?.text(), 'session-4711');
    t.equal((await page.goto(write))?.status(), 403);
  });
}
