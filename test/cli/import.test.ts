// `wishmeter import` next to `start`: HTTP, SQL and receivers have each item once, whatever is repeated, killed or erased.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import { IMPORT_NAMES } from '../../src/extras/import/columns.js';
import { startTool } from '../extras/receivers/fixtures.js';
import { startApp } from '../harness/app.js';
import { startTestCluster } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import { runHere } from './in-process.js';
import { apiKey, shopAt, sql, started } from './started.js';
import { spawnWishmeter, tempDir, until, wishmeter } from './wishmeter.js';

/** 255 characters, 1,020 bytes. */
const LONG_HANDLE = '😀'.repeat(255);
const HEADER = 'Customer ID,session_id,Product ID,variant_id,Handle,Title,Price,Created At';
const MARCH = '2024-03-05T10:15:00.000Z';
const ONE = '2024-03-01T00:00:00.000Z';

const dir = await tempDir(t);
const ALERTS = { RECEIVERS_PRIVATE: 'allow', PRODUCT_ALERTS: 'on', MAX_ITEMS: '5' };
const service = await started(t, dir, ALERTS);
const shop = shopAt(service.url, await apiKey(dir));

async function run(content: string | Buffer, ...args: string[]) {
  const file = join(await tempDir(t), 'old.csv');
  await writeFile(file, content);
  return runHere('import', [...args, file], { DATA_DIR: dir, ...ALERTS });
}

const csv = (...rows: string[]) => `${[HEADER, ...rows].join('\n')}\n`;
const row = (customer: string, product: string, at = MARCH, price = '79.90') =>
  `${customer},,${product},,handle-${product},Title ${product},${price},${at}`;
const ask = (query: string) => sql(service.clickhouseUrl, query);

async function eventsOf(customerId: string): Promise<string[]> {
  const [marker] = [`marker-${Math.random()}`];
  await shop.event({ sessionId: marker }, 'share');
  await until(
    'all is flushed',
    async () => (await ask(`SELECT count() FROM events WHERE session_id = '${marker}'`)) === '1',
  );
  const rows = await ask(
    `SELECT origin, type, product_id, toString(occurred_at) FROM events WHERE customer_id = '${customerId}' ORDER BY occurred_at, product_id`,
  );
  return rows === '' ? [] : rows.split('\n').map((line) => line.replaceAll('\t', ' '));
}

/** Waits for this answer: tables fed by rows are filled a moment after `events`. */
const answers = (query: string, expected: string) =>
  until(`${query}: ${expected}`, async () => (await ask(query)) === expected);

const briefly = (items: { productId: string; addedAt: string }[]) =>
  items.map(({ productId, addedAt }) => `${productId} ${addedAt}`);

t.test('an imported item is listed and counted at its old date, once, and no receiver gets it', async (t) => {
  const tool = await startTool(t);
  const receivers = async (...args: string[]) =>
    JSON.parse((await runHere('receivers', args, { DATA_DIR: dir, ...ALERTS })).stdout);
  const { id } = await receivers('add', tool.url, '*');
  const file = csv(
    row('100', '1', MARCH),
    row('100', '2', '2024-04-01T12:00:00+02:00', '5'),
    `,s-100,3,33,${LONG_HANDLE},"Blue ""hat"",\nlarge",7.5,2024-03-06 08:00:00`,
  );
  t.match(await run(file), { code: 0, stdout: /3 rows of 2 visitors\.\n {2}3 {2}added\n/, stderr: '' });
  t.same(briefly(await shop.items({ customerId: '100' })), ['2 2024-04-01T10:00:00.000Z', `1 ${MARCH}`]);
  t.match(await shop.items({ sessionId: 's-100' }), [
    {
      ...{ productId: '3', variantId: '33', productHandle: LONG_HANDLE, productTitle: 'Blue "hat", large' },
      ...{ price: '7.50', compareAt: null, quantity: 1, source: 'pdp' },
      addedAt: '2024-03-06T08:00:00.000Z',
    },
  ]);
  t.same(await eventsOf('100'), [
    'import add 1 2024-03-05 10:15:00.000',
    'import add 2 2024-04-01 10:00:00.000',
  ]);
  const march = `(from = '2024-03-01', to = '2024-03-31')`;
  await answers(`SELECT product_id, wishers FROM most_wished${march} ORDER BY product_id`, '1\t1\n3\t1');
  await answers(`SELECT count() FROM open_wishes${march}`, '2');
  await answers("SELECT countIf(inventory_available IS NULL) FROM events WHERE origin = 'import'", '3');

  await shop.add({ customerId: '100' }, { productId: '9' });
  await until('the later wish is delivered', () => tool.delivered.length > 0);
  const { queued } = await receivers('replay', id, '--since', '2024-01-01T00:00:00Z');
  t.ok([1, 2].includes(queued), 'what was imported is not sent again, either');
  await until('that, too', () => tool.delivered.length > 1);
  t.ok(tool.delivered.every(({ body }) => !body.timestamp.startsWith('2024')));
  await receivers('pause', id);
});

