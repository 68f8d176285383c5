// A master of a Redis Cluster that has no slot of a stream of visits: what is counted there is not in the log, and
// `why="elsewhere"` says of how many visits that is so. No count and no other visit lacks.

import t from 'tap';
import { createKeys, VISIT_STREAMS, visitTag } from '../../src/redis/keys.js';
import { slotOf } from '../../src/redis/marks.js';
import { startApp, TRUSTED } from '../harness/app.js';
import { connectToEach, startTestCluster } from '../harness/redis.js';
import { slotsOf } from '../harness/slots.js';

const SLOTS = 16_384;
const VISITORS = 60;
/** The node that loses its streams, and the one that gets them. */
const [LEFT, TAKER] = [0, 1];

t.test('slots of streams leave a master', { timeout: 120_000 }, async (t) => {
  const cluster = await startTestCluster(t);
  const nodes = connectToEach(t, cluster.urls);
  const slots = await slotsOf(nodes, cluster.urls);
  const nodeOf = (tag: string) => Math.floor((slotOf(`{${tag}}`) * nodes.length) / SLOTS);
  const app = await startApp(t, cluster);
  const { visits: keys } = createKeys(app.prefix);

  const streams = Array.from({ length: VISIT_STREAMS }, (_, stream) => stream);
  /** Which of the nodes has a key is in its own hands: the others are asked, and answer MOVED. */
  const read = async (command: 'HGET' | 'XLEN', ...args: string[]): Promise<unknown> => {
    for (const node of nodes) {
      const answer = await node.call(command, ...args).catch((error: Error) => error);
      if (!(answer instanceof Error)) return answer;
      if (!answer.message.startsWith('MOVED')) throw answer;
    }
    throw new Error(`no node has ${args[0]}`);
  };
  const logged = async () => {
    const waiting = streams.map((stream) => read('HGET', keys.eventsState(stream), 'events'));
    return (await Promise.all(waiting)).reduce<number>((sum, n) => sum + Number(n ?? 0), 0);
  };
  const missed = async () =>
    Number(/^wishmeter_visits_not_logged_total{why="elsewhere"} (\d+)$/m.exec(await app.figures())?.[1]);
  const visits = Array.from({ length: VISITORS }, (_, i) => ({
    identity: { sessionId: `s${i}` },
    productHandle: 'red-shoe',
  }));
  /** Every visitor looks once more. @returns how many of them are at the node that loses its streams */
  const look = async (count: number) => {
    const { json } = await app.post('/product/visit/batch?count=true', { visits }, TRUSTED);
    const results = json.results as { profileId: string; count: number }[];
    t.same(
      results.map((one) => one.count),
      visits.map(() => count),
      'all are counted',
    );
    return results.filter(({ profileId }) => nodeOf(profileId.slice(0, profileId.indexOf('.'))) === LEFT)
      .length;
  };

  await look(1);
  t.equal(await logged(), VISITORS, 'each node has a stream');
  t.equal(await missed(), 0);

  const moving = streams.filter((stream) => nodeOf(visitTag(stream)) === LEFT);
  t.ok(moving.length > 0 && moving.length < VISIT_STREAMS);
  for (const stream of moving) await slots.move(slotOf(`{${visitTag(stream)}}`), LEFT, TAKER);
  t.equal(await logged(), VISITORS, 'what waits went along');

  const there = await look(2);
  t.ok(there > 0 && there < VISITORS, `${there} of ${VISITORS} visitors are at the node`);
  t.equal(await missed(), there, 'the metric says how many');
  t.equal(await logged(), 2 * VISITORS - there, 'and all others are in the log');
});
