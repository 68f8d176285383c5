// A receiver is at a public address, when it is made and at each connection; a slow name server delays no other host.

import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { readConfig } from '../../../src/config.js';
import { Addresses, isPublic } from '../../../src/extras/receivers/address.js';
import { deliver, openReceivers } from '../../../src/extras/receivers/deliver.js';
import { receiverKeys } from '../../../src/extras/receivers/keys.js';
import { post } from '../../../src/extras/receivers/post.js';
import { createResolve, type Resolve } from '../../../src/extras/receivers/resolver.js';
import { SERVFAIL, startNameServer } from '../../harness/dns.js';
import { startTestRedis } from '../../harness/redis.js';
import { until } from '../../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

const PRIVATE =
  `0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255
  192.0.0.8 192.0.2.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.9 224.0.0.1 240.0.0.1 255.255.255.255 192.88.99.1
  :: ::1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::ffff:8.8.8.8 ::7f00:1 64:ff9b::a9fe:a9fe
  fe80::1 fec0::1 fc00::1 fd00:ec2::254 ff02::1 100::1 2001:db8::1 3fff::1
  2001::1 2002:7f00:1:: 2002:a9fe:a9fe::1`.split(/\s+/);
const PUBLIC = '1.1.1.1 8.8.8.8 100.128.0.1 172.32.0.1 192.169.0.1 2606:4700::1111 2a00:1450::1'.split(' ');
t.test('private and reserved addresses are not public', async (t) => {
  for (const address of PRIVATE) t.notOk(isPublic(address), address);
  for (const address of PUBLIC) t.ok(isPublic(address), address);
});
const answering = (...answers: readonly string[][]): Resolve => {
  let asked = 0;
  return async () => {
    const addresses = answers[Math.min(asked++, answers.length - 1)] ?? [];
    return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };
};
const HOSTS = `127.0.0.1 127.1 2130706433 0x7f.0.0.1 0177.0.0.1 169.254.169.254 ①②⑦.0.0.1
  [::1] [::ffff:127.0.0.1] [0:0:0:0:0:ffff:a9fe:a9fe] [fe80::1]`.split(/\s+/);
