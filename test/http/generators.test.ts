// /openapi.json is valid, a linter finds nothing, and a client that @hey-api/openapi-ts generates works.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createClient } from '@hey-api/openapi-ts';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import ts from 'typescript';
import { KEY, startApp } from '../harness/app.js';
import { Contract } from '../harness/openapi.js';
import { startTestRedis } from '../harness/redis.js';

const redis = await startTestRedis(t);
const app = await startApp(t, redis);
const source = (await app.get('/openapi.json')).text;
const contract = new Contract(JSON.parse(source));
const { document } = contract;
const ERROR = '{"error":"A sentence.","code":"x"}';

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const validator = new Validator();
  const result = await validator.validate(structuredClone(document) as never);
  t.same(result.errors, undefined);
  t.ok(result.valid);
  t.equal(validator.version, '3.1');
});

t.test('the harness notices an answer that is not as documented', async (t) => {
  const headers = { 'content-type': 'application/json', 'x-request-id': '1' };
  const visited = { status: 200, headers, text: '{"profileId":1}' };
  t.match(contract.fault('POST', '/product/visit', visited), /must have required property/);
  t.match(contract.fault('POST', '/event', { status: 400, headers, text: '{"code":"x"}' }), /error/);
  t.match(contract.fault('POST', '/event', { status: 503, headers, text: ERROR }), /without Retry-After/);
  t.match(contract.fault('POST', '/event', { status: 400, headers, text: ERROR }), /allowed values/);
  const page = { status: 200, headers: { ...headers, 'content-type': 'text/html' }, text: '' };
  t.match(contract.fault('GET', '/beacon.js', page), /without ETag/);
  const tagged = { ...page, headers: { ...page.headers, etag: 'W/"1"', 'cache-control': 'no-cache' } };
  t.match(contract.fault('GET', '/beacon.js', tagged), /text\/html, which is not documented/);
  t.match(contract.fault('GET', '/nowhere', { status: 200, headers, text: '{}' }), /not documented/);
});

t.test("Redocly's linter has nothing to say", async (t) => {
  const config = await createConfig({ extends: ['recommended'] });
  const lint = async (source: string) =>
    (await lintFromString({ source, config })).map(
      ({ ruleId, message, location }) => `${ruleId} at ${location[0]?.pointer}: ${message}`,
    );
  t.same(await lint(source), []);
  t.not((await lint(source.replace('"operationId":"countVisit"', '"operationId":"addItem"'))).length, 0);
});

const isTime = (schema: { format?: string; type?: string | string[] }) =>
  schema.format === 'date-time' || !String(schema.type).includes('string');

t.test('it has no keyword of our validator or that generators misread, and each name once', async (t) => {
  const found: string[] = [];
  JSON.stringify(document, (name, value) => {
    if (['maxBytes', 'maxLevels', 'someNonNull', 'default'].includes(name)) found.push(name);
    if (name === 'format' && value !== 'date-time') found.push(value);
    // Without the format, generators make texts of times.
    if (/(?<!compare)(At|_at)$|^timestamp$/.test(name) && !isTime(value))
      found.push(`${name}: ${JSON.stringify(value)}`);
    return value;
  });
  t.same(found, []);
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
  const { tags, info } = JSON.parse(source) as { tags: { name: string }[]; info: { version: string } };
  t.equal(info.version, version);
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  const ids = operations.map(({ operationId }) => operationId);
  t.equal(new Set(ids).size, ids.length);
  const used = new Set(operations.flatMap((operation) => operation.tags));
  t.same(tags.map(({ name }) => name).sort(), [...used].sort(), 'each tag is explained');
});

const USE = `import { countVisit, listVisitCounts, recordEvent } from './client/sdk.gen.js';
const identity = { sessionId: 's' };
recordEvent({ body: { identity, type: 'add', payload: { a: 1 } } });
countVisit({ body: { identity, productHandle: 'x' }, query: { count: 'true' } });
// @ts-expect-error: no type of events
recordEvent({ body: { identity, type: 'buy' } });
// @ts-expect-error: a number
listVisitCounts({ body: { identity: { sessionId: 5 }, productHandles: ['x'] } });
// @ts-expect-error: no product
countVisit({ body: { identity } });`;

t.test('a client that @hey-api/openapi-ts generates works', async (t) => {
  const folder = t.testdir({ 'package.json': '{"type":"module"}', 'openapi.json': source, 'use.ts': USE });
  const generated = join(folder, 'client');
  await createClient({
    input: join(folder, 'openapi.json'),
    output: { path: generated, module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'silent', file: false },
  });
  const program = ts.createProgram([join(generated, 'sdk.gen.ts'), join(folder, 'use.ts')], {
    ...{
      strict: true,
      skipLibCheck: true,
      types: [],
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
    },
    ...{ module: ts.ModuleKind.NodeNext, target: ts.ScriptTarget.ES2022 },
    ...{ rootDir: folder, outDir: join(folder, 'js') },
  });
  const faults = ts.getPreEmitDiagnostics(program).map(({ messageText }) => messageText);
  t.same(faults, [], 'what it sends is typed: a wrong body is a fault, a right one is none');
  program.emit();
  const entry = (name: string) => import(pathToFileURL(join(folder, 'js', 'client', name)).href);
  const { client } = await entry('client.gen.js');
  const api = await entry('sdk.gen.js');
  client.setConfig({ baseUrl: `http://127.0.0.1:${app.port}`, auth: () => KEY });

  const identity = { sessionId: 'generated' };
  const visited = await api.countVisit({
    body: { identity, productHandle: 'shoe' },
    query: { count: 'true' },
  });
  t.match(visited, { data: { productHandle: 'shoe', count: 1 }, error: undefined });
  const counted = await api.getVisitCount({ query: { sessionId: 'generated', productHandle: 'shoe' } });
  t.equal(counted.data.count, 1);
  const event = { identity, type: 'add', payload: { productId: '1', nested: { a: [1] } } };
  t.equal((await api.recordEvent({ body: event })).data.profileId, counted.data.profileId);
  const { code } = (await api.shareWishlist({ body: { identity } })).data;
  t.same((await api.listSharedItems({ path: { code } })).data.items, []);
  const refused = await api.recordEvent({ body: { identity, type: 'buy' } });
  t.match(refused, { data: undefined, error: { code: 'invalid_request', issues: [{ path: '/type' }] } });
});
