// Nobody is reached by accident: a receiver is at a public address, however that is written and whatever DNS says, when it is
// made and at each connection.

import t from 'tap';
import { Addresses, isPublic } from '../../src/receivers/address.js';
import { Connection } from '../../src/receivers/post.js';
import type { Resolve } from '../../src/receivers/resolver.js';
import { startTool } from './fixtures.js';

const PRIVATE = [
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '127.0.0.1', '127.255.255.254', '169.254.169.254', '172.16.0.1'],
  ...['172.31.255.255', '192.0.0.8', '192.0.2.1', '192.168.1.1', '198.18.0.1', '198.51.100.1', '203.0.113.9'],
  ...['224.0.0.1', '240.0.0.1', '255.255.255.255', '192.88.99.1'],
  ...[
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '::ffff:8.8.8.8',
    '::7f00:1',
    '64:ff9b::a9fe:a9fe',
  ],
  ...['fe80::1', 'fec0::1', 'fc00::1', 'fd00:ec2::254', 'ff02::1', '100::1', '2001:db8::1', '3fff::1'],
  ...['2001::1', '2002:7f00:1::', '2002:a9fe:a9fe::1'],
];
const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '100.128.0.1',
  '172.32.0.1',
  '192.169.0.1',
  '2606:4700::1111',
  '2a00:1450::1',
];

t.test('which addresses are public', async (t) => {
  for (const address of PRIVATE) t.notOk(isPublic(address), address);
  for (const address of PUBLIC) t.ok(isPublic(address), address);
});

/** DNS that knows one host, with these answers one after the other. */
const answering = (...answers: readonly string[][]): Resolve => {
  let asked = 0;
  return async () => {
    const addresses = answers[Math.min(asked++, answers.length - 1)] ?? [];
    return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };
};

t.test('a private address is refused in each way of writing it', async (t) => {
  const addresses = new Addresses(false, answering(['8.8.8.8']));
  for (const host of [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '169.254.169.254',
    '①②⑦.0.0.1',
  ])
    await t.rejects(addresses.check(`https://${host}/`), { message: /public address/ }, host);
  for (const host of ['[::1]', '[::ffff:127.0.0.1]', '[0:0:0:0:0:ffff:a9fe:a9fe]', '[fe80::1]'])
    await t.rejects(addresses.check(`https://${host}/`), { message: /public address/ }, host);
  for (const url of [
    'http://shop.example/',
    'ftp://shop.example/',
    'file:///etc/passwd',
    'gopher://x/',
    'x',
    '',
  ])
    await t.rejects(addresses.check(url), { message: /^must b/ }, url);
  for (const url of ['https://a@shop.example/', 'https://a:b@shop.example/', 'https://:b@shop.example/'])
    await t.rejects(addresses.check(url), { message: /no user/ }, url);
  await t.rejects(addresses.check(`https://shop.example/${'x'.repeat(2_048)}`), { message: /2048/ });
  await t.resolves(addresses.check('https://shop.example/hook'));
  await t.resolves(addresses.check('https://1.1.1.1:8443/hook'));
});

t.test(
  'a host with one private address among others is refused, and so is one that does not resolve',
  async (t) => {
    for (const answer of [['127.0.0.1'], ['8.8.8.8', '10.0.0.1'], ['8.8.8.8', '::1'], ['::ffff:10.0.0.1']])
      await t.rejects(new Addresses(false, answering(answer)).check('https://shop.example/'), {
        message: /public address/,
      });
    await t.rejects(new Addresses(false, answering([])).check('https://shop.example/'), {
      message: /resolve/,
    });
    const unknown: Resolve = () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }));
    await t.rejects(new Addresses(false, unknown).check('https://shop.example/'), { message: /ENOTFOUND/ });
  },
);

t.test('DNS that changes between the check and the connection reaches no one', async (t) => {
  const tool = await startTool(t);
  const port = new URL(tool.url).port;
  const addresses = new Addresses(false, answering(['8.8.8.8'], ['127.0.0.1']));
  const url = `https://shop.example:${port}/hook`;
  await t.resolves(addresses.check(url));
  const connection = new Connection(addresses);
  t.teardown(() => connection.close());
  t.match(await connection.post(url, {}, '{}'), { error: /public address/ });
  // And where an address is in the URL, which no one looks up.
  t.match(await connection.post(`https://127.0.0.1:${port}/`, {}, '{}'), { error: /public address/ });
  t.match(await connection.post(tool.url, {}, '{}'), { error: /https/ });
  t.same(tool.delivered, []);
});
