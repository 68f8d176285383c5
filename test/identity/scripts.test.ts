// The scripts of identities and profiles alone: point, adopt, leave, profile.

import t from 'tap';
import { startLuaRedis } from '../harness/lua.js';

t.test('scripts of identities', async (t) => {
  const { client, call } = await startLuaRedis(t);
  t.beforeEach(async () => void (await client.flushall()));
  const [IDS, PROFILE, VISITS, MOVED] = ['{b}:ids', '{b}:p:1', '{b}:v:1', '{b}:m:1'];

  t.test('point: an identity gets its profile unless somebody else was faster', async (t) => {
    const point = (from: string, to: string) => call('point', [IDS, VISITS], ['s:1', from, to, 'b.1']);
    t.equal(await point('a.0', 'a.1'), 0, 'it has none');
    t.same(await client.keys('*'), []);
    t.equal(await point('', 'a.1'), 1);
    t.equal(await point('', 'a.1'), 1, 'again');
    t.equal(await point('a.0', 'a.1'), 1, 'it has it already');
    t.equal(await point('', 'a.2'), 0, 'a third one');
    t.equal(await point('a.0', 'a.2'), 0);
    t.equal(await client.hget(IDS, 's:1'), 'a.1');
    t.equal(await point('a.1', 'a.2'), 1);
    t.same(await client.hgetall(IDS), { 's:1': 'a.2' });
  });

  t.test('point: an identity with counts of its own has its own profile, though none is named', async (t) => {
    await client.hset(VISITS, 'x', 1);
    const point = (from: string) => call('point', [IDS, VISITS], ['s:1', from, 'a.1', 'b.1']);
    t.equal(await point(''), 0);
    t.equal(await client.exists(IDS), 0);
    t.equal(await point('b.1'), 1);
    t.same(await client.hgetall(IDS), { 's:1': 'a.1' });
  });

  t.test("adopt: a guest's profile becomes one customer's, once", async (t) => {
    const adopt = (customer: string, session = '') =>
      call('adopt', [PROFILE, VISITS, IDS], [customer, '2026-01-01T00:00:00.000Z', 'b.1', session]);
    await client.hset(VISITS, 'x', 1);
    t.equal(await adopt('c:1'), 1);
    t.same(await client.hgetall(PROFILE), { owner: 'c:1', updatedAt: '2026-01-01T00:00:00.000Z' });
    const before = await client.dump(PROFILE);
    t.equal(await adopt('c:1'), 1, 'again');
    t.equal(await adopt('c:2'), 0, "another customer's");
    t.equal(await client.dump(PROFILE), before);
    t.equal(await client.hget(PROFILE, 'owner'), 'c:1');
    t.equal(await client.exists(IDS), 0);
    t.equal(await adopt('c:1', 's:1'), 1);
    t.same(
      await client.hgetall(IDS),
      { 's:1': 'b.1' },
      "the guest's mapping does not hang on counts any more",
    );
    t.equal(await adopt('c:2', 's:2'), 0);
    t.equal(await client.hlen(IDS), 1);
  });

  t.test(
    'adopt and profile: a profile that was merged away answers its heir, and nothing is done',
    async (t) => {
      await client.set(VISITS, '!b.heir');
      t.equal(await call('adopt', [PROFILE, VISITS, IDS], ['c:1', 'now', 'b.1', 's:1']), '!b.heir');
      t.equal(await call('profile', [PROFILE, VISITS], ['now', 'email', 'a@b']), '!b.heir');
      t.same(await client.keys('*'), [VISITS]);
    },
  );

  t.test('profile: what is told is kept, the rest stays, and so does the day it was made', async (t) => {
    const learn = (now: string, ...facts: string[]) => call('profile', [PROFILE, VISITS], [now, ...facts]);
    t.equal(await learn('day 1', 'email', 'a@b', 'device', 'desktop'), 1);
    t.same(await client.hgetall(PROFILE), {
      createdAt: 'day 1',
      updatedAt: 'day 1',
      email: 'a@b',
      device: 'desktop',
    });
    t.equal(await learn('day 2', 'email', 'c@d'), 1);
    t.same(await client.hgetall(PROFILE), {
      createdAt: 'day 1',
      updatedAt: 'day 2',
      email: 'c@d',
      device: 'desktop',
    });
  });

  t.test('leave: a session goes to one profile, whoever asks first', async (t) => {
    const leave = (to: string) => call('leave', [MOVED], ['s:1', to]);
    t.equal(await leave('b.2'), 'b.2');
    t.equal(await leave('b.2'), 'b.2', 'again');
    t.equal(await leave('b.3'), 'b.2', 'somebody was faster');
    t.same(await client.hgetall(MOVED), { 's:1': 'b.2' });
  });
});
