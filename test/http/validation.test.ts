// The values that each field takes and refuses, once for each schema. A refused request changes nothing and
// names one issue per fault.

import { Ajv } from 'ajv';
import t, { type Test } from 'tap';
import * as alerts from '../../src/extras/alerts/schemas.js';
import * as receivers from '../../src/extras/receivers/schemas.js';
import type { GivenItem } from '../../src/item-fields.js';
import * as orders from '../../src/validation/order-schema.js';
import * as requests from '../../src/validation/schemas.js';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import type { Answer } from '../harness/client.js';
import { operationsOf } from '../harness/operations.js';
import { startTestRedis } from '../harness/redis.js';

const repeat = (count: number, value: unknown) => new Array<unknown>(count).fill(value);
const JUNK = 'null undefined NaN 0 -1 none guest anonymous true false'.split(' ').concat('[object Object]');
const CONTROLS = ['a\r\nb', 'a\u0000b', 'a\u007fb', 'a\u0085b', '\ud800', 'a\udc00b'];
const NO_TEXT = [5.5, true, ['x'], {}];
const TOO_LONG = ['x'.repeat(256), `${'é'.repeat(127)}xx`, '😀'.repeat(64)];
const SPELLED = JUNK.flatMap((junk) => [junk, junk.toUpperCase(), ` ${junk.toLowerCase()} `]);
const WRONG_IDS = [...NO_TEXT, ...CONTROLS, ...TOO_LONG, ...SPELLED, 'gid://shopify/Customer/0'];
const WRONG_FACTS = [7, {}, 'a@\u0000b', 'a@\ud83d'];
const BLANKS = ['', ' \t\n', '\u00a0'];
const MISSING = [undefined, null, ...BLANKS];
const NO_DECIMALS = [79.9, '79', '79.9', '79.900', '-1.00', '1,00', '1e2', ' 1.00', '12345678901234567.00'];
const NO_ITEM_TEXT = [1.5, true, [], {}, '\ud800'];
const LINES = ['a\u0000b', 'a\nb'];
const PRODUCT = { productId: '1' };
const VISIT = { identity: { sessionId: 'good' }, productHandle: 'x' };
const nested = (levels: number) => JSON.parse(`{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`);

/** Values of fields, by their paths in an operation's example. */
type Values = Readonly<Record<string, readonly unknown[]>>;

const REFUSED: Readonly<Record<string, Values>> = {
  'POST /product/visit': {
    '/identity': [undefined, null, 'x', [], {}, { customerId: null, sessionId: null }],
    '/identity/sessionId': WRONG_IDS,
    '/identity/customerId': [...WRONG_IDS, 'gid://shopify/Order/1', -5, 2 ** 53],
    '/identity/device': [...WRONG_FACTS, 'x'.repeat(65), 'é'.repeat(33)],
    '/identity/locale': [...WRONG_FACTS, 'x'.repeat(65)],
    '/identity/email': [...WRONG_FACTS, `@${'x'.repeat(320)}`, 'nobody.example'],
    '/identity/firstName': [...WRONG_FACTS, 'x'.repeat(256)],
    '/identity/lastName': [...WRONG_FACTS, 'x'.repeat(256)],
    '/productHandle': [...MISSING, ...NO_TEXT, ...CONTROLS, 'x'.repeat(256), '😀'.repeat(256)],
  },
  'POST /product/visit/list': {
    '/productHandles': [undefined, 'a', [], repeat(101, 'x')],
    '/productHandles/1': ['', 5, null, 'x'.repeat(256)],
  },
  'POST /product/visit/batch': {
    '/visits': [undefined, { 0: VISIT }, [], repeat(501, VISIT)],
    '/visits/1': ['x', null],
    '/visits/1/productHandle': ['', 7, undefined],
  },
  'POST /event': {
    '/type': [...MISSING, 1, 'Add', 'ADD', ' add', 'purchase', ['add']],
    '/payload': ['x', 1, true, [], [{}], nested(1_001)],
  },
  'POST /item/add': {
    '/productId': [...MISSING, ...NO_ITEM_TEXT, ...LINES, 'x'.repeat(256), 0, -1.5, 2 ** 53],
    '/variantId': [2002.5, 'x'.repeat(256), 'a\u007fb', 2 ** 53, 'gid://shopify/Product/1'],
    '/productHandle': [...MISSING, ...NO_ITEM_TEXT, ...LINES, 'x'.repeat(256), '😀'.repeat(256), '\ud83d'],
    '/productTitle': [...MISSING, ...NO_ITEM_TEXT, 'x'.repeat(1_025)],
    '/variantTitle': [42, 'x'.repeat(1_025)],
    '/image': [...NO_ITEM_TEXT, ...LINES, 'x'.repeat(2_049)],
    '/price': [...MISSING, ...NO_DECIMALS],
    '/compareAt': NO_DECIMALS,
    '/quantity': [undefined, null, 0, -1, 1.5, '1', 4_294_967_296, 1e300, true],
    '/inventoryAvailable': [undefined, null, 'true', 1],
    '/currencyCode': ['E', 'EURO', 'E1', 978],
    '/countryCode': ['D', 'DEU', 'D1'],
    '/properties': ['x', 1, []],
    '/source': ['PDP', 'shop', 1],
  },
  'POST /item/remove': { '/productId': ['', 2 ** 53], '/variantId': [-2002], '/event': ['add', 1] },
  'POST /item/check': {
    '/products': [undefined, [], repeat(251, PRODUCT)],
    '/products/1/productId': [undefined, 'gid://shopify/ProductVariant/1'],
  },
  'POST /share': { '/channel': ['link', 'WhatsApp', 5, ['Link']] },
  'POST /profile/guest': { '/sessionId': [...MISSING, 'null'], '/email': ['none'] },
  'POST /profile/merge': {
    '/identity/sessionId': [...MISSING, 'null'],
    '/identity/customerId': [...MISSING, 'guest'],
  },
  'PUT /settings': { '/autoRemoveAfterPurchase': [undefined, null, 'true', 1, 0, '', [], [true], {}] },
};

