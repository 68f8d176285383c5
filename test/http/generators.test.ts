// /openapi.json: it is a valid document, a linter finds nothing, openapi-typescript's types fit
// every example of the document and of docs/api.md, and a client that @hey-api/openapi-ts generates works. (The harness
// checks every answer that any test gets against it.)

import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createClient } from '@hey-api/openapi-ts';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Validator } from '@seriousme/openapi-schema-validator';
import openapiTS, { astToString } from 'openapi-typescript';
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

t.test('it has no keyword of our validator or that generators misread, and each name once', async (t) => {
  const found: string[] = [];
  JSON.stringify(document, (name, value) => {
    if (['maxBytes', 'maxLevels', 'someNonNull', 'default'].includes(name)) found.push(name);
    if (name === 'format' && value !== 'date-time') found.push(value);
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

interface Example {
  readonly path: string;
  readonly method: string;
  readonly part: 'request' | 'answer';
  readonly json: string;
}

/** What the document shows as examples. */
function documented(): Example[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, { requestBody }]): Example[] => {
      const example = requestBody?.content['application/json'].example;
      return example === undefined ? [] : [{ path, method, part: 'request', json: JSON.stringify(example) }];
    }),
  );
}

/** What the curl lines of docs/api.md send, and the answers under them. */
function inApiDocs(): Example[] {
  const lines = readFileSync('docs/api.md', 'utf8').matchAll(
    /^\$ curl (.*localhost:8080(\/[^\s'?]*).*)\n(.*)$/gm,
  );
  return Array.from(lines).flatMap(([, command = '', path = '', answer = '']): Example[] => {
    const sent = /--json '([^']*)'/.exec(command)?.[1];
    const method = (/-X (\w+)/.exec(command)?.[1] ?? (sent === undefined ? 'GET' : 'POST')).toLowerCase();
    return [
      ...(sent === undefined ? [] : [{ path, method, part: 'request', json: sent } as const]),
      ...(answer.startsWith('{') ? [{ path, method, part: 'answer', json: answer } as const] : []),
    ];
  });
}

/** The faults that TypeScript finds in files, each by the file's name, with what follows it there. */
function faultsOf(files: readonly string[]): [file: string, fault: string][] {
  const program = ts.createProgram(files, {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    types: [],
    lib: ['lib.es2022.d.ts'],
    skipLibCheck: true,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  });
  return ts.getPreEmitDiagnostics(program).map(({ messageText, start, file }) => {
    const fault = ts.flattenDiagnosticMessageText(messageText, '\n');
    return [basename(file?.fileName ?? ''), `${fault}\n${file?.text.slice(start).split('\n')[0]}`];
  });
}

/** A module that gives every example the type that it should have. */
function moduleOf(examples: readonly Example[]): string {
  const types = {
    request: "NonNullable<Operation['requestBody']>['content']['application/json']",
    answer: "Operation['responses'][200]['content']['application/json']",
  };
  const lines = examples.map(({ path, method, part, json }, i) => {
    const type = types[part].replace('Operation', `paths['${path}']['${method}']`);
    return `export const example${i}: ${type} = ${json};`;
  });
  return ["import type { paths } from './api.js';", ...lines].join('\n');
}

const WRONG = {
  '/event': '{"identity":{"sessionId":"s"},"type":"buy"}',
  '/product/visit/list': '{"identity":{"sessionId":5},"productHandles":["x"]}',
  '/product/visit': '{"identity":{"sessionId":"s"}}',
};

t.test("openapi-typescript's types fit every example of the document and of docs/api.md", async (t) => {
  t.ok(documented().length >= 13, `${documented().length} in the document`);
  t.ok(inApiDocs().length >= 20, `${inApiDocs().length} in docs/api.md`);
  const wrong = Object.entries(WRONG).map(
    ([path, json]) => ({ path, method: 'post', part: 'request', json }) as const,
  );
  const folder = t.testdir({
    'api.ts': astToString(await openapiTS(source)),
    'right.ts': moduleOf([...documented(), ...inApiDocs()]),
    'wrong.ts': moduleOf(wrong),
  });
  const faults = faultsOf([join(folder, 'right.ts'), join(folder, 'wrong.ts')]);
  t.same([...new Set(faults.map(([file]) => file))], ['wrong.ts']);
  const said = faults.map(([, fault]) => fault);
  t.match(said, [/"buy"/, /number/, /productHandle/]);
});

t.test('a client that @hey-api/openapi-ts generates works', async (t) => {
  const folder = t.testdir({ 'package.json': '{"type":"module"}', 'openapi.json': source });
  const generated = join(folder, 'client');
  await createClient({
    input: join(folder, 'openapi.json'),
    output: { path: generated, module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'silent', file: false },
  });
  await transpile(generated, join(folder, 'js'));
  const entry = (name: string) => import(pathToFileURL(join(folder, 'js', name)).href);
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

/** Every file of a folder as JavaScript. */
async function transpile(from: string, to: string): Promise<void> {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const target = join(to, relative(from, file)).replace(/\.ts$/, '.js');
    const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, ts.transpileModule(await readFile(file, 'utf8'), { compilerOptions }).outputText);
  }
}
