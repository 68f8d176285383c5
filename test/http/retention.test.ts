// GUEST_RETENTION_DAYS: all keys of a guest expire together, that many days, or one more, after its last
// write. Customers stay.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectToEach, type TestRedis } from '../harness/redis.js';
import { until } from '../harness/until.js';

const DAY_MS = 86_400_000;
const DAYS = 10;
/** PEXPIRETIME of a key without an end, and of a missing key. */
const [FOR_EVER, GONE] = [-1, -2];
const env = { GUEST_RETENTION_DAYS: String(DAYS), SHOP_URL: 'https://shop.example' };

const visitOf = (sessionId: string, productHandle: string) => ({ identity: { sessionId }, productHandle });
let keyed = 0;
let looks = 0;
const WRITES: Readonly<Record<string, (app: TestApp, sessionId: string) => Promise<unknown>>> = {
  visit: ({ post }, sessionId) => post('/product/visit', visitOf(sessionId, 'a')),
  'visit and count': ({ shop }, sessionId) => shop.visit({ sessionId }, 'b'),
  'first look': ({ shop }, sessionId) => shop.visit({ sessionId }, `look-${looks++}`),
  'visit under a key': ({ post }, sessionId) =>
    post('/product/visit', visitOf(sessionId, 'c'), { 'idempotency-key': `${keyed++}` }),
  'batch of visits': ({ post }, sessionId) =>
    post('/product/visit/batch', { visits: [visitOf(sessionId, 'd')] }, TRUSTED),
  event: ({ shop }, sessionId) => shop.event({ sessionId }),
  item: ({ shop }, sessionId) => shop.add({ sessionId }),
  removal: ({ shop }, sessionId) => shop.remove({ sessionId }, { productId: 'first' }),
  share: ({ shop }, sessionId) => shop.share({ sessionId }),
  name: ({ post }, sessionId) => post('/profile/guest', { sessionId, firstName: 'Ada' }, TRUSTED),
  address: ({ post }, sessionId) => post('/profile/guest', { sessionId, email: 'a@b.example' }, TRUSTED),
};

/** One write for each way to Redis. */
const ON_CLUSTER = ['visit and count', 'visit under a key', 'item', 'share', 'address'];

