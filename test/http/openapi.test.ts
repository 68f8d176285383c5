// /openapi.json is a valid OpenAPI 3.1 document, and what it says is what the service does. (That every
// answer is as documented is checked by the harness, for each answer that any test gets.)

import { Validator } from '@seriousme/openapi-schema-validator';
import t from 'tap';
import { startApp, TRUSTED, withQuery } from '../harness/app.js';
import { Contract } from '../harness/openapi.js';
import { startTestRedis } from '../harness/redis.js';

t.test('OpenAPI', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis, { env: { BASE_PATH: '/api' } });
  const { document } = new Contract((await app.get('/api/openapi.json')).json);

  t.test('the document is valid OpenAPI 3.1', async (t) => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(document) as never);
    t.same(result.errors, undefined);
    t.ok(result.valid);
    t.equal(validator.version, '3.1');
  });

  t.test('the base path stands before every path but those that operate the service', async (t) => {
    for (const path of Object.keys(document.paths)) {
      t.equal(path.startsWith('/api/'), !['/healthz', '/readyz', '/metrics'].includes(path), path);
    }
  });

  t.test('every documented example is taken', async (t) => {
    for (const [path, methods] of Object.entries(document.paths)) {
      for (const [method, { parameters = [], requestBody }] of Object.entries(methods)) {
        if (path.includes('{') || path.includes('/webhook/')) continue; // their own tests send these
        const query: Record<string, string> = {};
        for (const { name, in: where, example } of parameters) {
          if (where === 'query' && example !== undefined) query[name] = String(example);
        }
        const body = requestBody?.content['application/json'].example;
        const answer = await app.send(method.toUpperCase(), withQuery(path, query), body, {
          ...TRUSTED,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        });
        t.equal(answer.status, 200, `${method} ${path}: ${answer.text.slice(0, 200)}`);
      }
    }
  });
});

t.test('the harness notices an answer that is not as documented', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const app = await startApp(t, redis);
  const contract = new Contract((await app.get('/openapi.json')).json);
  const headers = { 'content-type': 'application/json' };
  t.match(
    contract.fault('POST', '/product/visit', { status: 200, headers, text: '{"profileId":1}' }),
    /must have required property/,
  );
  t.match(contract.fault('POST', '/event', { status: 400, headers, text: '{"code":"x"}' }), /error/);
  t.match(contract.fault('GET', '/nowhere', { status: 200, headers, text: '{}' }), /not documented/);
});
