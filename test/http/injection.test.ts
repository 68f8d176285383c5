// Whatever visitors write into ids, handles and texts, it is data: no byte of it becomes a command, a key, a piece
// of a script, or another visitor's. Checked against what Redis then holds, and which commands it was given.

import fc from 'fast-check';
import t from 'tap';
import { identityName, isVisitorId, normaliseId } from '../../src/identity/rules.js';
import { type Headers, startApp, TRUSTED, withQuery } from '../harness/app.js';
import { connectTo, type Dump, dumpRedis } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';
import { rowsOf } from '../harness/stream.js';
import { itemOf } from './wishlist.js';

const PATH = '/product/visit';
const RUNS = process.env.FAULTS === 'full' ? 3_000 : 250;

/** What has broken protocols, scripts and key schemes before. */
const NASTY = [
  '\r\nFLUSHALL\r\n',
  '*1\r\n$8\r\nFLUSHALL\r\n',
  "') redis.call('FLUSHALL') --",
  "]] redis.call('FLUSHALL') --[[",
  'KEYS[1]',
  'ARGV[1]',
  '{0}',
  '}{',
  '{e0}:events',
  ':ids',
  '0.AAAA',
  's:other',
  'c:1',
  '\0',
  'a\nb',
  'a\n0.AAAA\nb',
  'V',
  '*',
  '?',
  '[a-z]',
  '\\',
  '"',
  '"}',
  '__proto__',
  'constructor',
  '%s%n',
  '$(id)',
  '../../etc/passwd',
  '\u2028',
  '\ufeff',
  '￿',
  '\u202e',
  '-1',
  '1e309',
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

/** Keys that the program may make, after the prefix. */
const KEY =
  /^:(meta|settings|\{[0-9a-z]+\}:(ids|[pvmiog]:[A-Za-z0-9_-]+|k:[0-9a-f-]{36})|\{share:[A-Za-z0-9_-]{16}\}|\{once:[A-Za-z0-9_-]{43}\}|\{e\d+\}:events(:state|:dead)?)$/;
const COMMANDS = new Set(
  'client config del eval evalsha exists get hdel hexists hget hgetall hincrby hlen hmget hset hsetnx hstrlen hvals info keys ping rename select set time type unlink xadd xlen xrange expire hello script incrby'.split(
    ' ',
  ),
);

t.test('injection', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  const app = await startApp(t, redis);
  await client.set('canary', 'alive');

  const visitsOf = (dump: Dump) =>
    Object.entries(dump).filter(([key]) => /\}:v:/.test(key)) as [string, Record<string, string>][];
  const idsOf = (dump: Dump) =>
    Object.entries(dump)
      .filter(([key]) => key.endsWith(':ids'))
      .flatMap(([, hash]) => Object.keys(hash as object));

  t.test('an id and a handle are refused, or kept to the letter, and nothing else changes', async (t) => {
    let [taken, refused] = [0, 0];
    const property = fc.asyncProperty(text, text, fc.boolean(), async (id, handle, isCustomer) => {
      const before = await dumpRedis(redis, app.prefix);
      const identity = isCustomer ? { customerId: id } : { sessionId: id };
      const answer = await app.post(PATH, { identity, productHandle: handle }, TRUSTED);
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
      const name = identityName(isCustomer ? 'c' : 's', normaliseId(id));
      t.ok(isVisitorId(id));
      const touched = Object.keys(after).filter(
        (key) => JSON.stringify(after[key]) !== JSON.stringify(before[key]),
      );
      t.ok(touched.length === 1 && /\}:v:[^:]+$/.test(touched[0] as string), touched.join());
      const read = await app.get(
        withQuery(PATH, { [isCustomer ? 'customerId' : 'sessionId']: id, productHandle: handle }),
        TRUSTED,
      );
      const { profileId, count } = read.json;
      t.equal(profileId, answer.json.profileId, shown([id, answer.text, read.text]));
      const [, counts = {}] =
        visitsOf(after).find(([key]) => key.endsWith(`:v:${profileId.split('.')[1]}`)) ?? [];
      t.equal(counts[handle], String(count), shown([id, handle, read.text, counts]));
      await app.del(PATH, { identity, productHandle: handle }, TRUSTED);
      t.ok(idsOf(await dumpRedis(redis, app.prefix)).includes(name), 'its name is kept when its count goes');
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
    const property = fc.asyncProperty(text, async (nasty) => {
      const sessionId = `writer-${n++}`;
      const added = await app.post(
        '/item/add',
        itemOf({ sessionId, firstName: nasty }, { productTitle: nasty, properties: { [nasty]: nasty } }),
        TRUSTED,
      );
      if (added.status === 200) {
        const { items } = (await app.post('/item/list', { identity: { sessionId } }, TRUSTED)).json;
        t.match(items[0].productTitle, nasty.trim() === nasty ? nasty : String);
        // `{"__proto__": …}` is a property like any other in JSON, and has no place in one of JavaScript's.
        if (nasty !== '__proto__') t.same(items[0].properties, { [nasty]: nasty });
      } else t.equal(added.status, 400);
      const headers: Headers = {
        ...TRUSTED,
        'idempotency-key': encodeURIComponent(nasty.toWellFormed()).slice(0, 255),
      };
      const event = await app.post(
        '/event',
        { identity: { sessionId }, type: 'share', payload: { nasty } },
        headers,
      );
      t.ok([200, 400].includes(event.status));
    });
    await fc.assert(property, { numRuns: Math.ceil(RUNS / 2), examples: NASTY.map((nasty) => [nasty]) });
    t.same(await bystander(), untouched, 'somebody else is as before');
    for (const row of await rowsOf(redis, app)) t.type(JSON.parse(row.payload as string), 'object');
  });

  t.test(
    'so Redis has the keys of the program and no others, and was given its commands and no others',
    async (t) => {
      for (const key of await client.keys('*')) {
        if (key === 'canary') continue;
        const rest = key.slice(app.prefix.length);
        t.ok(key.startsWith(app.prefix) && (KEY.test(rest) || /\}:lane:/.test(rest)), key);
      }
      t.equal(await client.get('canary'), 'alive');
      const given = [...(await client.info('commandstats')).matchAll(/^cmdstat_([^:|]+)/gm)].map(
        ([, name]) => name as string,
      );
      t.same(
        given.filter((name) => !COMMANDS.has(name)),
        [],
      );
    },
  );
});
