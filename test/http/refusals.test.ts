// What is refused changes nothing, and its error says what would be right: which field, and where JSON ends being JSON;
// one issue for one fault.

import t, { type Test } from 'tap';
import { type Answer, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import type { Document } from '../harness/openapi.js';
import { startTestRedis } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';

const JUNK = 'null undefined NaN 0 -1 none guest anonymous true false'.split(' ').concat('[object Object]');

/** An id's or a text's faults: value, and why it is one. */
const WRONG_IDS: readonly [unknown, string][] = [
  [5.5, 'a fraction'],
  [true, 'a boolean'],
  [['x'], 'a list'],
  [{}, 'an object'],
  ['a\r\nb', 'CR and LF inside'],
  ['a\u0000b', 'NUL inside'],
  ['a\u007fb', 'DEL inside'],
  ['a\u0085b', 'a C1 control inside'],
  ['\ud800', 'a lone high surrogate'],
  ['a\udc00b', 'a lone low surrogate'],
  ['x'.repeat(256), '256 bytes'],
  [`${'é'.repeat(127)}xx`, '256 bytes in 129 characters'],
  ['😀'.repeat(64), '256 bytes in 64 characters'],
  ['gid://shopify/Customer/0', 'a gid of no customer'],
  ...JUNK.flatMap((junk): [string, string][] => [
    [junk, 'junk'],
    [junk.toUpperCase(), 'junk in capitals'],
    [` ${junk.toLowerCase()} `, 'junk between blanks'],
  ]),
];

const WRONG_TEXTS: readonly [string, unknown, string][] = [
  ...['device', 'locale', 'email', 'firstName', 'lastName'].flatMap((name): [string, unknown, string][] => [
    [name, 7, 'a number'],
    [name, {}, 'an object'],
    [name, 'a@\u0000b', 'NUL inside'],
    [name, 'a@\ud83d', 'a lone surrogate'],
  ]),
  ['device', 'x'.repeat(65), '65 bytes'],
  ['device', 'é'.repeat(33), '66 bytes in 33 characters'],
  ['locale', 'x'.repeat(65), '65 bytes'],
  ['email', `@${'x'.repeat(320)}`, '321 bytes'],
  ['email', 'nobody.example', 'no @'],
  ['firstName', 'x'.repeat(256), '256 bytes'],
  ['lastName', 'x'.repeat(256), '256 bytes'],
];

const WRONG_HANDLES: readonly [unknown, string][] = [['', 'empty'] as [unknown, string], ...WRONG_IDS].filter(
  ([value, why]) => !why.startsWith('junk') && !String(value).startsWith('gid:'),
);

/** Bodies that are wrong for every operation, and the paths of their faults. */
function wrongIdentities(rest: object): [unknown, string[], string][] {
  const good = { sessionId: 'good' };
  return [
    [{ ...rest }, ['/identity'], 'no identity'],
    [{ ...rest, identity: null }, ['/identity'], 'identity null'],
    [{ ...rest, identity: 'x' }, ['/identity'], 'identity a string'],
    [{ ...rest, identity: [] }, ['/identity'], 'identity a list'],
    [{ ...rest, identity: {} }, ['/identity'], 'no id'],
    [{ ...rest, identity: { customerId: null, sessionId: null } }, ['/identity'], 'both ids null'],
    ...['sessionId', 'customerId'].flatMap((name) =>
      WRONG_IDS.map(([value, why]): [unknown, string[], string] => [
        { ...rest, identity: { [name]: value } },
        [`/identity/${name}`],
        `${name}: ${why}`,
      ]),
    ),
    ...WRONG_TEXTS.map(([name, value, why]): [unknown, string[], string] => [
      { ...rest, identity: { ...good, [name]: value } },
      [`/identity/${name}`],
      `${name}: ${why}`,
    ]),
  ];
}

const NOT_OBJECTS: readonly [unknown, string[], string][] = [
  ['null', [''], 'null'],
  ['[]', [''], 'a list'],
  ['"text"', [''], 'a string'],
  ['1', [''], 'a number'],
];

const NOT_JSON: readonly [string | Buffer, string][] = [
  ['{', 'cut short'],
  ["{'a':1}", 'single quotes'],
  ['{"a":1}{', 'something behind it'],
  ['undefined', 'a word'],
  ['a=1&b=2', 'a form'],
  [Buffer.from('{"identity":{"sessionId":"\xff"},"productHandle":"x"}', 'latin1'), 'invalid UTF-8'],
  [Buffer.from([...Buffer.from('{"productHandle":"'), 0xed, 0xa0, 0x80, 0x22, 0x7d]), 'a surrogate as UTF-8'],
  [Buffer.from([...Buffer.from('{"productHandle":"'), 0xc0, 0x80, 0x22, 0x7d]), 'an overlong NUL'],
  [Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]), 'gzip'],
];

