// An operation that says nothing but what it must is refused for an identity that its caller may not act for: that is the
// exchange's to check, and a handler gets an identity from nowhere else.

import { readdirSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import t, { type Test } from 'tap';
import { type Operation, operation } from '../../src/http/operation.js';
import type { Identity } from '../../src/identity-rules.js';
import { readList } from '../../src/validation/requests.js';
import { proxied, SECRET } from '../harness/app-proxy.js';
import { listen } from './servers.js';

const KEY = 'sk_test_0123456789abcdef';
const PUBLISHABLE = { 'x-api-key': 'pk_0123456789abcdef', origin: 'https://shop.example' };
const SESSION = { sessionId: 's' };
const [SEVEN, EIGHT] = [{ customerId: '7' }, { customerId: '8' }];

const doc = { id: 'forget', tag: 'Operating', summary: 'Forgets everything that may be absent' } as const;

/** Servers of one such operation; `handled` has the identities that its handler got. */
async function forgetful(t: Test, accessGroup: Operation['accessGroup'], areLinked = false) {
  const handled: Identity[] = [];
  const server = await listen(
    [
      operation({
        method: 'post',
        path: '/forgetful',
        accessGroup,
        maxBody: 1_000,
        doc,
        read: readList,
        handle(input, { identity }) {
          // @ts-expect-error what a request names is no identity that anything here takes
          const named: Identity = input.identity;
          handled.push(identity);
          return named === identity ? '{}' : '{"isChanged":true}';
        },
      }),
    ],
    {
      access: {
        apiKeys: [KEY],
        publishableKeys: [PUBLISHABLE['x-api-key']],
        allowedOrigins: [PUBLISHABLE.origin],
        shopifySecrets: [SECRET],
      },
      areLinked,
    },
  );
  t.teardown(() => server.close());
  const post = (identity: object, headers: Readonly<Record<string, string>> = {}, path = '/forgetful') =>
    new Promise<string>((resolve, reject) => {
      const sent = request({ port: server.port, host: '127.0.0.1', method: 'POST', path, headers });
      sent.on('error', reject).on('response', async (res) => {
        const { code = '' } = JSON.parse(Buffer.concat(await res.toArray()).toString()) as { code?: string };
        resolve(`${res.statusCode} ${code}`.trim());
      });
      sent.end(JSON.stringify({ identity }));
    });
  const login = (id: string) => proxied('/forgetful', { logged_in_customer_id: id });
  return { handled, post, login };
}

for (const group of ['visits', 'wishlist'] as const)
  t.test(`an operation of ${group} that forgets everything is refused for a foreign identity`, async (t) => {
    const { handled, post, login } = await forgetful(t, group);
    t.equal(await post(SEVEN, PUBLISHABLE), '403 forbidden', 'a publishable key names a customer');
    t.equal(await post({ ...SEVEN, ...SESSION }, PUBLISHABLE), '403 forbidden');
    t.equal(await post(EIGHT, {}, login('7')), '403 forbidden', 'a signed customer names another one');
    t.equal(await post({ ...EIGHT, ...SESSION }, {}, login('7')), '403 forbidden');
    t.equal(await post(SEVEN, {}, login('')), '403 forbidden', 'nobody is logged in');
    t.equal(await post(SEVEN), '401 unauthorized', 'no credential');
    t.same(handled, []);

    t.equal(await post(SESSION, PUBLISHABLE), '200');
    t.equal(await post(SEVEN, {}, login('7')), '200');
    t.equal(await post(SESSION, {}, login('7')), '200');
    t.equal(await post(EIGHT, { 'x-api-key': KEY }), '200');
    const names = handled.map(({ customerId, sessionId }) => [customerId, sessionId]);
    t.same(names, [
      [null, 's'],
      ['7', null],
      ['7', 's'],
      ['8', null],
    ]);
  });

t.test(
  "an operation of a wishlist that forgets everything is refused for a customer's session",
  async (t) => {
    const { handled, post, login } = await forgetful(t, 'wishlist', true);
    t.equal(await post(SESSION, PUBLISHABLE), '403 session_belongs_to_customer');
    t.equal(await post(SESSION, {}, login('')), '403 session_belongs_to_customer');
    t.same(handled, []);
    t.equal(await post(SESSION, {}, login('7')), '200');
    t.equal(await post(SESSION, { 'x-api-key': KEY }), '200');
  },
);

t.test('visits go on for a session that belongs to a customer', async (t) => {
  const { post, login } = await forgetful(t, 'visits', true);
  t.equal(await post(SESSION, PUBLISHABLE), '200');
  t.equal(await post(SESSION, {}, login('')), '200');
});

t.test('only the access rules and the command line make an identity of what was named', async (t) => {
  const source = new URL('../../../src/', import.meta.url);
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const trusting = files.filter((name) =>
    /\btrust\(|unknown as Identity/.test(readFileSync(new URL(name, source), 'utf8')),
  );
  t.same(trusting.sort(), ['commands/visitor.ts', 'http/access.ts', 'validation/requests.ts']);
});
