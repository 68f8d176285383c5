// GUEST_RETENTION_DAYS: guests who were not seen for long go, as a whole or not at all; all others stay, with all they have.

import { pino } from 'pino';
import t, { type Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeEvent } from '../../src/events/row.js';
import { GuestRetention } from '../../src/identity/retention.js';
import { Seen } from '../../src/identity/seen.js';
import { identityName } from '../../src/identity-rules.js';
import { bucketOf } from '../../src/redis/keys.js';
import { eachRedis } from '../harness/app.js';
import { allKeys, dumpRedis } from '../harness/dump.js';
import { contentOf, identityOf } from '../harness/samples.js';
import { until } from '../harness/until.js';
import { type Server, shownEvents, startServer } from '../wishlist/world.js';

const DAYS = 30;
let prefixes = 0;
let keyed = 0;

eachRedis(t, async (t, redis) => {
  interface World {
    readonly prefix: string;
    readonly server: Server;
    readonly retention: GuestRetention;
  }
  const open = async (t: Test, prefix = `ret${++prefixes}`): Promise<World> => {
    const server = await startServer(t, redis, prefix, { seen: new Seen() });
    return { prefix, server, retention: sweeperOf(server) };
  };
  const guest = (sessionId: string) => identityOf({ sessionId });
  const visit = (server: Server, sessionId: string, handle = 'p') =>
    server.visitors.enter('visitAndCount', guest(sessionId), false, handle);
  const doorOf = (server: Server, sessionId: string) =>
    server.store.keys.door(server.doors.ownProfile(identityName('s', sessionId)));
  const dayOf = (server: Server, sessionId: string) =>
    server.store.client.hget(doorOf(server, sessionId), '');
  /** Lets all days that are noted be longer ago; a process that starts afterwards has met none. */
  const age = async (server: Server, prefix: string, days: number) => {
    for (const key of (await allKeys(redis, prefix)).filter((key) => /:v:s/.test(key))) {
      const { client } = server.store;
      if ((await client.type(key)) !== 'hash' || (await client.hexists(key, '')) === 0) continue;
      await client.hincrby(key, '', -days);
    }
  };
  const add = (server: Server, sessionId: string, productId = '1') =>
    server.visitors.change(guest(sessionId), false, (place) =>
      server.items.add(place, guest(sessionId), contentOf(productId)),
    );
  /** As POST /event does, where nothing is linked. */
  const submit = (server: Server, sessionId: string) =>
    new Promise((recorded, failed) => {
      server.visitors.submit(guest(sessionId), false, { type: 'add', encode: eventOf, recorded, failed });
    });
  const share = (server: Server, sessionId: string) =>
    server.visitors.change(guest(sessionId), false, (place) =>
      server.shares.share(place, guest(sessionId), 'Link'),
    );
  /** Keys of visitors: streams, lanes and what passes by itself are none. */
  const left = async (prefix: string) =>
    (await allKeys(redis, prefix)).filter((key) =>
      /:\{[0-9a-z]+\}:(ids$|[a-z]{1,2}:[sc])|\{(share|email):/.test(key),
    );

  /** A guest with a share code and an address has to go, and the next sweep has nothing else to do. */
  const openWithOneDue = async (t: Test): Promise<World & { readonly code: string }> => {
    const { prefix, server, retention } = await open(t);
    await visit(server, 'a');
    const { answer } = await share(server, 'a');
    await server.emails.note(server.doors.ownProfile('s:a'), ['s:a'], 'a@b.example');
    await until('outboxes are empty', async () => (await left(prefix)).every((key) => !/:o:/.test(key)));
    await retention.sweep();
    await age(server, prefix, DAYS + 2);
    return { prefix, server, retention, code: (answer as { code: string }).code };
  };

  t.test('a guest goes with visits, items, facts and share code, once the days are over', async (t) => {
    const { prefix, server, retention } = await open(t);
    await visit(server, 'a');
    await visit(server, 'a', 'q');
    await add(server, 'a');
    const { answer } = await share(server, 'a');
    await server.profiles.keep(server.doors.ownProfile('s:a'), { ...guest('a'), email: 'a@b.example' });
    await server.emails.note(server.doors.ownProfile('s:a'), ['s:a'], 'a@b.example');
    const events = await shownEvents(redis, prefix);
    t.equal(events.length, 2);
    await until('outboxes are empty', async () => (await left(prefix)).every((key) => !/:o:/.test(key)));
    const before = await dumpRedis(redis, prefix);
    await age(server, prefix, DAYS + 1);
    t.match(await retention.sweep(), { gone: 0 }, 'the last day may have been the one after');
    const aged = await dumpRedis(redis, prefix);
    t.same(
      Object.keys(aged),
      Object.keys(before).filter((key) => !key.endsWith(':ids')),
    );
    await age(server, prefix, 1);
    t.match(await retention.sweep(), { gone: 1 });
    t.same(await left(prefix), []);
    t.equal(await server.shares.find((answer as { code: string }).code), undefined);
    t.same(await shownEvents(redis, prefix), events, 'what waits for ClickHouse waits on');
    t.same((await server.visitors.find(guest('a'), false)).known, false);
    t.equal((await visit((await open(t, prefix)).server, 'a')).count, 1, 'who comes back is a new visitor');
  });

  t.test('whatever a guest writes, it was active, once a day: also where others saw it before', async (t) => {
    const acts: Record<string, (server: Server, sessionId: string) => Promise<unknown>> = {
      visit: (server, id) => server.visitors.enter('visit', guest(id), false, 'p'),
      resolve: (server, id) => server.visitors.enter('resolve', guest(id), false),
      event: (server, id) => server.visitors.record(guest(id), false, (profile) => eventOf(profile)),
      'event that is told': submit,
      item: (server, id) => add(server, id),
      share: (server, id) => share(server, id),
      removal: (server, id) =>
        server.visitors.changeKnown(guest(id), false, (place) =>
          server.items.remove(place, guest(id), '1', null, 'remove'),
        ),
      'keyed visit': (server, id) =>
        server.deliveries.run(
          { scope: 's', key: `${id} ${keyed++}`, fingerprint: '' },
          '',
          async (operation) =>
            JSON.stringify(await server.visitors.enterOnce('visit', guest(id), false, 'p', operation)),
        ),
    };
    const { prefix, server } = await open(t);
    const names = Object.keys(acts);
    for (const name of names) await visit(server, name);
    const today = Number(await dayOf(server, 'visit'));
    await age(server, prefix, DAYS + 2);
    for (const name of names) t.equal(Number(await dayOf(server, name)), today - DAYS - 2);
    for (const name of names) await acts[name]?.(server, name);
    for (const name of names)
      t.equal(Number(await dayOf(server, name)), today - DAYS - 2, `${name}: this process met it today`);
    const tomorrow = await open(t, prefix);
    for (const name of names) {
      await acts[name]?.(tomorrow.server, name);
      await until(`${name} is seen`, async () => Number(await dayOf(server, name)) >= today);
    }
    t.match(await tomorrow.retention.sweep(), { gone: 0 });
    for (const name of names) t.ok((await server.visitors.find(guest(name), false)).known, name);
  });

  t.test('reading does not prolong: a guest who is only read goes', async (t) => {
    const { prefix, server } = await openWithOneDue(t);
    const { server: reader, retention } = await open(t, prefix);
    t.equal((await reader.visitors.read(guest('a'), false, 'p')).count, 1);
    await reader.visitors.readAll(guest('a'), false, ['p', 'q']);
    t.ok((await reader.visitors.find(guest('a'), false)).known);
    t.equal(Number(await dayOf(server, 'a')) > 0, true);
    t.match(await retention.sweep(), { gone: 1 });
    t.same(await left(prefix), []);
  });

  t.test('whatever makes a guest known notes its day in the same step', async (t) => {
    const acts: Record<string, (server: Server, sessionId: string) => Promise<unknown>> = {
      visit: (server, id) => server.visitors.enter('visit', guest(id), false, 'p'),
      resolve: (server, id) => server.visitors.enter('resolve', guest(id), false),
      event: (server, id) => server.visitors.record(guest(id), false, (profile) => eventOf(profile)),
      'event that is told': submit,
      item: (server, id) => add(server, id),
      share: (server, id) => share(server, id),
    };
    const { prefix, server } = await open(t);
    for (const [name, act] of Object.entries(acts)) {
      const before = server.met.length;
      await act(server, name);
      t.equal(server.met.length, before, `${name} takes no call of its own for it`);
      t.not(await dayOf(server, name), null, name);
      const ids = server.store.keys.ids(bucketOf(server.doors.ownProfile(`s:${name}`)));
      const field = await server.store.client.hget(ids, `s:${name}`);
      // On a cluster the wishlist does not know of the day that was noted before it.
      const hasField = redis.urls.length > 1 && /item|share/.test(name);
      t.equal(field, hasField ? '.' : null, `${name}: known by its day`);
      // Noted as met: a day that is gone is not written again.
      await server.store.client.hset(doorOf(server, name), { '': 1, x: 1 });
      await act(server, name);
      t.equal(await dayOf(server, name), '1', `${name}: once a day`);
    }
    await add((await open(t, prefix)).server, 'item', '2');
    t.not(await dayOf(server, 'item'), '1', 'another process notes it, too');
  });

  t.test('a guest without a day has one from the next sweep on, however it is known', async (t) => {
    const prefix = `ret${++prefixes}`;
    const old = await startServer(t, redis, prefix);
    await visit(old, 'counts');
    await add(old, 'items');
    await old.visitors.enter('resolve', guest('field'), false);
    await old.visitors.enter('resolve', guest('both'), false);
    await visit(old, 'both');
    const names = ['counts', 'items', 'field', 'both'];
    for (const name of names) t.equal(await dayOf(old, name), null);
    const retention = sweeperOf(old);
    await retention.sweep();
    for (const name of names) {
      t.not(await dayOf(old, name), null, name);
      const field = old.store.keys.ids(bucketOf(old.doors.ownProfile(`s:${name}`)));
      t.equal(await old.store.client.hget(field, `s:${name}`), null, `${name} needs no field`);
      t.ok((await old.visitors.find(guest(name), false)).known, name);
    }
    t.equal((await old.visitors.read(guest('counts'), false, 'p')).count, 1);
    await age(old, prefix, DAYS + 2);
    await until('outboxes are empty', async () => (await left(prefix)).every((key) => !/:o:/.test(key)));
    t.match(await retention.sweep(), { gone: 4 });
    t.same(await left(prefix), []);
  });

  t.test(
    'customers never go, nor what was linked or merged into them, nor who only has been one',
    async (t) => {
      const { prefix, server, retention } = await open(t);
      await visit(server, 'adopted');
      await add(server, 'adopted');
      await server.linker.link('c:1', 's:adopted');
      await visit(server, 'merged');
      await share(server, 'merged');
      await server.linker.link('c:1', 's:merged');
      await server.visitors.enter('visit', identityOf({ customerId: '2' }), true, 'p');
      await server.linker.link('c:3', 's:moved');
      await server.linker.link('c:4', 's:moved');
      await until('outboxes are empty', async () => (await left(prefix)).every((key) => !/:o:/.test(key)));
      await age(server, prefix, 10 * DAYS);
      const before = await dumpRedis(redis, prefix);
      for (const [key, fields] of Object.entries(before))
        if (/:[vr]:/.test(key)) t.notOk(Object.hasOwn(Object(fields), ''), `${key} has no day`);
      t.match(await retention.sweep(), { gone: 0, noted: 0 });
      t.same(await dumpRedis(redis, prefix), before);
      t.equal((await server.visitors.read(identityOf({ customerId: '1' }), true, 'p')).count, 2);
    },
  );

  t.test('who logs in between two sweeps is a customer, with every count', async (t) => {
    const { prefix, server, retention } = await open(t);
    for (let i = 0; i < 5; i++) await visit(server, 'late');
    await age(server, prefix, 10 * DAYS);
    await server.linker.link('c:9', 's:late');
    t.match(await retention.sweep(), { gone: 0 });
    t.equal((await server.visitors.read(identityOf({ customerId: '9' }), true, 'p')).count, 5);
  });

  t.test('two sweeps at once, and one that ends at any step, leave a guest whole or nothing', async (t) => {
    for (let steps = 0, isOver = false; !isOver; steps++) {
      for (const lastIsDone of [false, true]) {
        const { prefix, server, retention } = await openWithOneDue(t);
        const ending = sweeperOf(server, { patienceMs: 0 });
        const expire = () => ending.sweep().catch(() => {});
        // Buckets are looked at first, 16 of them, in two steps each.
        server.crashAfter(32 + steps, lastIsDone);
        await expire();
        isOver = !server.recover();
        const other = await open(t, prefix);
        await Promise.all([other.retention.sweep(), retention.sweep()]);
        t.same(await left(prefix), [], `after ${steps} steps`);
      }
    }
  });

  t.test('a sweep waits for a Redis that is away for a moment, at any step', async (t) => {
    for (let steps = 0, isOver = false; !isOver; steps += 3) {
      const { prefix, server, retention } = await openWithOneDue(t);
      server.crashAfter(32 + steps, false);
      let wasAway = false;
      const back = setTimeout(() => {
        wasAway = server.recover();
      }, 300);
      t.match(await retention.sweep(), { gone: 1 }, `after ${steps} steps`);
      clearTimeout(back);
      isOver = !wasAway && !server.recover();
      t.same(await left(prefix), []);
    }
  });

  t.test(
    'after a sweep that ended at any step a share link works exactly while its guest is there',
    async (t) => {
      const seen = new Set<boolean>();
      for (let steps = 0, isOver = false; !isOver; steps++) {
        const { prefix, server, code } = await openWithOneDue(t);
        server.crashAfter(32 + steps, true);
        await sweeperOf(server, { patienceMs: 0 })
          .sweep()
          .catch(() => {});
        isOver = !server.recover();
        const { server: other } = await open(t, prefix);
        const { known } = await other.visitors.find(guest('a'), false);
        t.equal((await other.shares.find(code)) !== undefined, known, `after ${steps} steps`);
        seen.add(known);
        await visit(other, 'a');
        const own = other.doors.ownProfile('s:a');
        t.equal(await other.shares.find(code), known ? own : undefined, 'also when the guest comes back');
      }
      t.equal(seen.size, 2);
    },
  );

  t.test('an address that is given again while its guest goes leads to the new visitor', async (t) => {
    const { prefix, server, retention } = await openWithOneDue(t);
    const { server: other } = await open(t, prefix);
    const own = other.doors.ownProfile('s:a');
    const change = server.store.change.bind(server.store);
    let isBack = false;
    server.store.change = async (script, keys, args) => {
      const reply = await change(script, keys, args);
      if (script.name === 'put' && !isBack) {
        isBack = true;
        t.equal((await visit(other, 'a')).count, 1);
        await other.emails.note(own, ['s:a'], 'a@b.example');
      }
      return reply;
    };
    t.match(await retention.sweep(), { gone: 1 });
    t.ok(isBack);
    const indexed = await other.emails.find(other.emails.digest('a@b.example'));
    t.same(indexed, [{ profileId: own, maker: 's:a' }]);
  });

  t.test('a sweep whose lock was set, and the reply lost, goes on at the next look', async (t) => {
    const { server } = await open(t);
    // Looks every sixth of half a day: every sixth of a second here.
    const retention = sweeperOf(server, { dayS: 2 });
    const call = server.store.call.bind(server.store);
    let looks = 0;
    server.store.call = async (command) => {
      let isLook = false;
      const answer = await call((client) =>
        command(
          new Proxy(client, {
            get(target, name) {
              isLook ||= name === 'set';
              const value = Reflect.get(target, name) as unknown;
              return typeof value === 'function' ? value.bind(target) : value;
            },
          }),
        ),
      );
      if (isLook && ++looks === 1) throw new ServiceError('unavailable');
      return answer;
    };
    let sweptAt = 0;
    const { sweep } = retention;
    retention.sweep = () => {
      sweptAt ||= looks;
      return sweep.call(retention);
    };
    const stop = retention.watch(pino({ level: 'silent' }));
    await until('it sweeps', async () => sweptAt > 0);
    await stop();
    t.equal(sweptAt, 2);
  });

  if (redis.urls.length > 1)
    t.test('events of an outbox come to the stream before their guest goes', async (t) => {
      const { prefix, server, retention } = await open(t);
      await visit(server, 'a');
      let isFull = true;
      server.onAppend = async () => {
        if (isFull) throw new Error('full');
      };
      await t.rejects(add(server, 'a'));
      t.equal((await shownEvents(redis, prefix)).length, 0);
      await age(server, prefix, DAYS + 2);
      t.match(await retention.sweep(), { gone: 0, waiting: 1 }, 'it stays as long as they wait');
      t.ok((await server.visitors.find(guest('a'), false)).known);
      isFull = false;
      t.match(await retention.sweep(), { gone: 1 });
      t.equal((await shownEvents(redis, prefix)).length, 1);
      t.same(await left(prefix), []);
    });
});

function eventOf(profileId: string): string {
  const at = Date.now();
  const identity = identityOf({ sessionId: 's' });
  return encodeEvent({
    type: 'add',
    origin: 'event',
    profileId,
    identity,
    payload: {},
    id: newEventId(at),
    at,
  });
}

function sweeperOf({ store, profileIds, outbox }: Server, options = {}): GuestRetention {
  return new GuestRetention(store, profileIds, outbox, { days: DAYS, ...options });
}
