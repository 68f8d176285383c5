// Whatever visitors write into ids, handles and texts, it is data: no byte of it becomes a command, a key, a piece
// of a script, or another visitor's. Checked against what Redis then holds, and which commands it was given.

import fc from 'fast-check';
import t from 'tap';
import { isVisitorId, normaliseId } from '../../src/identity-rules.js';
import { createKeys } from '../../src/redis/keys.js';
import { type Headers, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { type Dump, dumpRedis } from '../harness/dump.js';
import { keyPattern } from '../harness/key-pattern.js';
import { connectTo, startTestRedis } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
const RUNS = process.env.FAULTS === 'full' ? 3_000 : 120;

/** What has broken protocols, scripts and key schemes before. */
const NASTY = [
  ...['\r\nFLUSHALL\r\n', '*1\r\n$8\r\nFLUSHALL\r\n', '\0', 'a\nb', 'a\n0.AAAA\nb'],
  ...["') redis.call('FLUSHALL') --", "]] redis.call('FLUSHALL') --[[", 'KEYS[1]', 'ARGV[1]'],
  ...['{0}', '}{', '{e0}:events', ':ids', '0.AAAA', 's:other', 'c:1', 'V', '*', '?', '[a-z]'],
  ...['\\', '"', '"}', '__proto__', 'constructor', '%s%n', '$(id)', '../../etc/passwd'],
  ...['\u2028', '\ufeff', '\uffff', '\u202e', '-1', '1e309'],
];

const piece = fc.oneof(
  fc.constantFrom(...NASTY),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  // 255 bytes of anything, read as Latin-1.
  fc.uint8Array({ maxLength: 255 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
);
const text = fc.array(piece, { minLength: 1, maxLength: 3 }).map((pieces) => pieces.join(''));

/** For the name of an assertion: TAP has ideas of its own about some characters. */
const shown = (value: unknown) => encodeURIComponent(JSON.stringify(value).toWellFormed());

const COMMANDS = new Set(
  'client config del eval evalsha exists get hdel hexists hget hgetall hincrby hkeys hlen hmget hrandfield hscan hset hsetnx hstrlen hvals info keys persist pexpireat pexpiretime ping rename select set time ttl type unlink xadd xlen xrange expire hello script incrby zadd zrange zremrangebyscore zscan'.split(
    ' ',
  ),
);

t.test('injection', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  // Where guests do not end, no key has a moment that a dump would show.
  const app = await startApp(t, redis, { env: { GUEST_RETENTION_DAYS: '0' } });
  await client.set('canary', 'alive');
  const keys = createKeys(app.prefix);
  const fieldsAt = (dump: Dump, key: string) => (dump[key] ?? {}) as Readonly<Record<string, string>>;

  t.test('an id and a handle are refused, or kept to the letter; nothing else changes', async (t) => {
    let [taken, refused] = [0, 0];
    const property = fc.asyncProperty(text, text, fc.boolean(), async (id, sent, isCustomer) => {
      const handle = sent.trim();
      const before = await dumpRedis(redis, app.prefix);
      const identity = isCustomer ? { customerId: id } : { sessionId: id };
      const answer = await app.post(PATH, { identity, productHandle: sent }, TRUSTED);
      const after = await dumpRedis(redis, app.prefix);
      if (answer.status === 400) {
        refused++;
        t.same(after, before);
        return;
      }
      taken++;
      t.equal(answer.status, 200);
      t.notMatch(normaliseId(id) + handle, /\p{Cc}/u, 'no control character is taken');
      t.equal(answer.json.productHandle, handle, shown(handle));
      t.ok(isVisitorId(id));
      const touched = Object.keys(after).filter(
        (key) => JSON.stringify(after[key]) !== JSON.stringify(before[key]),
      );
      const { events, eventsState } = keys.visits;
      const ofCustomer = [keys.counts, keys.profile, keys.members].map((of) => of(answer.json.profileId));
      const ofVisitor = [keys.identity(answer.json.profileId), ...(isCustomer ? ofCustomer : [])];
      const expected = [...ofVisitor, events(0), eventsState(0)];
      t.same(
        touched.filter((key) => !expected.includes(key)),
        [],
        shown([id, handle]),
      );
      const read = await app.get(
        withQuery(PATH, { [isCustomer ? 'customerId' : 'sessionId']: id, productHandle: handle }),
        TRUSTED,
      );
      const { profileId, count } = read.json;
      t.equal(profileId, answer.json.profileId, shown([id, answer.text, read.text]));
      const counts = fieldsAt(after, isCustomer ? keys.counts(profileId) : keys.identity(profileId));
      t.equal(counts[handle], String(count), shown([id, handle, read.text, counts]));
      await app.del(PATH, { identity, productHandle: handle }, TRUSTED);
      const facts = fieldsAt(await dumpRedis(redis, app.prefix), keys.profile(profileId));
      t.match(facts, isCustomer ? { owner: String } : { known: '1' }, 'it stays known when its count goes');
    });
    await fc.assert(property, { numRuns: RUNS, examples: NASTY.map((nasty) => [nasty, nasty, false]) });
    t.ok(taken > RUNS / 20 && refused > RUNS / 20, `${taken} taken, ${refused} refused`);
  });

  t.test('texts of items, events, profiles and keys of idempotency come back to the letter', async (t) => {
    const other = { identity: { sessionId: 'bystander' }, productHandle: 'x' };
    await app.post(PATH, other);
    await app.post('/item/add', itemOf({ sessionId: 'bystander' }), TRUSTED);
    const bystander = async () => [
      (await app.get(withQuery(PATH, { sessionId: 'bystander', productHandle: 'x' }))).text,
      (await app.post('/item/list', { identity: { sessionId: 'bystander' } }, TRUSTED)).text,
    ];
    const untouched = await bystander();
    let n = 0;
    const bodies = new Map<string, string>();
    let [taken, refused] = [0, 0];
    const property = fc.asyncProperty(text, async (nasty) => {
      const sessionId = `writer-${n++}`;
      // The name has the shortest bound of the three, and none of them may be empty or have control characters.
      const isText = nasty.trim() !== '' && Buffer.byteLength(nasty) <= 255 && !/\p{Cc}/u.test(nasty);
      const added = await app.post(
        '/item/add',
        itemOf({ sessionId, firstName: nasty }, { productTitle: nasty, properties: { [nasty]: nasty } }),
        TRUSTED,
      );
      t.equal(added.status, isText ? 200 : 400, shown(nasty));
      if (isText) {
        taken++;
        const { items } = (await app.post('/item/list', { identity: { sessionId } }, TRUSTED)).json;
        t.equal(items[0].productTitle, nasty, shown(nasty));
        // `{"__proto__": …}` is a property like any other in JSON, and has no place in one of JavaScript's.
        if (nasty !== '__proto__') t.strictSame(items[0].properties, { [nasty]: nasty }, shown(nasty));
        const facts = fieldsAt(await dumpRedis(redis, app.prefix), keys.profile(added.json.profileId));
        t.equal(facts['firstName'], nasty, shown(nasty));
      } else refused++;
      const headers: Headers = {
        ...TRUSTED,
        'idempotency-key': `${sessionId} ${encodeURIComponent(nasty)}`.slice(0, 255),
      };
      const event = { identity: { sessionId }, type: 'share', payload: { nasty } };
      const first = await app.post('/event', event, headers);
      t.equal(first.status, 200, shown(nasty));
      t.equal((await app.post('/event', event, headers)).text, first.text, 'sent again');
      bodies.set(sessionId, nasty);
    });
    await fc.assert(property, { numRuns: Math.ceil(RUNS / 2), examples: NASTY.map((nasty) => [nasty]) });
    t.same(await bystander(), untouched, 'the bystander is as before');
    t.ok(taken > RUNS / 20 && refused > RUNS / 20, `${taken} taken, ${refused} refused`);
    const shares = (await rowsOf(redis, app)).filter(({ type }) => type === 'share');
    t.strictSame(
      shares.map(({ session_id, payload }) => [session_id, JSON.parse(String(payload))]),
      Array.from(bodies, ([sessionId, nasty]) => [sessionId, { nasty }]),
      'each event is there once, with its payload',
    );
  });

  t.test('so Redis has the keys and was given the commands of the program, and no others', async (t) => {
    const isOurs = keyPattern(
      ...[keys.meta, keys.settings, keys.pending(0), keys.share('*'), keys.request('*')],
      ...keys.allOf('*.*'),
      keys.erased('*.*', '*'),
      keys.applied('*.*', '*', '*.*'),
      keys.leftovers('*.*', '*'),
      ...[keys.operation('*.*', '*'), keys.lane('*', '*')],
      ...[keys.events(0), keys.eventsState(0), keys.eventsDead(0)],
      ...[keys.visits.events(0), keys.visits.eventsState(0), keys.visits.eventsDead(0)],
    );
    const all = await client.keys('*');
    t.same(
      all.filter((key) => key !== 'canary' && !isOurs.test(key)),
      [],
    );
    t.equal(await client.get('canary'), 'alive');
    const given = [...(await client.info('commandstats')).matchAll(/^cmdstat_([^:|]+)/gm)].map(
      ([, name]) => name as string,
    );
    t.same(
      given.filter((name) => !COMMANDS.has(name)),
      [],
    );
  });
});
