// Both ids in one trusted request, row by row of the contract's table, over two servers. Crashes: crashes.test.ts; concurrent
// requests: test/explorer.

import t, { type Test } from 'tap';
import { encodeEvent } from '../../src/events/row.js';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import { ITEM } from '../harness/shop.js';
import { add, login, remove, type Server, share, startServer, startTwo } from '../wishlist/fixtures.js';

const PATH = '/product/visit';
interface Ids {
  readonly customerId?: string;
  readonly sessionId?: string;
}
async function visit(app: TestApp, identity: Ids): Promise<{ profileId: string; count: number }> {
  const { profileId, count } = await app.shop.visit(identity, 'x');
  return { profileId, count };
}
async function read(app: TestApp, identity: Ids): Promise<{ profileId: string; count: number }> {
  const { json } = await app.get(withQuery(PATH, { ...identity, productHandle: 'x' }), TRUSTED);
  return { profileId: json.profileId, count: json.count };
}

const eventLine = (profileId: string) =>
  encodeEvent({
    ...{ type: 'add', origin: 'event', profileId, identity: identityOf({ sessionId: 's' }), payload: {} },
    at: Date.now(),
  });

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  // A second server, which makes none of the links: its cache is cold first, then warm.
  const other = await startApp(t, redis, { prefix: app.prefix });

  /** Both ids lead to this profile with this count, on both servers, with cold and with warm caches. */
  const areOne = async (t: Test, ids: Required<Ids>, profileId: string, count: number) => {
    const { customerId, sessionId } = ids;
    let expected = count;
    for (const server of [app, other, other, app]) {
      for (const identity of [{ customerId }, { sessionId }, ids]) {
        t.same(await read(server, identity), { profileId, count: expected });
        expected++;
        t.same(await visit(server, identity), { profileId, count: expected });
      }
    }
  };

  t.test('a login of two unknown ids creates one profile for both', async (t) => {
    const ids = { customerId: 'c1', sessionId: 's1' };
    const before = await read(app, ids);
    const { profileId, count } = await visit(app, ids);
    t.same({ profileId, count: count - 1 }, before);
    await areOne(t, ids, profileId, 1);
  });

  t.test('a login of an unknown session leads it to the profile of its known customer', async (t) => {
    const ids = { customerId: 'c2', sessionId: 's2' };
    const { profileId } = await visit(app, { customerId: 'c2' });
    t.same(await visit(app, ids), { profileId, count: 2 });
    await areOne(t, ids, profileId, 2);
    const byEvent = await app.shop.event({ customerId: 'by-event' });
    const both = { customerId: 'by-event', sessionId: 'after-event' };
    await visit(app, { sessionId: both.sessionId });
    t.same(await visit(app, both), { profileId: byEvent.profileId, count: 2 }, 'known by an event alone');
  });

  t.test(
    "a login of a guest with an unknown customer merges the guest into the customer's new profile",
    async (t) => {
      const ids = { customerId: 'c3', sessionId: 's3' };
      const guest = await visit(app, { sessionId: 's3' });
      const before = await read(app, ids);
      t.equal(before.count, 0, 'reading in both names is about the customer');
      t.not(before.profileId, guest.profileId);
      t.same(await visit(app, ids), { profileId: before.profileId, count: 2 });
      await areOne(t, ids, before.profileId, 2);
    },
  );

  t.test('a login of a session that is linked to this customer changes nothing', async (t) => {
    const ids = { customerId: 'c4', sessionId: 's4' };
    const { profileId } = await visit(app, ids);
    const before = await app.dump();
    t.equal((await other.shop.event(ids)).profileId, profileId);
    const after = await app.dump();
    const visitors = (dump: object) => Object.entries(dump).filter(([key]) => !/:(events|channel)/.test(key));
    t.same(visitors(after), visitors(before));
  });

  t.test(
    'a login of a guest with a known customer adds the counts, and leads the session to the customer',
    async (t) => {
      const ids = { customerId: 'c5', sessionId: 's5' };
      const { profileId } = await visit(app, { customerId: 'c5' });
      for (let i = 0; i < 3; i++) await visit(other, { sessionId: 's5' });
      t.same(await visit(app, ids), { profileId, count: 5 });
      await areOne(t, ids, profileId, 5);
    },
  );

  t.test("a login of another customer's session moves it, and merges nothing", async (t) => {
    const [mine, theirs] = [
      { customerId: 'c6', sessionId: 's6' },
      { customerId: 'c7', sessionId: 's6' },
    ];
    const first = await visit(app, mine);
    const second = await visit(app, theirs);
    t.not(second.profileId, first.profileId);
    t.equal(second.count, 1);
    await areOne(t, theirs, second.profileId, 1);
    t.same(await read(other, { customerId: 'c6' }), { profileId: first.profileId, count: 1 });
    // A server that has cached both links sees the session move back.
    for (const ids of [mine, mine, { ...mine, customerId: 'c8' }, mine]) await visit(app, ids);
    t.match(await read(other, { sessionId: 's6' }), { profileId: first.profileId });
  });

  t.test(
    "a read that names a customer and another customer's session returns the customer's count",
    async (t) => {
      await visit(app, { sessionId: 's14' });
      const { profileId } = await visit(app, { customerId: 'c14', sessionId: 's14' });
      for (const server of [app, other]) {
        const read15 = await read(server, { customerId: 'c15', sessionId: 's14' });
        t.not(read15.profileId, profileId);
        t.equal(read15.count, 0);
        t.same(await read(server, { customerId: 'c14', sessionId: 's14' }), { profileId, count: 2 });
      }
    },
  );

  t.test('a customer stays known after its session has reset all counts', async (t) => {
    const { profileId } = await visit(app, { customerId: 'c9' });
    await visit(app, { customerId: 'c9', sessionId: 's9' });
    await app.shop.reset({ sessionId: 's9' }, 'x');
    await visit(app, { sessionId: 's10' });
    const both = await visit(other, { customerId: 'c9', sessionId: 's10' });
    t.same(both, { profileId, count: 2 });
  });

  t.test('a session stays known after its customer has reset all counts', async (t) => {
    await visit(app, { sessionId: 's11' });
    const { profileId } = await visit(app, { customerId: 'c11', sessionId: 's11' });
    await app.shop.reset({ customerId: 'c11' }, 'x');
    t.equal((await app.shop.add({ customerId: 'c11' })).profileId, profileId);
    t.match(await other.shop.remove({ sessionId: 's11' }), { profileId, removed: true });
  });

  t.test(
    "an event belongs to the session's present customer, even through a server that saw neither login nor move",
    async (t) => {
      const ids = { customerId: 'c12', sessionId: 's12' };
      const { profileId } = await visit(app, { customerId: 'c12' });
      await other.shop.event({ sessionId: 's12' });
      await visit(app, ids);
      t.equal((await other.shop.event({ sessionId: 's12' })).profileId, profileId, 'merged');
      const moved = await visit(app, { ...ids, customerId: 'c13' });
      t.equal((await other.shop.event({ sessionId: 's12' })).profileId, moved.profileId, 'moved');
      const rows = await app.events({ sessionId: 's12' });
      const profiles = rows.slice(1).map((row) => row['profile_id']);
      t.same(profiles, [profileId, moved.profileId]);
    },
  );

  t.test('a server that remembers a link to an erased customer writes nothing to the next one', async (t) => {
    for (const seenSince of ['nothing', 'the session'] as const) {
      const [gone, next, sessionId] = [`gone ${seenSince}`, `next ${seenSince}`, `shared ${seenSince}`];
      const before = { customerId: gone, sessionId };
      await visit(app, { sessionId });
      for (let i = 0; i < 3; i++) await visit(other, before);
      await visit(other, { customerId: gone });
      await app.shop.erase({ customerId: gone });
      await visit(app, { sessionId });
      const { profileId } = await visit(app, { customerId: next, sessionId });
      if (seenSince === 'the session') await visit(other, { sessionId });
      const { count } = await read(app, { customerId: next });
      const came = await visit(other, before);
      t.not(came.profileId, profileId, seenSince);
      t.equal(came.count, 1);
      await app.shop.erase({ customerId: gone });
      await visit(app, { customerId: next, sessionId });
      for (const write of [
        () => other.shop.add(before),
        () => other.shop.event(before),
        () => other.shop.share(before),
      ])
        t.not((await write()).profileId, profileId, seenSince);
      t.same(await app.shop.items({ customerId: next }), []);
      t.equal((await read(app, { customerId: next })).count, count + 1);
    }
  });

  t.test('a merged session that moves away and back leads to its first profile again', async (t) => {
    const [first, second] = [
      { customerId: 'c20', sessionId: 's20' },
      { customerId: 'c21', sessionId: 's20' },
    ];
    await visit(app, { sessionId: 's20' });
    const { profileId } = await visit(app, first);
    for (const [ids, count] of [
      [second, 1],
      [first, 3],
      [second, 2],
      [first, 4],
    ] as const) {
      const came = await visit(ids === first ? app : other, ids);
      t.equal(came.count, count);
      t.equal(came.profileId === profileId, ids === first);
      for (const server of [app, other])
        t.same(await read(server, { sessionId: 's20' }), came, 'a server that remembers the other link, too');
    }
  });

  t.test(
    'a merged session whose later customer is erased is retired until its first customer is',
    async (t) => {
      const [first, second, third] = ['c30', 'c31', 'c32'].map((customerId) => ({
        customerId,
        sessionId: 's30',
      }));
      const alone = { sessionId: 's30' };
      await app.shop.add(alone);
      for (const ids of [first, second]) await visit(app, ids as Ids);
      await visit(other, alone);
      await app.shop.erase({ customerId: 'c31' });
      const asked = [
        (server: TestApp) => server.post(PATH, { identity: alone, productHandle: 'x' }),
        (server: TestApp) => server.get(withQuery(PATH, { ...alone, productHandle: 'x' })),
        (server: TestApp) => server.send('DELETE', PATH, { identity: alone, productHandle: 'x' }),
        (server: TestApp) => server.post('/item/list', { identity: alone }, TRUSTED),
        (server: TestApp) => server.post('/item/count', { identity: alone }, TRUSTED),
        (server: TestApp) => server.post('/item/add', { identity: alone, ...ITEM }, TRUSTED),
        (server: TestApp) => server.post('/item/remove', { identity: alone, ...ITEM }, TRUSTED),
        (server: TestApp) => server.post('/share', { identity: alone }, TRUSTED),
        (server: TestApp) => server.post('/event', { identity: alone, type: 'add' }, TRUSTED),
        (server: TestApp) => server.post('/profile/guest', alone, TRUSTED),
      ];
      const before = await app.dump();
      for (const server of [other, app])
        for (const ask of asked)
          t.match(await ask(server), { status: 403, json: { code: 'session_retired' } });
      t.equal((await app.get(withQuery('/profile', alone), TRUSTED)).status, 404);
      t.same(await app.shop.erase(alone), { erased: false });
      t.same(Object.keys(await app.dump()), Object.keys(before), 'nothing is kept of it');

      t.equal((await visit(app, third as Ids)).count, 1, 'a login links it, and merges nothing');
      t.same(await other.shop.items(alone), []);
      t.equal((await read(other, alone)).count, 1);
      await app.shop.erase({ customerId: 'c32' });
      t.match(
        await app.shop.visit({ customerId: 'c30' }, 'x'),
        { count: 2 },
        'the first customer has what was merged',
      );
      t.equal((await app.shop.items({ customerId: 'c30' })).length, 1);
      t.match(await asked[0]?.(other), { status: 403 });
      await app.shop.erase({ customerId: 'c30' });
      for (const server of [other, app]) t.match(await asked[0]?.(server), { status: 200 });
      t.equal((await read(app, alone)).count, 2, 'a guest like any other');
      t.same(await app.shop.items(alone), []);
    },
  );

  t.test(
    'every write extends a link without a merge, and the link of a merged session never expires',
    async (t) => {
      const guestsS = 30 * 24 * 60 * 60;
      const prefix = `kept-${redis.urls.length}`;
      const [server, another] = await startTwo(t, redis, prefix, { guestsS });
      const { keys, client } = server.store;
      const [plain, merged] = [
        { customerId: 'c', sessionId: 's' },
        { customerId: 'c', sessionId: 'merged' },
      ];
      const [linked, guest] = [identityOf({ sessionId: 's' }), identityOf({ sessionId: 'merged' })];
      await add(server, guest);
      for (const ids of [plain, merged]) await login(server, ids);
      const key = keys.counts(server.locator.profileOf('s:s'));
      const daysLeft = async () => Math.ceil((await client.ttl(key)) / (24 * 60 * 60));
      t.equal(await daysLeft(), 31);
      t.equal(await client.ttl(keys.counts(server.locator.profileOf('s:merged'))), -1);
      const shortly = () => client.expire(key, 100);

      for (const [what, write] of [
        ['a visit', (by) => by.counter.enter('visit', linked, true, 'x')],
        ['a reset', (by) => by.counter.enter('reset', linked, true, 'x')],
        ['a saved item', (by) => add(by, linked)],
        ['a removed item', (by) => remove(by, linked)],
        ['a share', (by) => share(by, linked)],
        ['an address', (by) => by.profiles.keep({ ...linked, email: 's@kept.example' }, true, true)],
        ['an event', (by) => by.recorder.record(linked, true, (profileId) => eventLine(profileId))],
        ['a login', (by) => login(by, plain)],
      ] as const satisfies readonly (readonly [string, (by: Server) => Promise<unknown>])[]) {
        await shortly();
        // Its caches are empty: it knows neither the link nor its extension.
        const fresh = await startServer(t, redis, prefix, { guestsS });
        t.equal((await fresh.counter.readAll(linked, ['x'])).profileId, server.locator.profileOf('c:c'));
        t.equal(await daysLeft(), 1, 'a read extends nothing');
        await write(fresh);
        t.equal(await daysLeft(), 31, what);
      }
      const unaware = await startServer(t, redis, prefix, { guestsS });
      await unaware.counter.enter('visit', guest, true, 'x');
      t.equal(await client.ttl(keys.counts(server.locator.profileOf('s:merged'))), -1, 'no write ends it');
      await shortly();
      await client.del(key);
      t.equal(await another.locator.stateOf('s:s'), 'unknown');
      const { profileId } = await server.counter.enter('visit', linked, true, 'x');
      t.equal(profileId, server.locator.profileOf('s:s'), 'a guest again');
      t.equal(await login(server, plain), true);
    },
  );
});
