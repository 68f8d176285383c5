// An erasure or export by e-mail address, beside a login and after an erasure that was cut off: it is of exactly the visitor
// who gave the address, also where a login has linked them to a customer meanwhile.

import t, { type Test } from 'tap';
import type { Doors } from '../../src/identity/doors.js';
import { Exporter } from '../../src/identity/exporter.js';
import { eachRedis } from '../harness/app.js';
import { identityOf } from '../harness/samples.js';
import { type Server, startServer } from '../wishlist/fixtures.js';

const EMAIL = 'erased@rights.example';
let prefixes = 0;

eachRedis(t, async (t, redis) => {
  const visit = async (server: Server, ids: { customerId?: string; sessionId?: string }) =>
    (await server.visitors.enter('visitAndCount', identityOf(ids), true, 'p')).count;
  const count = async (server: Server, ids: { customerId?: string; sessionId?: string }) =>
    (await server.visitors.read(identityOf(ids), true, 'p')).count;
  /** Two servers, and a guest with an address. */
  const open = async (t: Test) => {
    const prefix = `mailed${++prefixes}`;
    const [server, other] = [await startServer(t, redis, prefix), await startServer(t, redis, prefix)];
    await visit(server, { sessionId: 's' });
    const profileId = server.doors.ownProfile('s:s');
    await server.profiles.keep(profileId, { ...identityOf({ sessionId: 's' }), email: EMAIL });
    return { server, other, profileId, digest: server.emails.digest(EMAIL) };
  };
  /** Lets something happen after the profile was looked at, and before its maker's door is. */
  const inBetween = (doors: Doors, act: () => Promise<unknown>) => {
    const look = doors.look.bind(doors);
    let hasHappened = false;
    doors.look = async (name) => {
      if (!hasHappened) {
        hasHappened = true;
        await act();
      }
      return look(name);
    };
  };

  const exporterOf = ({ store, doors, items, emails }: Server) =>
    new Exporter(store, doors, items, emails, async () => undefined);

  t.test('an address of a visitor who is unknown, or erased just now, is not indexed', async (t) => {
    const { server } = await open(t);
    const own = server.doors.ownProfile('s:unknown');
    await server.emails.note(own, ['s:unknown'], 'unknown@rights.example');
    t.same(await server.emails.find(server.emails.digest('unknown@rights.example')), []);
    t.equal((await server.visitors.find(identityOf({ sessionId: 'unknown' }), false)).known, false);
  });

  t.test('an export finds the visitor at home and behind a login', async (t) => {
    const { server, other, profileId, digest } = await open(t);
    t.match(await exporterOf(other).exportByEmail(digest), { profileId, visits: { p: 1 } });
    await visit(server, { customerId: '7' });
    const { profileId: room } = await server.linker.link('c:7', 's:s');
    t.match(await exporterOf(other).exportByEmail(digest), { profileId: room, visits: { p: 2 } });
  });

  for (const isKnown of [false, true])
    t.test(
      `an export beside a login of ${isKnown ? 'a known' : 'an unknown'} customer has the counts`,
      async (t) => {
        const { server, other } = await open(t);
        if (isKnown) await visit(other, { customerId: '7' });
        const { items } = server;
        const list = items.list.bind(items);
        // The visitor's door was looked at, and its counts were not read yet.
        items.list = async (profileId) => {
          items.list = list;
          const listed = await list(profileId);
          await other.linker.link('c:7', 's:s');
          return listed;
        };
        const told = await exporterOf(server).export('s:s');
        const { profileId } = await other.visitors.find(identityOf({ sessionId: 's' }), true);
        t.equal(told.profileId, profileId);
        t.strictSame(told.visits, { p: isKnown ? 2 : 1 });
      },
    );

  for (const isKnown of [false, true]) {
    t.test(`beside a login of ${isKnown ? 'a known' : 'an unknown'} customer`, async (t) => {
      const { server, other, digest } = await open(t);
      if (isKnown) await visit(other, { customerId: '7' });
      inBetween(server.doors, () => other.linker.link('c:7', 's:s'));
      t.equal(await server.eraser.eraseByEmail(digest), true);
      t.equal(await count(other, { sessionId: 's' }), 0);
      t.equal(await count(other, { customerId: '7' }), 0);
      t.same(await server.emails.find(digest), []);
      t.equal(await visit(other, { sessionId: 's' }), 1, 'a later visit is that of a new visitor');
    });
  }

  for (const isLinked of [false, true]) {
    t.test(
      `an index entry left by a crash, and a new ${isLinked ? 'customer' : 'guest'} under the same session`,
      async (t) => {
        const { server, other, profileId, digest } = await open(t);
        // Its server ended right before it forgot the index.
        server.emails.forget = async () => {
          throw new Error('ended');
        };
        await t.rejects(server.eraser.eraseByEmail(digest), { message: 'ended' });
        t.equal(await visit(other, { sessionId: 's' }), 1);
        if (isLinked) await other.linker.link('c:7', 's:s');
        t.match(await other.emails.find(digest), [{ profileId }], 'the index leads to the new visitor');
        t.equal(await exporterOf(other).exportByEmail(digest), undefined, 'of whom nothing is told');
        t.equal(await other.eraser.eraseByEmail(digest), false);
        t.equal(await count(other, { sessionId: 's' }), 1, 'who never gave the address and is kept');
        t.same(await other.emails.find(digest), [], 'the index entry is removed');
      },
    );
  }
});
