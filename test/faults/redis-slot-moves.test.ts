// A change that was answered 503 is not applied after later ones: a slot is on the move, an add gets 503, the move is
// called off, an add and a remove get 200. The item must stay away: only the service sends anything again, and a script
// refuses what comes after its deadline. And a slot that has moved is found at its new node. FAULTS=full: 20 times.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { slotOf } from '../../src/redis/marks.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToEach, startTestCluster } from '../harness/redis.js';
import { ITEM } from '../harness/shop.js';
import { until } from '../harness/until.js';
import { FULL, MOST_PATIENT_MS } from './service.js';

const ROUNDS = FULL ? 20 : 1;
/** ioredis would send again for 1.6 s, longer than the time-out. */
const LATE_MS = 2_000;
const SLOTS = 16_384;

t.test('a slot is on the move', { timeout: 200_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const ids = await Promise.all(nodes.map(async (node) => String(await node.call('CLUSTER', 'MYID'))));
  const app = await startApp(t, cluster, { timeoutMs: Number(MOST_PATIENT_MS) });

  /** The slot of a profile, the number of the node that has it, and of another one. */
  const placeOf = (profileId: string) => {
    const slot = slotOf(`{${profileId.slice(0, profileId.indexOf('.'))}}`);
    const from = Math.floor((slot * nodes.length) / SLOTS);
    return { slot, from, to: (from + 1) % nodes.length };
  };
  const setSlot = (node: number, slot: number, ...words: string[]) =>
    nodes[node]?.call('CLUSTER', 'SETSLOT', slot, ...words);
  const startMove = async ({ slot, from, to }: ReturnType<typeof placeOf>) => {
    await setSlot(to, slot, 'IMPORTING', ids[from] as string);
    await setSlot(from, slot, 'MIGRATING', ids[to] as string);
  };
  /** Sent again while it gets 503, as clients do: the machine may be slow. */
  const done = (path: string, body: object) =>
    until(`${path} is done`, async () => {
      const answer = await app.post(path, body, TRUSTED);
      if (answer.status !== 200 && answer.status !== 503) throw new Error(answer.text);
      return answer.status === 200 && answer;
    });

  t.test(`the move is called off, ${ROUNDS} times`, async (t) => {
    const late = [];
    for (let round = 0; round < ROUNDS; round++) {
      const identity = { sessionId: `m${round}` };
      const other = { ...ITEM, identity, productId: '7' };
      const { profileId } = (await done('/item/add', other)).json;
      await done('/item/remove', { identity, productId: '7' });
      const place = placeOf(profileId);
      await startMove(place);
      const refused = await app.post('/item/add', { ...ITEM, identity }, TRUSTED);
      t.match(refused, { status: 503, json: { code: 'unavailable' } }, 'add while the slot is on the move');
      await setSlot(place.from, place.slot, 'STABLE');
      await setSlot(place.to, place.slot, 'STABLE');
      await done('/item/add', { ...ITEM, identity });
      await done('/item/remove', { identity, productId: '1001' });
      late.push(identity);
    }
    await sleep(LATE_MS);
    for (const identity of late)
      t.same(await app.shop.items(identity), [], `${identity.sessionId}: the item stays away`);
  });

  t.test('the slot moves, and its visits go on', async (t) => {
    const identity = { sessionId: 'moved' };
    const visit = () => done('/product/visit?count=true', { identity, productHandle: 'x' });
    const { profileId } = (await visit()).json;
    const place = placeOf(profileId);
    const [from, to] = [nodes[place.from], nodes[place.to]];
    await startMove(place);
    const { host = '', port = 0 } = to?.options ?? {};
    const keys = (await from?.call('CLUSTER', 'GETKEYSINSLOT', place.slot, 1_000)) as string[];
    t.ok(keys.length > 0);
    await from?.call('MIGRATE', host, port, '', 0, 5_000, 'KEYS', ...keys);
    for (const i of nodes.keys()) await setSlot(i, place.slot, 'NODE', ids[place.to] as string);
    t.ok((await visit()).json.count >= 2, 'MOVED is followed, and the count goes on');
    await until('it is ready', async () => (await app.get('/readyz')).status === 200);
  });
});