t.test('a repeated import changes nothing, and brings no removed item back', async (t) => {
  const file = csv(row('200', '1'), row('200', '2'), row('200', '3'));
  await run(file);
  await shop.remove({ customerId: '200' }, { productId: '2' });
  await shop.add({ customerId: '200' }, { productId: '3', productTitle: 'Now' });
  const [items, events] = [await shop.items({ customerId: '200' }), await eventsOf('200')];
  t.equal(items.length, 2);
  const again = await run(file);
  t.match(again, { code: 0, stdout: / 2 {2}imported before\n {2}1 {2}imported before and removed since/ });
  t.same(await shop.items({ customerId: '200' }), items);
  t.same(await eventsOf('200'), events);
});

t.test('an import keeps the fields of an existing item, and gives it the earlier date', async (t) => {
  await shop.add(
    { customerId: '300', sessionId: 's-300' },
    { productId: '1', productTitle: 'Own', price: '1.00' },
  );
  await shop.add({ customerId: '300' }, { productId: '2' });
  const before = await shop.items({ customerId: '300' });
  // The session is linked by now.
  const file = csv(`,s-300,1,,other,Other,2.00,${MARCH}`, row('300', '2', MARCH), row('300', '2', ONE));
  t.match(await run(file), { stdout: /2 {2}on the list before.*\n {2}1 {2}of the same item as another row/ });
  t.same(
    await shop.items({ customerId: '300' }),
    before.map((item) => ({ ...item, addedAt: item.productId === '1' ? MARCH : ONE })).reverse(),
  );
  t.match(
    (await eventsOf('300')).filter((one) => one.startsWith('import')),
    ['import add 2 2024-03-01 00:00:00.000'],
    'the earliest of the file',
  );
  await run(csv(row('300', '2', '2023-01-01')));
  await run(csv(row('300', '2', MARCH)));
  t.match(briefly(await shop.items({ customerId: '300' })), [`1 ${MARCH}`, '2 2023-01-01T00:00:00.000Z']);
  t.equal((await eventsOf('300')).filter((one) => one.startsWith('import add 2')).length, 1, 'once');
});

t.test('a dry run of an import says what would be done, and changes nothing', async (t) => {
  await run(csv(row('400', '1')));
  const file = csv(
    ...[row('400', '1'), row('400', '2'), 'x', row('400', '3', 'yesterday', 'free')],
    ...['4', '5', '6', '7'].map((product) => row('400', product)),
    ...['4', '5', '6', '7', '8', '9'].map((product) => row('401', product)),
  );
  const dry = await run(file, '--dry-run');
  t.match(dry, { code: 1, stderr: '' });
  t.match(dry.stdout, 'line 4: has 1 values, and the header names 8\n');
  t.match(dry.stdout, /line 5: addedAt must be a time of ISO 8601.*; price must be a decimal/);
  t.match(dry.stdout, /line 9: the list is full/);
  t.match(dry.stdout, /line 15: the list is full/);
  t.match(
    dry.stdout,
    /Nothing was changed\.\n {2}9 {2}would be added\n {2}1 {2}imported before\n {2}4 {2}left out/,
  );
  t.equal((await shop.items({ customerId: '400' })).length, 1);
  t.same(await eventsOf('401'), []);
  const real = await run(file);
  t.match(real.stdout, /\n {2}9 {2}added\n {2}1 {2}imported before\n {2}4 {2}left out/, 'the same');
  t.equal((await shop.items({ customerId: '401' })).length, 5, 'MAX_ITEMS');
});