const READS: Readonly<Record<string, (app: TestApp, sessionId: string) => Promise<unknown>>> = {
  count: ({ shop }, sessionId) => shop.count({ sessionId }, 'first'),
  'counts of a page': ({ post }, sessionId) =>
    post('/product/visit/list', { identity: { sessionId }, productHandles: ['first', 'a'] }),
  items: ({ shop }, sessionId) => shop.items({ sessionId }),
  export: ({ shop }, sessionId) => shop.exported({ sessionId }),
};

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env });
  const isOne = redis.urls.length === 1;
  const writes = Object.entries(WRITES).filter(([name]) => isOne || ON_CLUSTER.includes(name));

  /** A process with empty caches. */
  const another = () => startApp(t, redis, { env, prefix: app.prefix });

  async function guest(sessionId: string): Promise<void> {
    await app.shop.visit({ sessionId }, 'first');
    await app.shop.add({ sessionId }, { productId: 'first' });
  }

  t.test('every write makes all keys of a guest expire together, DAYS to DAYS + 1 days later', async (t) => {
    const ages = await agesOf(t, redis, app);
    // Its caches are empty, as those of any process two days later.
    const later = await another();
    const start = Date.now();
    const { profileId: looked } = await app.shop.visit({ sessionId: 'looked' });
    const [end = 0] = await ages.moments(looked);
    t.ok(isAfterDays(end, start, DAYS), `one who only looked: ${end - start} ms`);
    for (const [name, write] of writes) {
      const sessionId = `write-${name}`;
      const who = { sessionId: `bare-${name}` };
      await app.shop.visit(who);
      await write(app, who.sessionId);
      const bare = await ages.moments((await app.shop.exported(who)).profileId);
      t.equal(bare.length, 1, `${name} of one who only looked`);
      const early = { sessionId: `early-${name}` };
      await write(app, early.sessionId);
      await sleep(2);
      await app.shop.visit(early);
      const both = await ages.moments((await app.shop.exported(early)).profileId);
      t.equal(both.length, 1, `${name} of one who looks later`);
      await guest(sessionId);
      await write(app, sessionId);
      const { profileId } = await app.shop.exported({ sessionId });
      const [first = 0, ...more] = await ages.moments(profileId);
      t.same(more, [], `${name}: one moment`);
      await ages.shift(profileId, -2 * DAY_MS);
      for (const [title, read] of Object.entries(READS)) {
        await read(app, sessionId);
        t.same(await ages.moments(profileId), [first - 2 * DAY_MS], `${title} prolongs nothing`);
      }
      const began = Date.now();
      await write(later, sessionId);
      const [end = 0, ...others] = await ages.moments(profileId);
      t.same(others, [], `${name}: one moment`);
      t.ok(isAfterDays(end, began, DAYS), `${name}: ${end - began} ms`);
      await ages.shift(profileId, -DAY_MS / 2);
      await later.shop.visit({ sessionId }, 'first');
      t.same(await ages.moments(profileId), [end - DAY_MS / 2], 'it is set once a day');
    }
  });

  t.test('a session whose customer was erased expires like any other guest', async (t) => {
    const ages = await agesOf(t, redis, app);
    for (const [name, write] of writes) {
      const who = { sessionId: `nobodys-${name}` };
      await app.shop.login({ ...who, customerId: `first-${name}` });
      await app.shop.login({ ...who, customerId: `second-${name}` });
      await app.shop.erase({ customerId: `second-${name}` });
      for (const days of [0, 2]) {
        const began = Date.now();
        if (days > 0) await guest(who.sessionId);
        await write(app, who.sessionId);
        const profileId = await profileOf(app, who);
        const exists = (await app.get(withQuery('/profile', who), TRUSTED)).status === 200;
        t.equal(exists, days > 0 || name !== 'removal', name);
        if (!exists) continue;
        const [end = 0, ...others] = await ages.moments(profileId);
        t.same(others, [], `${name}: one moment`);
        t.ok(isAfterDays(end, began, DAYS), `${name}: ${end - began} ms`);
        await ages.shift(profileId, -2 * DAY_MS);
      }
    }
  });

  t.test(
    'a link without a merge ends GUEST_RETENTION_DAYS after its last write, and a merged session never',
    async (t) => {
      const ages = await agesOf(t, redis, app);
      const keys = createKeys(app.prefix);
      const [reader, later] = [await another(), await another()];
      for (const [name, write] of writes) {
        const who = { sessionId: `linked-${name}` };
        const link = await profileOf(app, who);
        const began = Date.now();
        const { profileId: customer } = await app.shop.login({ ...who, customerId: `leads-${name}` });
        const [end = 0, ...others] = await ages.moments(link);
        t.same(others, []);
        t.ok(isAfterDays(end, began, DAYS), `${name}: ${end - began} ms`);
        await ages.shift(link, -2 * DAY_MS);
        await reader.shop.exported(who);
        t.same(await ages.moments(link), [end - 2 * DAY_MS], 'a read prolongs nothing');
        await write(later, who.sessionId);
        const [kept = 0] = await ages.moments(link);
        t.ok(isAfterDays(kept, began, DAYS), `${name} keeps the link: ${kept - began} ms`);
        await ages.endNow(link);
        await reader.shop.visit(who);
        t.not(await profileOf(reader, who), customer, `${name}: a session without a link is a guest`);
      }
      const merged = { sessionId: 'merged-stays' };
      const { profileId } = await app.shop.visit(merged);
      await app.shop.login({ ...merged, customerId: 'merges' });
      t.equal(await ages.endOf(keys.counts(profileId)), FOR_EVER);
      t.equal(await ages.endOf(keys.profile(profileId)), FOR_EVER);
      await app.shop.login({ ...merged, customerId: 'next' });
      await app.shop.erase({ customerId: 'next' });
      t.equal(await ages.endOf(keys.profile(profileId)), FOR_EVER, 'a retired session stays retired');
      await app.shop.login({ ...merged, customerId: 'third' });
      t.equal(await ages.endOf(keys.counts(profileId)), FOR_EVER, "its next customer's for good");
    },
  );

  t.test('the keys of a guest expire together again after the next item write', async (t) => {
    const ages = await agesOf(t, redis, app);
    await guest('apart');
    const { profileId } = await app.shop.exported({ sessionId: 'apart' });
    const [last = Number.NaN] = await ages.moments(profileId);
    await ages.shift(profileId, -DAY_MS / 2, /:p:/);
    t.equal((await ages.moments(profileId)).length, 2);
    await app.shop.add({ sessionId: 'apart' });
    const moments = await ages.moments(profileId);
    t.equal(moments.length, 1);
    t.ok((moments[0] as number) >= last);
  });

  t.test(
    'an expired guest is gone with items, share code and address, and starts anew on return',
    async (t) => {
      const ages = await agesOf(t, redis, app);
      const who = { sessionId: 'ends' };
      const addresses = await ages.names(/:\{email:/, '');
      await guest('ends');
      const { code } = await app.shop.share(who);
      await app.post('/profile/guest', { ...who, email: 'gone@b.example' }, TRUSTED);
      const { profileId } = await app.shop.exported(who);
      await ages.endNow(profileId);
      t.equal(await app.shop.count(who, 'first'), 0);
      t.same(await app.shop.items(who), []);
      t.equal((await app.get(`/wishlist/share/${code}`)).status, 404);
      t.equal((await app.get(withQuery('/profile', { email: 'gone@b.example' }), TRUSTED)).status, 404);
      t.match(await app.shop.visit(who, 'first'), { profileId, count: 1 });
      await app.shop.add(who);
      t.not((await app.shop.share(who)).code, code);
      t.equal((await app.get(`/wishlist/share/${code}`)).status, 404, 'an old link shows nothing of it');
      t.equal((await app.get(withQuery('/profile', { email: 'gone@b.example' }), TRUSTED)).status, 404);
      t.same(await ages.names(/:\{share:/, code), [], 'what led to it is removed once it was used');
      t.same(await ages.names(/:\{email:/, ''), addresses);
    },
  );

  t.test('share code and index entries of an expired guest are swept', async (t) => {
    const alerting = { ...env, PRODUCT_ALERTS: 'on' };
    const filling = await startApp(t, redis, { env: alerting });
    const ages = await agesOf(t, redis, filling);
    const { shop } = filling;
    const leading = () => ages.names(/:\{(?:share|email|wish):/, '');
    const fill = async (sessionId: string) => {
      await shop.add({ sessionId }, { productId: sessionId });
      const email = `${sessionId}@swept.example`;
      await filling.post('/profile/guest', { sessionId, email }, TRUSTED);
      return (await shop.share({ sessionId })).code;
    };
    const stays = await fill('stays-here');
    const before = (await leading()).sort();
    t.equal(before.length, 3, 'one of each kind');
    const goes = await fill('leaves-nothing');
    const members = (await leading()).filter((key) => !before.includes(key));
    t.equal(members.length, 3);
    await ages.endNow((await shop.exported({ sessionId: 'leaves-nothing' })).profileId);
    // The next sweep is due.
    for (const node of connectToEach(t, redis.urls))
      await node.unlink(createKeys(filling.prefix).sweep).catch(() => {});
    const timing = { sweepMs: 400, sweepGraceMs: 0 };
    const sweeping = await startApp(t, redis, { env: alerting, timing, prefix: filling.prefix });
    await until('nothing leads to it', async () => (await leading()).length === 3);
    t.same((await leading()).sort(), before);
    t.same(await ages.names(/:\{share:/, goes), []);
    t.equal((await sweeping.get(`/wishlist/share/${stays}`)).status, 200);
    const { items } = await sweeping.shop.exported({ email: 'stays-here@swept.example' });
    t.match(items, [{ productId: 'stays-here' }]);
    const counted = /^wishmeter_swept_total\{kind="(?:share|email|wish)"\} 1$/gm;
    // An address has no grace period: the first server's own sweep may remove it.
    const stats = async () => (await sweeping.stats()) + (await filling.stats());
    await until('each is counted', async () => (await stats()).match(counted)?.length === 3);
  });

  t.test('the sweeper leaves a new share code, and the address of a customer', async (t) => {
    const app = await startApp(t, redis, { env, timing: { sweepMs: 200 } });
    const ages = await agesOf(t, redis, app);
    const email = 'kept@swept.example';
    await app.shop.event({ customerId: 'kept', email });
    const [young, old] = ['0123456789abcdefghi', '9876543210abcdefghi'];
    for (const [code, days] of [
      [young, 0],
      [old, 2],
    ] as const)
      for (const node of connectToEach(t, redis.urls)) {
        const owner = `1.sAAAAAAAAAAAAAAAA ${Date.now() - days * DAY_MS}`;
        await node.set(createKeys(app.prefix).share(code), owner).catch(() => {});
      }
    await until('the old one is swept', async () => (await ages.names(/:\{share:/, old)).length === 0);
    t.equal((await ages.names(/:\{share:/, young)).length, 1);
    t.equal((await app.get(withQuery('/profile', { email }), TRUSTED)).status, 200);
  });

  t.test('a customer never expires, nor do guests that were merged into it', async (t) => {
    const ages = await agesOf(t, redis, app);
    const customer = { customerId: 'stays' };
    await app.shop.visit(customer, 'first');
    await app.shop.add(customer);
    const forEver = async (profileId: string) => t.same(await ages.moments(profileId), [FOR_EVER]);
    await forEver((await app.shop.exported(customer)).profileId);
    await guest('first');
    await app.shop.share({ sessionId: 'first' });
    await forEver((await app.shop.login({ customerId: 'new', sessionId: 'first' })).profileId);
    await guest('merged');
    const merged = await app.shop.login({ ...customer, sessionId: 'merged' });
    t.match(merged, { merged: true });
    await app.shop.visit({ sessionId: 'merged' }, 'first');
    await forEver(merged.profileId);
    t.equal(await app.shop.count(customer, 'first'), 3);
  });

  t.test('another GUEST_RETENTION_DAYS applies from the next write on, and 0 means for ever', async (t) => {
    const ages = await agesOf(t, redis, app);
    await guest('changed');
    const { profileId } = await app.shop.exported({ sessionId: 'changed' });
    for (const days of [2, 400, 0, 5]) {
      const changed = await startApp(t, redis, {
        env: { ...env, GUEST_RETENTION_DAYS: String(days) },
        prefix: app.prefix,
      });
      const began = Date.now();
      await changed.shop.visit({ sessionId: 'changed' }, 'first');
      const [end = 0, ...others] = await ages.moments(profileId);
      t.same(others, []);
      if (days === 0) t.equal(end, FOR_EVER);
      else t.ok(isAfterDays(end, began, days), `${days} days: ${end - began} ms`);
    }
  });
});

async function profileOf({ get }: TestApp, who: { readonly sessionId: string }): Promise<string> {
  return (await get(withQuery('/product/visit', { ...who, productHandle: 'x' }), TRUSTED)).json.profileId;
}

function isAfterDays(end: number, began: number, days: number): boolean {
  return end - began >= days * DAY_MS && end - began <= (days + 1.001) * DAY_MS;
}

async function agesOf(t: Test, redis: TestRedis, { prefix }: TestApp) {
  const nodes = connectToEach(t, redis.urls);
  const keysOf = async (profileId: string) => {
    const [bucket, hash] = profileId.split('.') as [string, string];
    const found = await Promise.all(
      nodes.map(async (node) =>
        (await node.keys(`${prefix}:{${bucket}}:*:${hash}`)).map((key) => ({ node, key })),
      ),
    );
    // Records of operations and times of erasures have TTLs of their own.
    return found.flat().filter(({ key }) => /\}:[^ek]:/.test(key));
  };
  const names = async (pattern: RegExp, but: string) =>
    (await Promise.all(nodes.map((node) => node.keys(`${prefix}:*`))))
      .flat()
      .filter((key) => pattern.test(key) && key.includes(but));
  const ends = async (profileId: string) => {
    const all = new Map<string, number>();
    for (const { node, key } of await keysOf(profileId)) {
      const end = Number(await node.call('PEXPIRETIME', key));
      if (end !== GONE) all.set(key, end);
    }
    return all;
  };
  return {
    names,
    async endOf(key: string) {
      const found = await Promise.all(nodes.map((node) => node.call('PEXPIRETIME', key).catch(() => GONE)));
      return Math.max(...found.map(Number));
    },
    moments: async (profileId: string) => [...new Set((await ends(profileId)).values())],
    async shift(profileId: string, ms: number, which = /./) {
      const before = await ends(profileId);
      for (const { node, key } of await keysOf(profileId)) {
        const end = before.get(key);
        if (end !== undefined && which.test(key)) await node.pexpireat(key, end + ms);
      }
    },
    async endNow(profileId: string) {
      for (const { node, key } of await keysOf(profileId)) await node.pexpire(key, 1);
      await sleep(2);
      await until('it is gone', async () => (await keysOf(profileId)).length === 0);
    },
  };
}
