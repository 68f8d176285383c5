// An erasure of all of the shop asks Redis for little at a time, however many visitors there are: a command that looks at
// thousands of keys or fields at once would keep all others waiting.

import type { Redis } from 'ioredis';
import t from 'tap';
import { Compliance } from '../../src/identity/compliance.js';
import { EVERY_PROFILE, identityName } from '../../src/identity-rules.js';
import { allKeys } from '../harness/dump.js';
import { monitorRedis } from '../harness/monitor.js';
import { startTestRedis } from '../harness/redis.js';
import { startServer } from '../wishlist/fixtures.js';

/** Keys or fields that one command may be about. */
const MOST = 300;
/** Commands that are about as many as there are. */
const UNBOUNDED = /^(keys|hgetall|hkeys|hvals|smembers|lrange|flushdb|flushall|sort)$/i;
const VISITORS = 3_000;
/** By their profile alone. */
const KNOWN = 200;
const PREFIX = 'bounded';

const redis = await startTestRedis(t);

t.test('every step of it is bounded, and nothing is left', async (t) => {
  const server = await startServer(t, redis, PREFIX);
  const { keys, client } = server.store;
  const filling = (client as Redis).pipeline();
  for (let i = 0; i < VISITORS; i++) {
    const guest = server.doors.ownProfile(identityName('s', `guest-${i}`));
    filling.hset(keys.door(guest), 'p', 1);
  }
  for (let i = 0; i < KNOWN; i++) {
    const name = identityName('s', `known-${i}`);
    filling.hset(keys.profile(server.doors.ownProfile(name)), 'known', '1');
  }
  await filling.exec();

  const asked: string[][] = [];
  const end = await monitorRedis(redis.url, (command) => asked.push(command));
  t.teardown(end);
  await server.shopEraser.erase();
  await client.ping();
  end();
  t.same(
    (await allKeys(redis, PREFIX)).filter((key) => /\}:(v|p)/.test(key)),
    [],
  );

  const counts = asked.flatMap((command) => {
    const at = command.findIndex((word) => word.toUpperCase() === 'COUNT');
    return /^h?scan$/i.test(command[0] ?? '') ? [at < 0 ? 10 : Number(command[at + 1])] : [];
  });
  t.ok(counts.length > VISITORS / MOST, `${counts.length} pages`);
  t.same(
    counts.filter((count) => count > MOST),
    [],
  );
  t.same(
    asked.filter((command) => command.length > MOST).map(([name]) => name),
    [],
  );
  const unbounded = asked.filter(([name = '']) => UNBOUNDED.test(name));
  t.same(new Set(unbounded.map(([name]) => name)), new Set());
});

t.test('one erasure stands for all, and beside an audit of merges, too', async (t) => {
  for (const [prefix, isAudited] of [
    ['alone', false],
    ['audited', true],
  ] as const) {
    const server = await startServer(t, redis, prefix);
    const { keys, client } = server.store;
    const linked = Array.from({ length: 40 }, (_, i) => server.linker.link(`c:${i}`, `s:${i}`));
    await Promise.all(linked);
    let isOver = false;
    const audit = async () => {
      while (isAudited && !isOver) await server.audit.run();
    };
    const auditing = audit();
    await server.shopEraser.erase();
    isOver = true;
    await auditing;
    const written = await client.hkeys(keys.erasures);
    // The audit can't tell whose erasure it finishes: it writes down those profiles, too.
    if (isAudited) t.ok(written.includes(EVERY_PROFILE), prefix);
    else t.same(written, [EVERY_PROFILE], prefix);
    const left = await allKeys(redis, prefix);
    t.same(
      left.filter((key) => !key.endsWith(':erasures') && !/:(lane|meta|events)/.test(key)),
      [],
      prefix,
    );
  }
});

t.test('requests that are open are read in pages', async (t) => {
  const server = await startServer(t, redis, 'requests');
  const compliance = new Compliance(server.store);
  const request = {
    kind: 'customers/redact',
    at: 1,
    shop: null,
    email: null,
    orders: 0,
    dataRequestId: null,
  } as const;
  for (let i = 0; i < 700; i++) await compliance.take(`delivery ${i}`, { ...request, customerId: String(i) });
  const asked: string[] = [];
  const end = await monitorRedis(redis.url, ([name = '']) => asked.push(name.toLowerCase()));
  t.teardown(end);
  const ids = (await compliance.list()).map(({ request: { customerId } }) => customerId);
  t.same(
    ids,
    Array.from({ length: 700 }, (_, i) => String(i)),
    'each once, oldest first',
  );
  await server.store.client.ping();
  t.notOk(asked.includes('hgetall'));
  t.ok(asked.filter((name) => name === 'hscan').length >= 3);
});