t.test('an import that is stopped, killed and run again adds each item once', async (t) => {
  const file = join(await tempDir(t), 'old.csv');
  const rows = Array.from({ length: 12_000 }, (_, i) => row(`k-${i % 4_000}`, `${Math.floor(i / 4_000)}`));
  await writeFile(file, csv(...rows));
  const count = async (what = 'count()') =>
    Number(await ask(`SELECT ${what} FROM events WHERE customer_id LIKE 'k-%'`));
  const endedBy = async (signal: NodeJS.Signals) => {
    const before = await count();
    const { child, ended } = spawnWishmeter({ args: ['import', file], env: { DATA_DIR: dir } });
    await until('some more are in', async () => (await count()) > before);
    child.kill(signal);
    return await ended;
  };
  const stopped = await endedBy('SIGINT');
  t.match(stopped, { code: 1, stdout: /Stopped\. What is imported stays/, stderr: '' });
  t.notMatch(stopped.stdout, '12,000  added');
  t.match(await endedBy('SIGKILL'), { signal: 'SIGKILL' }, 'it was in the middle');
  const last = await wishmeter({ args: ['import', file], env: { DATA_DIR: dir } });
  t.match(last, { code: 0, stdout: /imported before/ });
  await until('all are in', async () => (await count()) === rows.length);
  t.equal(await count('uniqExact(customer_id, product_id)'), rows.length);
  t.equal(await ask("SELECT uniqExact(event_id) FROM events WHERE customer_id LIKE 'k-%'"), `${rows.length}`);
});

t.test(
  'an import on a cluster adds each item once while visitors add and remove the same items',
  async (t) => {
    const cluster = await startTestCluster(t);
    const app = await startApp(t, cluster);
    const visitors = Array.from({ length: 450 }, (_, i) =>
      i % 2 === 0 ? { customerId: `both-${i}` } : { sessionId: `both-${i}` },
    );
    const file = join(await tempDir(t), 'old.csv');
    const rows = visitors.map(({ customerId, sessionId }) =>
      customerId ? row(customerId, '1') : `,${row(sessionId as string, '1').replace(',,', ',')}`,
    );
    await writeFile(file, csv(...rows));
    const env = { REDIS_URL: cluster.urls.join(','), KEY_PREFIX: app.prefix };
    const importOnce = () => wishmeter({ args: ['import', file], env });
    const read = async () => {
      const events = await rowsOf(cluster, app);
      return Promise.all(
        visitors.map(async (visitor, i) => ({
          items: await app.shop.items(visitor),
          events: events.filter((event) => [event['customer_id'], event['session_id']].includes(`both-${i}`)),
        })),
      );
    };

    let hasEnded = false;
    const importing = importOnce().finally(() => {
      hasEnded = true;
    });
    const change = async (first: number) => {
      for (let i = first; !hasEnded; i += 7) {
        const act = i % 3 === 0 ? app.shop.remove : app.shop.add;
        await act(visitors[i % visitors.length] as object, { productId: '1' });
      }
    };
    await Promise.all(Array.from({ length: 16 }, (_, i) => change(i * 97)));
    t.match(await importing, { code: 0, stderr: '' });

    const found = await read();
    const wrong = found.filter(({ items, events }) => {
      const isImportedOnce = events.filter(({ origin }) => origin === 'import').length === 1;
      const isOnList = events.at(-1)?.type === 'add';
      const isEarlier = events.some(({ type }) => type === 'remove') || items[0]?.addedAt === MARCH;
      return !isImportedOnce || items.length !== (isOnList ? 1 : 0) || !isEarlier;
    });
    t.same(wrong, []);
    const changed = found.filter(({ events }) => events.length > 1);
    t.equal(
      new Set(changed.map(({ events }) => events[0]?.origin)).size,
      2,
      'changes before and after the import of their item',
    );
    t.match(await importOnce(), { code: 0, stdout: /imported before/ });
    t.same(await read(), found, 'run again it changes nothing');
  },
);