const ITEM_TAKEN: Readonly<Record<`/${keyof GivenItem}`, readonly unknown[]>> = {
  '/productId': ['x'.repeat(255), `gid://shopify/Product/${'9'.repeat(255)}`],
  '/variantId': ['x'.repeat(255), null],
  '/productHandle': ['x'.repeat(255), '😀'.repeat(255)],
  '/productTitle': ['x', 'x'.repeat(1_024)],
  '/variantTitle': ['x'.repeat(1_024), null],
  '/image': ['x'.repeat(2_048), null],
  '/price': ['0.00', '9999999999999999.99'],
  '/compareAt': ['0.00', null, undefined],
  '/inventoryAvailable': [true, false],
  '/quantity': [1, 4_294_967_295],
  '/source': ['pdp', 'collection', 'cart', 'wishlist', 'email', 'pdpSmartSave', 'other'],
  '/currencyCode': ['JP', 'JPY'],
  '/countryCode': ['jp'],
  '/properties': [{}, { a: 'x'.repeat(16_384 - 8) }],
};

const TAKEN: Readonly<Record<string, Values>> = {
  'POST /event': {
    '/identity/device': ['x'.repeat(64), 'é'.repeat(32), null],
    '/identity/locale': ['x'.repeat(64), null],
    '/identity/email': [`@${'x'.repeat(319)}`, `@é${'x'.repeat(317)}`, null],
    '/identity/firstName': ['x'.repeat(255), null],
    '/identity/lastName': ['x'.repeat(255), null],
    '/identity/customerId': [Number.MAX_SAFE_INTEGER],
    '/identity/unknown': [7],
    '/unknown': [null],
    '/payload': [{}, null, nested(1_000)],
  },
  'POST /product/visit/list': { '/productHandles': [Array.from({ length: 100 }, (_, i) => `p${i}`)] },
  'POST /item/add': ITEM_TAKEN,
  'POST /item/check': { '/products': [repeat(250, PRODUCT)] },
};

const SENTENCES: readonly (readonly [operation: string, place: string, value: unknown, says: RegExp])[] = [
  ['POST /product/visit', '/identity/customerId', 'gid://shopify/Order/1', /than Customer$/],
  ['POST /product/visit', '/identity/customerId', 2 ** 53, /send a larger one as text/],
  ['POST /product/visit', '/identity/customerId', 'null', /^must be an id: 1 to 255 bytes of UTF-8/],
  ['POST /product/visit', '/identity/sessionId', 1, /^must be string or null$/],
  ['POST /product/visit', '/identity/device', 'x'.repeat(65), /^must have at most 64 bytes$/],
  ['POST /product/visit', '/identity/email', 'none', /^must be an e-mail address$/],
  ['POST /product/visit', '/identity', undefined, /^is required$/],
  ['POST /product/visit', '/identity', {}, /customerId or sessionId/],
  ['POST /item/add', '/productId', 'gid://shopify/ProductVariant/1', /than Product$/],
  ['POST /item/add', '/productId', 0, />= 1/],
  ['POST /item/add', '/productId', -1.5, /^must be string or integer$/],
  ['POST /item/add', '/variantId', 'gid://shopify/Product/1', /than ProductVariant$/],
  ['POST /item/add', '/quantity', 0.5, /^must be integer$/],
  ['POST /item/add', '/source', 5, /^must be one of pdp, /],
  ['POST /item/remove', '/productId', 2 ** 53, /9007199254740991/],
  ['POST /share', '/channel', 5, /^must be one of Link, /],
  ['POST /event', '/type', 'buy', /^must be one of add, /],
  ['POST /event', '/payload', [], /^must be object or null$/],
];

