// Host names of receivers: one whose name server is silent, or that is slow, delays no other; and names of /etc/hosts and of a
// search list are found.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Addresses } from '../../src/receivers/address.js';
import { createResolve, type ResolverOptions } from '../../src/receivers/resolver.js';
import { startNameServer } from '../harness/dns.js';
import { startTestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';
import { openDeliveries, startTool } from './fixtures.js';

const LONG_MS = 600_000;
/** More than there are threads that dns.lookup could block. */
const SILENT = Array.from({ length: 8 }, (_, i) => `silent-${i}.example`);

t.test('receivers that are slow, or whose name server is silent, delay no other', async (t) => {
  const names = { 'good.example': '127.0.0.1', 'slow.example': '127.0.0.1' };
  const dns = await startNameServer(t, {
    ...names,
    ...Object.fromEntries(SILENT.map((name) => [name, null])),
  });
  const resolve = createResolve({ servers: [dns.at], questionMs: LONG_MS, limitMs: LONG_MS });
  const deliveries = await openDeliveries(t, await startTestRedis(t), 'names', resolve);
  const [good, slow] = [await startTool(t), await startTool(t)];
  slow.answer = () => {};
  const at = (host: string, { url } = good) => Object.assign(new URL(url), { hostname: host }).href;
  const { client, keys } = deliveries.store;
  const make = async (url: string) => {
    // As it was made while its name was known.
    const made = await deliveries.receiver({ ...good });
    await client.hset(keys.receivers, made.id, JSON.stringify({ ...made, url }));
    return made;
  };
  const silent = await Promise.all(SILENT.map((name) => make(at(name))));
  await make(at('slow.example', slow));
  const { secret } = await make(at('good.example'));
  await deliveries.send(0, ...Array(50).fill({}));
  deliveries.deliverer({ answerMs: LONG_MS });
  await until('each silent name was asked for', () => SILENT.every((name) => dns.asked.includes(name)));
  await until('the slow one has deliveries', () => slow.delivered.length === 16);
  good.secret = secret;
  await deliveries.send(0, ...Array(50).fill({}));
  await until('all arrive', () => good.delivered.length >= 100);
  for (const { id } of silent)
    t.match(
      await deliveries.receivers.standOf(id),
      { failures: 0, delivered: 0, pending: 100 },
      'it still waits',
    );
});

async function withFiles(t: Test, options: ResolverOptions & { hosts?: string; conf?: string }) {
  const dir = t.testdir({});
  const [hostsFile, resolvConf] = [join(dir, 'hosts'), join(dir, 'resolv.conf')];
  await writeFile(hostsFile, options.hosts ?? '');
  await writeFile(resolvConf, options.conf ?? '');
  return createResolve({ hostsFile, resolvConf, ...options });
}

t.test(
  "the system's own names are found without a name server, and are as private as their address",
  async (t) => {
    const dns = await startNameServer(t, { localhost: null });
    const resolve = createResolve({ servers: [dns.at] });
    await t.resolves(new Addresses(true, resolve).check('http://localhost/'));
    await t.rejects(new Addresses(false, resolve).check('https://localhost/'), { message: /public address/ });
    t.same(dns.asked, []);
  },
);

t.test('names of /etc/hosts come before those of DNS', async (t) => {
  const dns = await startNameServer(t, { 'b.example': '127.0.0.9' });
  const hosts =
    '# b.example\n\n10.0.0.1 a.example A2 # c\n10.0.0.2\ta.example\nfd00::1 a.example\nx b.example\n';
  const resolve = await withFiles(t, { hosts, servers: [dns.at] });
  const addresses = async (name: string) => (await resolve(name)).map(({ address }) => address);
  t.same(await addresses('a.example'), ['10.0.0.1', '10.0.0.2', 'fd00::1']);
  t.same(await addresses('a2'), ['10.0.0.1']);
  t.same(await addresses('b.example'), ['127.0.0.9']);
  await t.rejects(resolve('c'), { code: 'ENOTFOUND' });
});

t.test('short names are asked for under the search list, long ones first as they are', async (t) => {
  const dns = await startNameServer(t, {
    'n8n.tools.svc': '127.0.0.1',
    'a.b': '127.0.0.2',
    'a.b.tools.svc': '127.0.0.3',
  });
  const found = async (conf: string, name: string) => {
    dns.asked.length = 0;
    const [first] = await (await withFiles(t, { conf, servers: [dns.at] }))(name);
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
  await t.rejects(found(search, 'nobody'), { code: 'ENOTFOUND' });
  await t.rejects(found('', 'n8n'), { code: 'ENOTFOUND' });
});

t.test('a name whose server is silent is given up after a time, and said so', async (t) => {
  const dns = await startNameServer(t, { 'silent.example': null });
  const addresses = new Addresses(true, createResolve({ servers: [dns.at], limitMs: 300 }));
  await t.rejects(addresses.check('http://silent.example/'), { message: 'does not resolve (ETIMEOUT)' });
});
