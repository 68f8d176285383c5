// Both ids in one trusted request, row by row of the contract's table, over two servers. Concurrent ones: test/explorer.

import t, { type Test } from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';

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
eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  // Sees none of the links being made; its cache is cold at first and warm from then on.
  const other = await startApp(t, redis, { prefix: app.prefix });

  /** From now on both ids are this profile with this count, for both servers, first look and second. */
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

  t.test('customer unknown, session unknown: one new profile, both point to it', async (t) => {
    const ids = { customerId: 'c1', sessionId: 's1' };
    const before = await read(app, ids);
    const { profileId, count } = await visit(app, ids);
    t.same({ profileId, count: count - 1 }, before);
    await areOne(t, ids, profileId, 1);
  });

  t.test("customer known, session unknown: the session points to the customer's profile", async (t) => {
    const ids = { customerId: 'c2', sessionId: 's2' };
    const { profileId } = await visit(app, { customerId: 'c2' });
    t.same(await visit(app, ids), { profileId, count: 2 });
    await areOne(t, ids, profileId, 2);
    const byEvent = await app.shop.event({ customerId: 'by-event' });
    const both = { customerId: 'by-event', sessionId: 'after-event' };
    await visit(app, { sessionId: both.sessionId });
    t.same(await visit(app, both), { profileId: byEvent.profileId, count: 2 }, 'known by an event alone');
  });

  t.test("customer unknown, session known: its profile becomes the customer's", async (t) => {
    const ids = { customerId: 'c3', sessionId: 's3' };
    const { profileId } = await visit(app, { sessionId: 's3' });
    t.same(await read(app, ids), { profileId, count: 1 }, 'reading in both names says so already');
    t.same(await visit(app, ids), { profileId, count: 2 });
    await areOne(t, ids, profileId, 2);
  });

  t.test('the same profile: nothing', async (t) => {
    const ids = { customerId: 'c4', sessionId: 's4' };
    const { profileId } = await visit(app, ids);
    const before = await app.dump();
    t.equal((await other.shop.event(ids)).profileId, profileId);
    const after = await app.dump();
    const visitors = (dump: object) => Object.entries(dump).filter(([key]) => !/:(events|channel)/.test(key));
    t.same(visitors(after), visitors(before));
  });

  t.test("both known, the session no customer's: counts are added, the old id resolves", async (t) => {
    const ids = { customerId: 'c5', sessionId: 's5' };
    const { profileId } = await visit(app, { customerId: 'c5' });
    for (let i = 0; i < 3; i++) await visit(other, { sessionId: 's5' });
    t.same(await visit(app, ids), { profileId, count: 5 });
    await areOne(t, ids, profileId, 5);
  });

  t.test("the session another customer's: it moves, and nothing is merged", async (t) => {
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
    // A server that saw the first two as one, and the session move, sees it move back.
    for (const ids of [mine, mine, { ...mine, customerId: 'c8' }, mine]) await visit(app, ids);
    t.match(await read(other, { sessionId: 's6' }), { profileId: first.profileId });
  });

  t.test("a read that names a customer and another customer's session is the customer's", async (t) => {
    const { profileId } = await visit(app, { sessionId: 's14' });
    await visit(app, { customerId: 'c14', sessionId: 's14' });
    for (const server of [app, other]) {
      const read15 = await read(server, { customerId: 'c15', sessionId: 's14' });
      t.not(read15.profileId, profileId);
      t.equal(read15.count, 0);
      t.same(await read(server, { customerId: 'c14', sessionId: 's14' }), { profileId, count: 2 });
    }
  });

  t.test('a customer stays known when a session takes all its counts away', async (t) => {
    const { profileId } = await visit(app, { customerId: 'c9' });
    await visit(app, { customerId: 'c9', sessionId: 's9' });
    await app.shop.reset({ sessionId: 's9' }, 'x');
    await visit(app, { sessionId: 's10' });
    const both = await visit(other, { customerId: 'c9', sessionId: 's10' });
    t.same(both, { profileId, count: 2 }, 'merged, not adopted');
  });

  t.test('a session stays known when its customer takes all their counts away', async (t) => {
    const { profileId } = await visit(app, { sessionId: 's11' });
    await visit(app, { customerId: 'c11', sessionId: 's11' });
    await app.shop.reset({ customerId: 'c11' }, 'x');
    t.equal((await app.shop.add({ customerId: 'c11' })).profileId, profileId);
    t.match(await other.shop.remove({ sessionId: 's11' }), { profileId, removed: true });
  });

  t.test('an event through a server that has not seen the link is the profile of now', async (t) => {
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
  });

  t.test('a server that saw a session with a customer erased since leaves the next alone', async (t) => {
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
});
