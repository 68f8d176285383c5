// What REDIS_URL may name, and the sentence if it can't be used: a cluster behind TLS whose certificate is for a name, one URL of
// a cluster, an authority that Node does not know, a wrong password, a user who may not do what is needed. As processes: Node
// reads NODE_EXTRA_CA_CERTS once.

import t, { type Test } from 'tap';
import { KEY } from '../harness/app.js';
import { makeCertificate, type TestCertificate } from '../harness/certificates.js';
import { connectTo, startTestCluster, startTestRedis } from '../harness/redis.js';
import { ask } from './client.js';
import { runWishmeter, until, wishmeter } from './wishmeter.js';

const SERVE = { HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '0', REDIS_TIMEOUT_MS: '900', API_KEYS: KEY };

/** Sixteen visitors, whose profiles are at all nodes, are counted. */
async function counts(t: Test, env: NodeJS.ProcessEnv): Promise<void> {
  const { stdout } = runWishmeter(t, { args: ['serve'], env: { ...SERVE, ...env } });
  const [, port] = await until(
    'it serves',
    () => /"port":(\d+).*"msg":"serving"/.exec(stdout()) ?? undefined,
  );
  const headers = { authorization: `Bearer ${KEY}` };
  for (let n = 0; n < 16; n++) {
    const body = JSON.stringify({ identity: { sessionId: `s-${n}` }, productHandle: 'red-shoe' });
    const answer = await ask(Number(port), 'POST', '/product/visit', { body, headers });
    t.equal(answer.status, 200, answer.body);
  }
  t.equal((await ask(Number(port), 'GET', '/readyz')).status, 200);
}

/** The one sentence of a `serve` that ends. */
async function sentenceOf(t: Test, env: NodeJS.ProcessEnv): Promise<string> {
  const { code, stderr } = await wishmeter({ args: ['serve'], env: { ...SERVE, ...env } });
  t.equal(code, 1);
  t.match(stderr, /^wishmeter: [^\n]+\.\n$/, 'one sentence');
  return stderr;
}

const trusting = ({ authority }: TestCertificate) => ({ NODE_EXTRA_CA_CERTS: authority });

t.test('a cluster behind TLS, with a certificate for a name', async (t) => {
  const tls = await makeCertificate(t, 'DNS:localhost');
  const { urls } = await startTestCluster(t, { tls });
  const REDIS_URL = urls.join(',');
  await counts(t, { REDIS_URL, ...trusting(tls) });
  await counts(t, { REDIS_URL: urls[0], ...trusting(tls) });
  for (const url of [REDIS_URL, urls[0]])
    t.match(
      await sentenceOf(t, { REDIS_URL: url }),
      /certificate is of an authority that Node does not know; set NODE_EXTRA_CA_CERTS .*\(SELF_SIGNED_CERT_IN_CHAIN\)/,
    );
  const byAddress = REDIS_URL.replaceAll('localhost', '127.0.0.1');
  t.match(
    await sentenceOf(t, { REDIS_URL: byAddress, ...trusting(tls) }),
    /certificate is for another name.*ERR_TLS_CERT_ALTNAME_INVALID/,
  );
});

t.test('a certificate that does not fit the addresses which the nodes tell is the reason', async (t) => {
  const tls = await makeCertificate(t, 'DNS:localhost');
  const { urls } = await startTestCluster(t, { tls, endpoint: 'ip' });
  t.match(
    await sentenceOf(t, { REDIS_URL: urls.join(','), ...trusting(tls) }),
    /certificate is for another name.*ERR_TLS_CERT_ALTNAME_INVALID/,
  );
});

t.test('a cluster', async (t) => {
  const { urls } = await startTestCluster(t);
  await counts(t, { REDIS_URL: urls[1] });
  await counts(t, { REDIS_URL: `redis://127.0.0.1:1,${urls[2]}` });
  const userOf = (rights: readonly string[], name: string) =>
    Promise.all(urls.map((url) => connectTo(t, url).call('ACL', 'SETUSER', name, ...rights)));
  await userOf(['on', '>secret', '~*', '&*', '+@all', '-cluster|slots'], 'half');
  const as = (user: string) => urls.map((url) => url.replace('//', `//${user}@`)).join(',');
  for (const [user, sentence] of [
    ['half:wrong', /does not accept the user or the password of REDIS_URL \(WRONGPASS /],
    ['half:secret', /user of REDIS_URL lacks a permission; .* \(NOPERM .*cluster\|slots/],
  ] as const)
    t.match(await sentenceOf(t, { REDIS_URL: as(user) }), sentence);
});

t.test('one server', async (t) => {
  const redis = await startTestRedis(t);
  const node = connectTo(t, redis.url);
  await node.call('ACL', 'SETUSER', 'half', 'on', '>secret', '~*', '&*', '+@all', '-eval', '-evalsha');
  const as = (user: string) => redis.url.replace('//', `//${user}@`);
  t.match(await sentenceOf(t, { REDIS_URL: as('half:wrong') }), /WRONGPASS/);
  t.match(await sentenceOf(t, { REDIS_URL: as('half:secret') }), /lacks a permission; .*NOPERM .*eval/);
  t.match(
    await sentenceOf(t, { REDIS_URL: `${redis.url},${redis.url}` }),
    /names several servers, and they are no Redis Cluster/,
  );
});