t.test(
  'an import maps e-mail addresses to customers by a file, and lists rows without a customer',
  async (t) => {
    const old = `email,product_id,url,title,price,added\n${['A@x.example', 'b@x.example', 'c@x.example']
      .map(
        (email, i) =>
          `${email},1,https://shop.example/products/red-shoe?variant=${i},Red shoe,1.00,2024-03-05`,
      )
      .join('\n')}\n`;
    t.match(await run(old), { code: 1, stdout: /line 2: only an e-mail address .*A@x.example.*--emails/ });
    const emails = join(await tempDir(t), 'customers.csv');
    await writeFile(
      emails,
      "Customer ID;Email\n'500;a@X.example\n501;b@x.example\n502;b@x.example\n501;B@x.example\n",
    );
    const { stdout } = await run(old, '--emails', emails);
    t.match(
      stdout,
      /line 3: two customers have it in .*: b@x\.example\nline 4: no customer has it in .*: c@x/,
    );
    t.match(await shop.items({ customerId: '500' }), [{ productId: '1', productHandle: 'red-shoe' }]);
  },
);

t.test('an import reads JSON lines, semicolons, tabs, and files of Excel', async (t) => {
  const product_id = 'gid://shopify/Product/61';
  const json = { customerId: 600, product_id, Handle: 'h', title: 'T', price: 30 };
  const lines = [
    JSON.stringify({ ...json, created_at: MARCH, variantId: null, properties: { size: 7 }, inStock: false }),
    '{',
    JSON.stringify({ ...json, product_id: 62, addedAt: 1_709_633_701_000, image: 'x', currency: 'eur' }),
  ];
  const fed = await runHere('import', ['-'], { DATA_DIR: dir }, lines.join('\n'));
  t.match(fed, { code: 1, stdout: /^line 2: is not JSON\nStandard input: 3 rows/ });
  t.match(await shop.items({ customerId: '600' }), [
    { productId: '62', currencyCode: 'EUR', image: 'x', addedAt: '2024-03-05T10:15:01.000Z', price: '30.00' },
    { productId: '61', properties: { size: 7 }, inventoryAvailable: false, addedAt: MARCH },
  ]);
  for (const [customer, delimiter] of [
    ['601', ';'],
    ['602', '\t'],
  ] as const) {
    const text = csv(row(customer, '1'), '', ',,,,,,,').replaceAll(',', delimiter).replaceAll('\n', '\r\n');
    t.match(await run(`\ufeff${text}`), { code: 0, stdout: / 1 {2}added/ }, JSON.stringify(delimiter));
  }
  t.match((await shop.items({ customerId: '602' })).length, 1);

  const faulty = csv(row('603', '1'), row('603', '2', MARCH, 'free')).replaceAll(',', ';');
  const excel = await run(`\ufeffsep=;\r\n${faulty.replaceAll('\n', '\r\n')}`);
  t.match(excel, { code: 1, stdout: /^line 4: price [\s\S]* 1 {2}added/ }, "Excel's line is not the header");
});

t.test('an import of more rows of a visitor than fit in memory keeps each earliest date', async (t) => {
  const title = 'T'.repeat(250);
  const long = (product: string, at: string) =>
    row('650', product, at).replace(`Title ${product}`, title.padEnd(4 * title.length, product));
  const rows = Array.from({ length: 30_000 }, (_, n) => long(`${1 + (n % 6)}`, n < 29_994 ? MARCH : ONE));
  const file = join(await tempDir(t), 'long.csv');
  await writeFile(file, csv(...rows));
  const env = { DATA_DIR: dir, ...ALERTS, NODE_OPTIONS: '--max-old-space-size=64' };
  t.match(await wishmeter({ args: ['import', '--dry-run', file], env }), {
    code: 1,
    stdout: /30,000 rows of 1 visitors[\s\S]* 5 {2}would be added\n +29,994 .*\n +1 {2}left/,
  });
  const full = await wishmeter({ args: ['import', file], env: { ...env, TMPDIR: '/proc' } });
  t.match(full, { code: 1, stderr: /^wishmeter: \/proc can't be written \(ENOENT\): set TMPDIR [^\n]+\n$/ });
  const { code, stdout } = await run(csv(...rows, row('651', '1')));
  t.match({ code, stdout }, { code: 1, stdout: /30,001 rows of 2 visitors[\s\S]* 6 {2}added\n +29,994 / });
  const items = await shop.items({ customerId: '650' });
  t.same([items.length, new Set(items.map(({ addedAt }) => addedAt))], [5, new Set([ONE])]);
});

t.test('an import refuses a file of another format with one sentence, before anything changes', async (t) => {
  const latin = Buffer.concat([
    Buffer.from(csv(row('700', '1'))),
    Buffer.from('700,,2,,caf\xe9,x,1.00,2024-01-01\n', 'latin1'),
  ]);
  for (const [content, sentence] of [
    [latin, /is not UTF-8 from line 3 on/],
    [csv(row('700', '1'), '700,,2,,"no end,x,1.00,2024-01-01'), /Quote Not Closed/],
    [
      'customer,product\n1,2\n',
      /lacks columns: customerId or sessionId or email, productId, .*customer, product/,
    ],
    ['[{"customerId": 1}]', /is a JSON list/],
    ['', /is empty/],
    [Buffer.from('PK\u0003\u0004…'), /workbook/],
    [gzipSync(csv(row('700', '1'))), /is compressed: gzip -dc/],
    [Buffer.from(`\ufeff${csv(row('700', '1'))}`, 'utf16le'), /is UTF-16.* iconv -f UTF-16 -t UTF-8/],
    [Buffer.from(csv(row('700', '1')), 'utf16le'), /is UTF-16.* iconv -f UTF-16LE -t UTF-8/],
    [Buffer.from(csv(row('700', '1')), 'utf16le').swap16(), /is UTF-16.* iconv -f UTF-16BE -t UTF-8/],
  ] as const) {
    const { code, stderr, stdout } = await run(content);
    t.match({ code, stderr, stdout }, { code: 1, stderr: sentence, stdout: '' }, String(sentence));
    t.match(stderr, /^wishmeter: [^\n]+\n$/, 'one sentence');
  }
  t.match(await runHere('import', [join(dir, 'none.csv')], { DATA_DIR: dir }), {
    ...{ code: 1, stderr: /none\.csv can't be read: ENOENT/ },
  });
  for (const args of [[dir], ['--emails', dir, 'package.json']])
    t.match(await runHere('import', args, { DATA_DIR: dir }), { code: 1, stderr: /is a folder/ });
  const unreadable = await runHere('import', ['/proc/self/mem'], { DATA_DIR: dir });
  t.match(unreadable, { code: 1, stderr: /\/proc\/self\/mem can't be read: EIO/ });
  t.same(await shop.items({ customerId: '700' }), []);
});

t.test('an import names every fault of a line', async (t) => {
  const faulty = async (name: string, fault: RegExp, changes: Record<string, string>) => {
    const item = { productId: '1', handle: 'h', title: 't', price: '1' };
    const given = Object.entries({ customerId: '800', ...item, added: '2024-01-01', ...changes });
    const text = `${given.map(([field]) => field).join(',')}\n${given.map(([, value]) => value).join(',')}\n`;
    const { code, stdout } = await run(text, '--dry-run');
    t.match({ code, stdout }, { code: 1, stdout: fault }, name);
  };
  await faulty('an id of a spreadsheet', /line 2: customerId has lost digits/, { customerId: '6.94E+12' });
  await faulty('a junk id', /line 2: customerId must be an id/, { customerId: 'null' });
  await faulty('two faults', /line 2: .*productTitle.*; price/, { title: ' ', price: 'x' });
  await faulty('the future', /addedAt is in the future/, { added: '2999-01-01T00:00:00Z' });
  await faulty('no such day', /addedAt must be a time/, { added: '2024-02-30' });
  await faulty('half a piece', /quantity must be integer/, { quantity: '1.5' });
});

t.test('an import leaves out a visitor who is being erased', async (t) => {
  await run(csv(row('900', '1')));
  await shop.erase({ customerId: '900' });
  t.match(await run(csv(row('900', '1'), row('901', '1'))), {
    ...{ code: 1, stdout: /line 2: its visitor is being erased.*\n[^\n]*\n {2}1 {2}added/ },
  });
  t.same(await shop.items({ customerId: '900' }), []);
});

t.test('an imported price gives way to a later one, even from a browser', async (t) => {
  await run(csv(row('1000', '77', MARCH, '100')));
  const price = "SELECT price_now FROM product_variants WHERE product_id = '77'";
  await answers(price, '100'); // the only one that is known
  const occurredAt = new Date(Date.now() - 86_400_000).toISOString().slice(0, -1);
  const line = {
    ...{ event_id: '018e0000-0000-7000-8000-000000000000', type: 'add', occurred_at: occurredAt },
    ...{ profile_id: 'p', origin: 'item', product_id: '77', price: '80.00' },
    ...{ from_browser: true, payload: '{}' },
  };
  const insert = `INSERT INTO events_stored FORMAT JSONEachRow ${JSON.stringify(line)}`;
  t.match(await runHere('sql', ['--write', insert], { DATA_DIR: dir }), { code: 0, stderr: '' });
  await answers(price, '80'); // the later price, from a browser
});

t.test('an import adds nobody while the visitors of the shop are being erased', async (t) => {
  const headers = { 'content-type': 'application/json', 'x-api-key': await apiKey(dir) };
  const redact = await fetch(`${service.url}/webhook/shop/redact`, { method: 'POST', headers, body: '{}' });
  t.equal(redact.status, 200);
  t.match(await runHere('requests', ['confirm', '1'], { DATA_DIR: dir }), { code: 0 });
  await until('an erasure has begun', async () => {
    return (await run(csv(row('1100', '1')))).stdout.includes('is being erased');
  });
});

t.test('every column name of an import means one field', (t) => {
  const names = Object.values(IMPORT_NAMES).flat();
  t.equal(new Set(names).size, names.length);
  for (const name of names) t.match(name, /^[a-z]+$/);
  t.end();
});
