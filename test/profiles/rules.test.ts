// Rules without I/O: the steps of a login; and names of identities, profile ids and keys, of which no two collide.

import fc from 'fast-check';
import t from 'tap';
import { identityName } from '../../src/identity-rules.js';
import {
  decideLogin,
  type Link,
  linkText,
  type SessionState,
  sessionStateIn,
} from '../../src/profiles/link.js';
import { createProfileIds } from '../../src/profiles/profile-id.js';
import { bucketOf, createKeys, PROFILE_KINDS } from '../../src/redis/keys.js';
import { LUA } from '../../src/redis/lua-codes.js';
import { slotOf } from '../../src/redis/node-markers.js';
import { loadScript } from '../../src/redis/scripts.js';

t.test("a session's state alone decides whether a login links, merges, finishes or moves it", async (t) => {
  const [customer, another] = ['1a.cTHIS', '2b.cOTHER'];
  const link = (to: string, state: Link['state']): Link => ({ customer: to, id: '1.a', state });
  const table: [session: SessionState, stored: string, step: string][] = [
    ['unknown', '', 'lead'],
    ['retired', LUA.RETIRED, 'lead'],
    ['guest', LUA.GUEST, 'merge'],
    [link(customer, 'led'), `${customer} 1.a led`, 'nothing'],
    [link(customer, 'merged'), `${customer} 1.a merged`, 'nothing'],
    [link(customer, 'merging'), `${customer} 1.a merging`, 'finish'],
    [link(another, 'led'), `${another} 1.a led`, 'move'],
    [link(another, 'merged'), `${another} 1.a merged`, 'move'],
    [link(another, 'merging'), `${another} 1.a merging`, 'finish'],
  ];
  for (const [session, stored, step] of table) {
    t.equal(decideLogin(customer, session), step, stored);
    t.same(sessionStateIn(typeof session === 'object' ? LUA.LINKED + stored : stored), session);
    if (typeof session === 'object') t.equal(linkText(session), stored);
  }
});

t.test('two identities never have the same name, and every name fits a listpack', async (t) => {
  const id = fc.string({ minLength: 1, maxLength: 255 });
  fc.assert(
    fc.property(id, id, (a, b) => {
      const names = [identityName('c', a), identityName('s', a), identityName('c', b)];
      if (names.some((name) => Buffer.byteLength(name) > 64)) return false;
      return names[0] !== names[1] && (names[0] === names[2]) === (a === b);
    }),
    { numRuns: 200 },
  );
  t.equal(identityName('c', 'x'.repeat(62)), `c:${'x'.repeat(62)}`);
  t.match(identityName('c', 'x'.repeat(63)), /^C:[A-Za-z0-9_-]{43}$/);
  t.match(identityName('s', 'é'.repeat(32)), /^S:/, 'counted in bytes');
  t.not(identityName('s', 'C:x'), identityName('c', 'x'));
});

t.test('a profile id names its bucket and its kind, and depends on the salt', async (t) => {
  const ids = createProfileIds('a'.repeat(64), 100);
  const made = Array.from({ length: 2_000 }, (_, i) => ids.of(`s:${i}`));
  const wrong = made.filter((id) => !/^[0-9a-z]{1,2}\.s[A-Za-z0-9_-]{16}$/.test(id));
  t.same(wrong, []);
  const used = new Set(made.map((id) => Number.parseInt(bucketOf(id), 36)));
  t.ok(Math.max(...used) < 100);
  t.equal(used.size, 100, 'all buckets are used');
  t.equal(ids.of('s:1'), createProfileIds('a'.repeat(64), 100).of('s:1'), 'the same everywhere');
  t.not(ids.of('s:1'), createProfileIds('b'.repeat(64), 100).of('s:1'));
  const long = 'x'.repeat(200);
  t.match(ids.of('c:1'), /^[0-9a-z]{1,2}\.c/);
  t.match(ids.of(identityName('c', long)), /^[0-9a-z]{1,2}\.c/);
  t.match(ids.of(identityName('s', long)), /^[0-9a-z]{1,2}\.s/);
});

t.test('every key has the prefix, the hash tag of its profile, and a name of its own', async (t) => {
  const keys = createKeys('wm');
  const id = '1a.sHASH';
  const keysOf = (all: object) =>
    Object.entries(all).flatMap(([name, one]): string[] => {
      if (name === 'prefix') return [];
      if (typeof one === 'string') return [one];
      if (typeof one !== 'function' || name === 'allOf') return [];
      const made = one(id, 'x');
      return typeof made === 'string' ? [made] : Object.values(made);
    });
  const all = [...keysOf(keys), ...keysOf(keys.visits)];
  t.ok(all.length > 25, `${all.length} keys`);
  t.equal(new Set(all).size, all.length);
  for (const key of [...keys.allOf(id), keys.erasedAt(id), keys.operation(id, 'x')])
    t.match(key, /^wm:\{1a\}:[^{}]+$/);
  for (const key of all) t.match(key, /^wm:([^{}]+|\{[^{}]+\}(:[^{}]+)?)$/);
  for (const { events, eventsState, eventsDead } of [keys, keys.visits]) {
    for (const keyOf of [events, eventsState, eventsDead]) {
      t.equal(slotOf(keyOf(0)), slotOf(keys.meta), 'at the node of meta');
      t.equal(slotOf(keyOf(3)), slotOf(keys.nodeMarker(3)), 'beside a marker');
    }
  }
});

t.test('retain.lua expires every kind of key that a guest has', async (t) => {
  const [, inLua = ''] = /GUEST_KINDS = \{(.*?)\}/.exec(loadScript('profiles/storeFacts').source) ?? [];
  t.same([...inLua.matchAll(/'(\w)'/g)].map(([, kind]) => kind).sort(), [...PROFILE_KINDS].sort());
});