t.test('wrong requests', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
  // Something to be damaged: the visitor that the wrong requests name where they name one.
  const visit = { identity: { sessionId: 'good' }, productHandle: 'x' };
  await app.post('/product/visit', visit);
  await app.post('/event', { identity: { sessionId: 'good', email: 'a@b' }, type: 'add' }, TRUSTED);

  const changesNothing = async (t: Test, tests: () => Promise<void>) => {
    const before = await dumpRedis(redis, app.prefix);
    await tests();
    t.same(await dumpRedis(redis, app.prefix), before, 'Redis is as it was');
  };

  const operations = [
    ['POST', '/product/visit', { productHandle: 'x' }],
    ['DELETE', '/product/visit', { productHandle: 'x' }],
    ['POST', '/event', { type: 'add' }],
  ] as const;

  for (const [method, path, rest] of operations) {
    t.test(`${method} ${path}: each fault is named by its path, and nothing is changed`, async (t) => {
      const own = path === '/event' ? wrongEvents() : wrongHandles();
      await changesNothing(t, async () => {
        for (const [body, paths, why] of [...NOT_OBJECTS, ...wrongIdentities(rest), ...own])
          expectIssues(t, await app.send(method, path, body, TRUSTED), paths, why);
        for (const [body, why] of NOT_JSON) {
          const { status, json } = await app.send(method, path, body, TRUSTED);
          t.match({ status, json }, { status: 400, json: { code: 'invalid_json', error: String } }, why);
          t.same(Object.keys(json), ['error', 'code'], 'no issues: no field is at fault');
        }
      });
    });
  }

  t.test('every operation with a body refuses what is no object of JSON, and changes nothing', async (t) => {
    const { paths }: Document = (await app.get('/openapi.json')).json;
    await changesNothing(t, async () => {
      for (const [path, methods] of Object.entries(paths))
        for (const [method, { requestBody }] of Object.entries(methods)) {
          if (requestBody === undefined || path.startsWith('/webhook/')) continue;
          const send = (body: unknown) =>
            app.send(method.toUpperCase(), path.replace('{id}', 'x'), body, TRUSTED);
          for (const [body, paths, why] of NOT_OBJECTS)
            expectIssues(t, await send(body), paths, `${method} ${path}: ${why}`);
          t.match(await send('{'), { status: 400, json: { code: 'invalid_json' } }, `${method} ${path}`);
        }
    });
  });

  t.test('wrong fields are named, and change nothing', async (t) => {
    const identity = { sessionId: 'good' };
    const item = { identity, productId: '1001', variantId: '2002' };
    const [ids, wrongIds] = [{ identity: { sessionId: 'null', device: 1 } }, ['/device', '/sessionId']];
    const required =
      'compareAt inventoryAvailable price productHandle productId productTitle quantity source';
    const cases: [path: string, body: object, paths: string[]][] = [
      [
        '/item/add',
        { identity: {}, price: 1, quantity: 0, source: 'x' },
        ['/identity', ...required.split(' ').map((name) => `/${name}`)],
      ],
      ['/item/add', { ...ITEM, ...ids }, wrongIds.map((name) => `/identity${name}`)],
      ['/item/remove', { ...item, ...ids }, wrongIds.map((name) => `/identity${name}`)],
      ['/item/remove', { ...item, productId: '' }, ['/productId']],
      ['/item/remove', { ...item, variantId: -2002, event: 'add' }, ['/event', '/variantId']],
      ['/item/list', {}, ['/identity']],
      ['/share', {}, ['/identity']],
      ...['link', 'WhatsApp', 1, ['Link']].map((channel): [string, object, string[]] => [
        '/share',
        { identity, channel },
        ['/channel'],
      ]),
      ['/profile/guest', { sessionId: null, customerId: '5' }, ['/sessionId']],
      ['/profile/guest', { sessionId: 'g', email: 'none' }, ['/email']],
      ['/profile/merge', { identity: {} }, ['/identity/customerId', '/identity/sessionId']],
      ['/profile/merge', { identity: { sessionId: 'm', customerId: 'guest' } }, ['/identity/customerId']],
    ];
    await changesNothing(t, async () => {
      for (const [path, body, paths] of cases)
        expectIssues(t, await app.post(path, body, TRUSTED), paths, `${path} ${JSON.stringify(body)}`);
    });
  });

  t.test('GET and DELETE by query: each fault is named by its parameter, and changes nothing', async (t) => {
    const [sessionId, productHandle] = ['good', 'x'];
    const queries: [parameters: Record<string, string>, raw: string, paths: string[], why: string][] = [
      [{}, '', ['', '/productHandle'], 'nothing given'],
      [{ productHandle }, '', [''], 'no id'],
      [{ sessionId }, '', ['/productHandle'], 'no handle'],
      [{ sessionId, productHandle: 'a\nb' }, '', ['/productHandle'], 'LF in the handle'],
      [{ sessionId, productHandle: 'x'.repeat(256) }, '', ['/productHandle'], 'handle of 256 bytes'],
      [{ sessionId: 'a\u0000', productHandle }, '', ['/sessionId'], 'NUL in the id'],
      [{ sessionId: 'null', productHandle }, '', ['/sessionId'], 'junk'],
      [{ customerId: 'x'.repeat(256), productHandle }, '', ['/customerId'], 'id of 256 bytes'],
      [{ sessionId, device: 'x'.repeat(65), productHandle }, '', ['/device'], 'device of 65 bytes'],
      [{ sessionId, productHandle }, '&sessionId=other', ['/sessionId'], 'an id given twice'],
      [{ sessionId }, '&productHandle=%FF', ['/productHandle'], 'invalid UTF-8 in the handle'],
      [{ productHandle }, '&sessionId=a%ED%A0%80', ['/sessionId'], 'a surrogate as UTF-8'],
      [{ productHandle }, '&sessionId=100%', ['/sessionId'], 'a percent sign that encodes nothing'],
    ];
    await changesNothing(t, async () => {
      for (const [parameters, raw, paths, why] of queries) {
        const query = withQuery('/product/visit', parameters) + raw;
        expectIssues(t, await app.get(query, TRUSTED), paths, `GET: ${why}`);
        expectIssues(t, await app.del(query, undefined, TRUSTED), paths, `DELETE: ${why}`);
      }
    });
  });

  t.test('all faults of a body are listed, each with what would be right', async (t) => {
    const identity = {
      customerId: 'null',
      sessionId: 1,
      device: 'x'.repeat(65),
      email: 'none',
      lastName: false,
    };
    const { status, json } = await app.post('/event', { identity, type: 'buy', payload: [] }, TRUSTED);
    t.match({ status, json }, { status: 400, json: { code: 'invalid_request', error: String } });
    t.match(json.issues, [
      { path: '/identity/customerId', message: /^must be an id: 1 to 255 bytes of UTF-8/ },
      { path: '/identity/sessionId', message: 'must be string or null' },
      { path: '/identity/device', message: 'must have at most 64 bytes' },
      { path: '/identity/email', message: 'must be an e-mail address' },
      { path: '/identity/lastName', message: 'must be string or null' },
      { path: '/type', message: /^must be one of add, remove, / },
      { path: '/payload', message: 'must be object or null' },
    ]);
    t.same((await app.post('/product/visit', {})).json.issues, [
      { path: '/identity', message: 'is required' },
      { path: '/productHandle', message: 'is required' },
    ]);
    t.match((await app.get('/product/visit?device=')).json.issues, [
      { path: '/productHandle', message: 'is required' },
      { path: '', message: /customerId or sessionId/ },
    ]);
  });

  const identity = { sessionId: 's' };

  t.test('an empty body is said to be empty', async (t) => {
    const json = {
      error: /empty/,
      code: 'invalid_request',
      issues: [{ path: '', message: 'must be object' }],
    };
    for (const path of ['/product/visit', '/event', '/item/add', '/webhook/purchase'])
      t.match(await app.post(path, undefined, TRUSTED), { status: 400, json }, path);
    t.match(await app.send('PUT', '/settings', undefined, TRUSTED), { status: 400, json });
    t.notMatch((await app.post('/event', 'null', TRUSTED)).json.error, /empty/);
  });

  t.test('a fault of JSON is told with what is wrong, and where', async (t) => {
    const SENTENCE = 'The body is not valid JSON: ';
    const big = `{"identity":{"sessionId":"s","locale":"${'x'.repeat(16 * 1024)}"},"type":}`;
    const faults: [body: string, why: RegExp][] = [
      ['{"identity":{"sessionId":"s"},}', /^Expected double-quoted property name at position 30\b/],
      ['{\n  "identity": {"sessionId": "s"}\n  "type": "add"\n}', /^Expected ',' or '}' .* at position 37\b/],
      ['{"identity":', /^Unexpected end of JSON input\.$/],
      ["{'a':1}", /^Expected property name or '}' at position 1\b/],
      ['{"é😀":x}', /^Unexpected token 'x', "\{"é😀":x}"\.$/],
      ['{}\r\n\r\n{}', /^Unexpected non-whitespace character after JSON at position 6\b/],
      ['undefined', /^"undefined"\.$|^Unexpected token 'u', "undefined"\.$/],
      ['['.repeat(16_000), /^Unexpected end of JSON input\.$/],
      [big, /^Unexpected token '}', \.\.\."[x"},]*"type":}"\.$/],
    ];
    for (const path of ['/event', '/webhook/purchase'])
      for (const [body, why] of faults) {
        const { status, json } = await app.post(path, body, TRUSTED);
        t.match({ status, json }, { status: 400, json: { code: 'invalid_json' } });
        const [sentence, said] = [json.error.slice(0, SENTENCE.length), json.error.slice(SENTENCE.length)];
        t.equal(sentence, SENTENCE);
        t.match(said, why, body.slice(0, 40));
        t.ok(said.length < 100, 'it is short');
      }
  });

  t.test('one fault is one issue', async (t) => {
    const item = { identity, ...ITEM };
    for (const [path, body, at, message] of [
      ['/item/add', { ...item, quantity: 0.5 }, '/quantity', 'must be integer'],
      ['/item/add', { ...item, productId: -1.5 }, '/productId', 'must be string or integer'],
      ['/item/add', { ...item, source: 5 }, '/source', /^must be one of pdp, /],
      ['/share', { identity, channel: 5 }, '/channel', /^must be one of Link, /],
      ['/event', { identity, type: 1 }, '/type', /^must be one of add, /],
    ] as const) {
      const { status, json } = await app.post(path, body, TRUSTED);
      t.match([status, ...json.issues], [400, { path: at, message }]);
      t.equal(json.issues.length, 1, JSON.stringify(json.issues));
    }
  });

  t.test('what is wrong with a parameter is said in words', async (t) => {
    const visit = { identity: { sessionId: 'flag' }, productHandle: 'x' };
    const issues = [{ path: '/count', message: 'must be one of true, false' }];
    for (const query of ['count=yes', 'count=1', 'count=TRUE', 'count=%20no'])
      for (const [path, body] of [
        ['/product/visit', visit],
        ['/product/visit/batch', { visits: [visit] }],
      ] as const)
        t.match(await app.post(`${path}?${query}`, body, TRUSTED), { status: 400, json: { issues } }, query);
    const twice = await app.post('/product/visit?count=true&count=true', visit);
    t.match(twice, { status: 400, json: { issues: [{ path: '/count', message: 'must be given once' }] } });
    t.equal(await app.shop.count(visit.identity, 'x'), 0, 'none of them counts');
    for (const [query, count] of [
      ['count=', undefined],
      ['count=false', undefined],
      ['count=true', 3],
    ] as const)
      t.equal((await app.post(`/product/visit?${query}`, visit)).json.count, count, query);

    const wrong = await app.get('/product/visit?sessionId=%zz&productHandle=x&productHandle=y&device=%ff');
    t.equal(wrong.status, 400);
    t.same(wrong.json.issues, [
      { path: '/sessionId', message: 'must be UTF-8, percent-encoded' },
      { path: '/device', message: 'must be UTF-8, percent-encoded' },
      { path: '/productHandle', message: 'must be given once' },
    ]);
  });

  t.test('an answer names 50 faults at most, however many a body has', async (t) => {
    const many = (entry: unknown) => new Array<unknown>(10_000).fill(entry);
    const product = { productId: '1', productHandle: 'x', productTitle: 'x' };
    for (const [method, path, body] of [
      ['PUT', '/products', { ...product, variants: many({}) }],
      ['POST', '/product/visit/batch', { visits: many({}) }],
      ['POST', '/product/visit/list', { identity: {}, productHandles: many(7) }],
      ['POST', '/receivers', { url: 'https://shop.example', types: many('x').slice(0, 9_000) }],
    ] as const) {
      const { status, json } = await app.send(method, path, body, TRUSTED);
      t.equal(status, 400, path);
      t.ok(json.issues.length <= 50 && json.issues.length > 15, `${path}: ${json.issues.length}`);
      t.ok(
        json.issues.some(({ message }: { message: string }) => message.startsWith('must have at most')),
        `${path}: the list is too long`,
      );
    }
  });
});