/** A copy of a body with another value at one path; undefined is left out. */
function changed(body: unknown, place: string, value: unknown): unknown {
  const copy = structuredClone(body);
  const names = place.split('/').slice(1);
  const last = names.pop() as string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON
  names.reduce((parent: any, name) => parent[name], copy)[last] = value;
  return copy;
}

t.test('every schema of a request is valid JSON Schema', async (t) => {
  const ajv = new Ajv();
  for (const [name, schema] of Object.entries({ ...requests, ...orders, ...receivers, ...alerts }))
    if (/(Body|Query)$/.test(name))
      t.ok(ajv.validateSchema(schema as object), `${name}: ${ajv.errorsText()}`);
});

t.test('requests', async (t) => {
  const redis = await startTestRedis(t);
  const app = await startApp(t, redis, { env: { VISIT_ACCESS: 'open' } });
  const operations = new Map((await operationsOf(app)).map((one) => [one.name, one]));
  await app.post('/event', { identity: { sessionId: 's-1', email: 'a@b' }, type: 'add' }, TRUSTED);
  const send = (operation: string, body: unknown) => {
    const [method = '', path = ''] = operation.split(' ');
    return app.send(method, path.replace('{id}', 'x'), body, TRUSTED);
  };
  type Act = (operation: string, place: string, value: unknown) => Promise<void>;
  const each = async (table: Readonly<Record<string, Values>>, act: Act) => {
    for (const [operation, places] of Object.entries(table))
      for (const [place, values] of Object.entries(places))
        for (const value of values) await act(operation, place, value);
  };
  const sendWith = (operation: string, place: string, value: unknown): Promise<Answer> =>
    send(operation, changed(operations.get(operation)?.body, place, value));
  const shown = (operation: string, place: string, value: unknown) =>
    `${operation} ${place} ${String(JSON.stringify(value)).slice(0, 60)}`;

  const changesNothing = async (t: Test, tests: () => Promise<unknown>) => {
    const before = await app.dump();
    await tests();
    t.same(await app.dump(), before, 'Redis is as it was');
  };

  t.test('a wrong value of any field is one issue at its path, and changes nothing', async (t) => {
    await changesNothing(t, () =>
      each(REFUSED, async (operation, place, value) => {
        const answer = await sendWith(operation, place, value);
        expectIssues(t, answer, [place], shown(operation, place, value));
      }),
    );
  });

  t.test('each field accepts the values at its limits, and null if it is optional', (t) =>
    each(TAKEN, async (operation, place, value) => {
      const { status, text } = await sendWith(operation, place, value);
      t.equal(status, 200, `${shown(operation, place, value)}: ${text.slice(0, 200)}`);
    }),
  );

  t.test('an issue says which values are right', async (t) => {
    for (const [operation, place, value, message] of SENTENCES) {
      const { json } = await sendWith(operation, place, value);
      t.match(json, { issues: [{ path: place, message }] }, shown(operation, place, value));
    }
  });

  t.test('every operation refuses a body that is no JSON object, and a wrong identity', async (t) => {
    let identities = 0;
    await changesNothing(t, async () => {
      for (const { name: operation, body: example } of operations.values()) {
        if (example === undefined || operation.includes('/webhook/')) continue;
        for (const body of ['null', '[]', '"text"', '1'])
          expectIssues(t, await send(operation, body), [''], `${operation} ${body}`);
        t.match(await send(operation, '{'), { status: 400, json: { code: 'invalid_json' } }, operation);
        const at = example.identity ? '/identity' : example.visits ? '/visits/1/identity' : '';
        if (at === '' && !('sessionId' in example)) continue;
        identities++;
        const wrong = changed(changed(example, `${at}/sessionId`, 'null'), `${at}/device`, 5);
        expectIssues(t, await send(operation, wrong), [`${at}/device`, `${at}/sessionId`], operation);
      }
    });
    t.ok(identities >= 11, `${identities} operations with an identity`);
  });

  t.test('the answer lists all faults of a body', async (t) => {
    const identity = { customerId: 'null', sessionId: 1, device: 'x'.repeat(65), lastName: false };
    const at = (...names: string[]) => names.map((name) => `/${name}`);
    const required = 'inventoryAvailable price productHandle productId productTitle quantity source';
    for (const [operation, body, places] of [
      [
        'POST /event',
        { identity, type: 'buy', payload: [] },
        at(...Object.keys(identity).map((name) => `identity/${name}`), 'type', 'payload'),
      ],
      [
        'POST /item/add',
        { identity: {}, price: 1, quantity: 0, source: 'x' },
        at('identity', ...required.split(' ')),
      ],
      ['POST /product/visit', {}, at('identity', 'productHandle')],
      [
        'POST /product/visit/batch',
        { visits: [{}, VISIT, 'x'] },
        at('visits/0/identity', 'visits/0/productHandle', 'visits/2'),
      ],
      ['POST /profile/merge', { identity: {} }, at('identity/customerId', 'identity/sessionId')],
    ] as const)
      expectIssues(t, await send(operation, body), places, operation);
  });

  t.test('an answer names at most 50 faults, however many a body has', async (t) => {
    const product = { productId: '1', productHandle: 'x', productTitle: 'x' };
    for (const [operation, body] of [
      ['PUT /products', { ...product, variants: repeat(10_000, {}) }],
      ['POST /product/visit/batch', { visits: repeat(10_000, {}) }],
      ['POST /product/visit/list', { identity: {}, productHandles: repeat(10_000, 7) }],
      ['POST /receivers', { url: 'https://shop.example', types: repeat(9_000, 'x') }],
    ] as const) {
      const { status, json } = await send(operation, body);
      t.equal(status, 400, operation);
      t.ok(json.issues.length <= 50 && json.issues.length > 15, `${operation}: ${json.issues.length}`);
      const messages = json.issues.map(({ message }: { message: string }) => message);
      t.match(messages.join(), /must have at most/, `${operation}: the list is too long`);
    }
  });

  t.test('GET and DELETE by query name each fault by its parameter, and change nothing', async (t) => {
    const [sessionId, productHandle] = ['good', 'x'];
    const queries: [parameters: Record<string, string>, raw: string, paths: string[]][] = [
      [{}, '', ['', '/productHandle']],
      [{ productHandle }, '', ['']],
      [{ sessionId }, '', ['/productHandle']],
      [{ sessionId, productHandle: 'a\nb' }, '', ['/productHandle']],
      [{ sessionId, productHandle: 'x'.repeat(256) }, '', ['/productHandle']],
      [{ sessionId: 'a\u0000', productHandle }, '', ['/sessionId']],
      [{ sessionId: 'null', productHandle }, '', ['/sessionId']],
      [{ customerId: 'x'.repeat(256), productHandle }, '', ['/customerId']],
      [{ sessionId, device: 'x'.repeat(65), productHandle }, '', ['/device']],
      [{ sessionId, productHandle }, '&sessionId=other', ['/sessionId']],
      [{ sessionId }, '&productHandle=%FF', ['/productHandle']],
      [{ productHandle }, '&sessionId=a%ED%A0%80', ['/sessionId']],
      [{ productHandle }, '&sessionId=100%', ['/sessionId']],
    ];
    await changesNothing(t, async () => {
      for (const [parameters, raw, places] of queries) {
        const query = withQuery('/product/visit', parameters) + raw;
        expectIssues(t, await app.get(query, TRUSTED), places, `GET ${query}`, 'query');
        expectIssues(t, await app.del(query, undefined, TRUSTED), places, `DELETE ${query}`, 'query');
      }
    });
    const wrong = await app.get('/product/visit?sessionId=%zz&productHandle=x&productHandle=y');
    t.same(wrong.json.issues, [
      { in: 'query', path: '/sessionId', message: 'must be UTF-8, percent-encoded' },
      { in: 'query', path: '/productHandle', message: 'must be given once' },
    ]);
  });

  t.test('?count may be true, false or blank, once, and a refused visit does not count', async (t) => {
    const visit = { identity: { sessionId: 'flag' }, productHandle: 'x' };
    const issues = [{ in: 'query', path: '/count', message: 'must be one of true, false' }];
    for (const query of ['count=yes', 'count=1', 'count=TRUE', 'count=%20no'])
      for (const [path, body] of [
        ['/product/visit', visit],
        ['/product/visit/batch', { visits: [visit] }],
      ] as const)
        t.match(await app.post(`${path}?${query}`, body, TRUSTED), { status: 400, json: { issues } }, query);
    const twice = await app.post('/product/visit?count=true&count=true', visit);
    t.match(twice, { status: 400, json: { issues: [{ path: '/count', message: 'must be given once' }] } });
    for (const [query, count] of [
      ['count=', undefined],
      ['count=false', undefined],
      ['count=true', 3],
    ] as const)
      t.equal((await app.post(`/product/visit?${query}`, visit)).json.count, count, query);
  });

  t.test('the error for an empty body says that it is empty', async (t) => {
    const issues = [{ path: '', message: 'must be object' }];
    const json = { error: /empty/, code: 'invalid_request', issues };
    for (const operation of ['POST /product/visit', 'POST /event', 'POST /webhook/purchase', 'PUT /settings'])
      t.match(await send(operation, undefined), { status: 400, json }, operation);
    t.notMatch((await send('POST /event', 'null')).json.error, /empty/);
  });

  t.test(
    'the error for invalid JSON says what is wrong and where, also for bytes that are no UTF-8',
    async (t) => {
      const SENTENCE = 'The body is not valid JSON: ';
      const big = `{"identity":{"sessionId":"s","locale":"${'x'.repeat(16 * 1024)}"},"type":}`;
      const handle = (...bytes: number[]) =>
        Buffer.concat([Buffer.from('{"productHandle":"'), Buffer.from([...bytes, 0x22, 0x7d])]);
      const faults: [body: string | Buffer, why: RegExp][] = [
        ['{"identity":{"sessionId":"s"},}', /^Expected double-quoted property name at position 30\b/],
        [
          '{\n  "identity": {"sessionId": "s"}\n  "type": "add"\n}',
          /^Expected ',' or '}' .* at position 37\b/,
        ],
        ['{"identity":', /^Unexpected end of JSON input\.$/],
        ["{'a':1}", /^Expected property name or '}' at position 1\b/],
        ['{"é😀":x}', /^Unexpected token 'x', "\{"é😀":x}"\.$/],
        ['{}\r\n\r\n{}', /^Unexpected non-whitespace character after JSON at position 6\b/],
        ['undefined', /^"undefined"\.$|^Unexpected token 'u', "undefined"\.$/],
        ['['.repeat(16_000), /^Unexpected end of JSON input\.$/],
        [big, /^Unexpected token '}', \.\.\."[x"},]*"type":}"\.$/],
        [handle(0xff), /./],
        [handle(0xed, 0xa0, 0x80), /./],
        [handle(0xc0, 0x80), /./],
        [Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]), /./],
      ];
      for (const path of ['/event', '/webhook/purchase'])
        for (const [body, why] of faults) {
          const { status, json } = await app.post(path, body, TRUSTED);
          t.match({ status, json }, { status: 400, json: { code: 'invalid_json' } });
          t.same(Object.keys(json), ['error', 'code'], 'no issues: no field is at fault');
          if (typeof body !== 'string') continue;
          const [sentence, said] = [json.error.slice(0, SENTENCE.length), json.error.slice(SENTENCE.length)];
          t.equal(sentence, SENTENCE);
          t.match(said, why, body.slice(0, 40));
          t.ok(said.length < 100, 'it is short');
        }
      const deepest = `{"identity":{"sessionId":"s"},"type":"add","payload":{"a":${'['.repeat(32_000)}${']'.repeat(32_000)}}}`;
      const tooDeep = await app.post('/event', deepest, TRUSTED);
      expectIssues(t, tooDeep, ['/payload'], 'as many levels as a body takes');
    },
  );
});

function expectIssues(
  t: Test,
  { status, json }: Answer,
  places: readonly string[],
  why: string,
  where = 'body',
): void {
  const { code, issues = [], ...rest } = json;
  const found = issues.map((one: { in: string; path: string }) => `${one.in} ${one.path}`).sort();
  const expected = [400, 'invalid_request', ['error'], places.map((path) => `${where} ${path}`).sort()];
  t.same([status, code, Object.keys(rest), found], expected, why);
}