const REFUSED: readonly [RegExp, readonly string[]][] = [
  [/public address/, HOSTS.map((host) => `https://${host}/`)],
  [/^must b/, ['http://shop.example/', 'ftp://shop.example/', 'file:///etc/passwd', 'gopher://x/', 'x', '']],
  [/no user/, ['a', 'a:b', ':b'].map((user) => `https://${user}@shop.example/`)],
  [/2048/, [`https://shop.example/${'x'.repeat(2_048)}`]],
];
t.test('a receiver at a private address is refused, however the address is written', async (t) => {
  const addresses = new Addresses(false, answering(['8.8.8.8']));
  for (const [message, urls] of REFUSED)
    for (const url of urls) await t.rejects(addresses.check(url), { message }, url);
  await t.resolves(addresses.check('https://shop.example/hook'));
  await t.resolves(addresses.check('https://1.1.1.1:8443/hook'));
});
t.test(
  "a receiver's host with one private address is refused, and so is one that does not resolve",
  async (t) => {
    const refuses = (resolve: Resolve, message: RegExp) =>
      t.rejects(new Addresses(false, resolve).check('https://shop.example/'), { message });
    for (const answer of [['127.0.0.1'], ['8.8.8.8', '10.0.0.1'], ['8.8.8.8', '::1'], ['::ffff:10.0.0.1']])
      await refuses(answering(answer), /public address/);
    await refuses(answering([]), /resolve/);
    await refuses(() => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' })), /ENOTFOUND/);
  },
);
t.test('a delivery is not sent if its host resolves to a private address after the check', async (t) => {
  const tool = await startTool(t);
  const port = new URL(tool.url).port;
  const addresses = new Addresses(false, answering(['8.8.8.8'], ['127.0.0.1']));
  const named = `https://shop.example:${port}/hook`;
  await t.resolves(addresses.check(named));
  for (const [url, why] of [
    [named, /public address/],
    [`https://127.0.0.1:${port}/`, /public address/], // needs no lookup
    [tool.url, /https/],
  ] as const)
    t.match(await post({ addresses, url }, {}, '{}'), { status: 0, why }, url);
  t.same(tool.delivered, []);
});

const LONG_MS = 600_000;
/** More than there are threads that dns.lookup could block. */
const SILENT = Array.from({ length: 6 }, (_, i) => `silent-${i}.example`);
t.test('slow receivers, and silent name servers, delay no other receiver', async (t) => {
  const names = { 'good.example': '127.0.0.1', 'slow.example': '127.0.0.1' };
  const silences = Object.fromEntries(SILENT.map((name) => [name, null]));
  const dns = await startNameServer(t, { ...names, ...silences });
  const resolve = createResolve({ servers: [dns.at], questionMs: LONG_MS, limitMs: LONG_MS });
  const deliveries = await openDeliveries(t, await startTestRedis(t), 'names', resolve);
  const [good, slow] = [await startTool(t), await startTool(t)];
  slow.answer = () => {};
  const at = (host: string, { url } = good) => Object.assign(new URL(url), { hostname: host }).href;
  const { client, keys } = deliveries.store;
  const make = async (url: string) => {
    // As if it had been made while its name resolved.
    const made = await deliveries.receiver({ ...good });
    await client.hset(receiverKeys(keys).receivers, made.id, JSON.stringify({ ...made, url }));
    return made;
  };
  const silent = await Promise.all(SILENT.map((name) => make(at(name))));
  await make(at('slow.example', slow));
  const { secret } = await make(at('good.example'));
  await deliveries.send(...Array(10).fill({}));
  deliveries.deliverer({ answerMs: LONG_MS });
  await until('each silent name was asked for', () => SILENT.every((name) => dns.asked.includes(name)));
  await until('the slow one has deliveries', () => slow.delivered.length === 10);
  good.secret = secret;
  await deliveries.send(...Array(10).fill({}));
  await until('all arrive', () => good.delivered.length >= 20);
  for (const { id } of silent)
    t.match(await deliveries.status(id), { failures: 0, delivered: 0, pending: 20 }, 'it still waits');
});
t.test('localhost needs no name server, and counts as a private address', async (t) => {
  const dns = await startNameServer(t, { localhost: null });
  const resolve = createResolve({ servers: [dns.at] });
  await t.resolves(new Addresses(true, resolve).check('http://localhost/'));
  await t.rejects(new Addresses(false, resolve).check('https://localhost/'), { message: /public address/ });
  t.same(dns.asked, []);
});
t.test('names in /etc/hosts come before those of DNS', async (t) => {
  const dns = await startNameServer(t, { 'b.example': '127.0.0.9', 'silent.example': null });
  const lines = ['# b.example', '', '10.0.0.1 a.example A2 # c', '10.0.0.2\ta.example'];
  const hosts = [...lines, 'fd00::1 a.example', 'x b.example', ''].join('\n');
  const hostsFile = join(t.testdir({ hosts }), 'hosts');
  const resolve = createResolve({ hostsFile, resolvConf: '', servers: [dns.at], limitMs: 300 });
  const addresses = async (name: string) => (await resolve(name)).map(({ address }) => address);
  t.same(await addresses('a.example'), ['10.0.0.1', '10.0.0.2', 'fd00::1']);
  t.same(await addresses('a2'), ['10.0.0.1']);
  t.same(await addresses('b.example'), ['127.0.0.9']);
  await t.rejects(resolve('c'), { code: 'ENOTFOUND' });
  const silent = new Addresses(true, resolve).check('http://silent.example/');
  await t.rejects(silent, { message: 'does not resolve (ETIMEOUT)' }, 'a silent name server is given up');
});

t.test('a short name is looked up in the search list first, and a long one as it is', async (t) => {
  const dns = await startNameServer(t, {
    'n8n.tools.svc': '127.0.0.1',
    'a.b': '127.0.0.2',
    'a.b.tools.svc': '127.0.0.3',
    'a.b.corp': SERVFAIL,
    'broken.corp': SERVFAIL,
  });
  const found = async (conf: string, name: string) => {
    dns.asked.length = 0;
    const resolvConf = join(t.testdir({ conf }), 'conf');
    const [first] = await createResolve({ resolvConf, servers: [dns.at] })(name);
    return [first?.address, [...new Set(dns.asked)]];
  };
  const search = 'nameserver 127.0.0.1\nsearch svc tools.svc\n';
  t.same(await found(search, 'n8n'), ['127.0.0.1', ['n8n.svc', 'n8n.tools.svc']]);
  t.same(await found(search, 'a.b'), ['127.0.0.2', ['a.b']]);
  t.same(await found(`${search}options timeout:1 ndots:5\n`, 'a.b'), [
    '127.0.0.3',
    ['a.b.svc', 'a.b.tools.svc'],
  ]);
  t.same(await found(search, 'a.b.'), ['127.0.0.2', ['a.b']]);
  const corp = 'search corp\noptions ndots:5\n';
  // A domain whose server fails is passed over.
  t.same(await found(corp, 'a.b'), ['127.0.0.2', ['a.b.corp', 'a.b']]);
  await t.rejects(found(corp, 'broken'), { code: 'ESERVFAIL' });
  await t.rejects(found(search, 'nobody'), { code: 'ENOTFOUND' });
  await t.rejects(found('', 'n8n'), { code: 'ENOTFOUND' });
});

t.test('a receiver may take 15 s to answer', async (t) => {
  const tool = await startTool(t);
  const limits = t.capture(AbortSignal, 'timeout', AbortSignal.timeout);
  t.match(await post({ addresses: new Addresses(true), url: tool.url }, {}, '{}'), { status: 200 });
  t.match(limits(), [{ args: [15_000] }]);
});

t.test('without RECEIVERS_PRIVATE neither `deliver` nor a command reaches a private address', async (t) => {
  const server = await startTestRedis(t);
  const deliveries = await openDeliveries(t, server, 'private');
  const tool = await startTool(t);
  const { id } = await deliveries.receiver(tool);
  await deliveries.send({});
  const config = readConfig({ REDIS_URL: server.urls.join(','), KEY_PREFIX: 'private' });
  const log = pino({ level: 'silent' });
  const delivering = await deliver(config, log);
  t.teardown(() => delivering.close());
  const opened = await openReceivers(config, log, config.REDIS_URL);
  t.teardown(() => opened.close());
  const lastError = () => opened.receivers.statusOf(id).then((status) => status.lastError);
  t.match(await until('it has failed', lastError), /must begin with https/);
  t.match(await opened.receivers.test(id), { error: /must begin with https/ });
  t.same(tool.delivered, []);
});