function wrongHandles(): [unknown, string[], string][] {
  const identity = { sessionId: 'good' };
  return [
    [{ identity }, ['/productHandle'], 'no handle'],
    [{ identity, productHandle: null }, ['/productHandle'], 'handle null'],
    ...WRONG_HANDLES.map(([productHandle, why]): [unknown, string[], string] => [
      { identity, productHandle },
      ['/productHandle'],
      `handle: ${why}`,
    ]),
  ];
}

function wrongEvents(): [unknown, string[], string][] {
  const identity = { sessionId: 'good' };
  return [
    [{ identity }, ['/type'], 'no type'],
    ...[null, 1, '', 'Add', 'ADD', ' add', 'purchase', ['add']].map((type): [unknown, string[], string] => [
      { identity, type },
      ['/type'],
      `type ${JSON.stringify(type)}`,
    ]),
    ...['x', 1, true, [], [{}]].map((payload): [unknown, string[], string] => [
      { identity, type: 'add', payload },
      ['/payload'],
      `payload ${JSON.stringify(payload)}`,
    ]),
    [nestedEvent(1_001), ['/payload'], 'payload of 1,001 levels'],
    [nestedEvent(32_000), ['/payload'], 'payload of as many levels as a body takes'],
  ];
}

/** An event whose payload is lists in lists; JSON.stringify could not make the deeper ones. */
function nestedEvent(levels: number): string {
  const lists = '['.repeat(levels - 1) + ']'.repeat(levels - 1);
  return `{"identity":{"sessionId":"good"},"type":"add","payload":{"a":${lists}}}`;
}

/** One or more issues at exactly these paths. */
function expectIssues(t: Test, { status, json }: Answer, paths: readonly string[], why: string): void {
  t.equal(status, 400, `${why}: ${status} ${json.error}`);
  t.same(Object.keys(json), ['error', 'code', 'issues'], why);
  t.equal(json.code, 'invalid_request', why);
  t.same([...new Set(json.issues?.map(({ path }: { path: string }) => path))].sort(), [...paths].sort(), why);
}
