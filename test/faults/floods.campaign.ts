// More than Redis or the service can do, by thousands of connections at once: what is too much waits a bounded time or
// gets 503, memory stays where it was, and what was acknowledged counts. FAULTS=full: more, longer, and goodput is judged;
// else it is reported, since this machine may be busy. kills.test.ts has a small flood.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { median } from '../../bench/statistics.js';
import { needsProc } from '../harness/needs.js';
import { connectTo } from '../harness/redis.js';
import { type FloodResult, type FloodSpec, flood, floodSession, openMany, requestOf } from './flood.js';
import { type ServeAlone, startServeAlone } from './serve-alone.js';
import { FULL } from './service.js';

const FEW = 64;
const MANY = FULL ? 4_000 : 1_500;
const FLOOD_S = FULL ? 60 : 5;
const LUGGAGE = 8 * 1024;
/** Times after the flood. */
const TRIES = 10;
/** What a process may grow by: buffers of thousands of connections, and the engine's own leisure. */
const GROWTH_MB = 150;
const OPTIONS = { timeout: 600_000, ...needsProc() };

/** Floods, and what is true of each of them. */
function floodsOf(t: Test, serve: ServeAlone, spec: Partial<FloodSpec> = {}) {
  const all: FloodResult[] = [];
  const run = async (connections: number, seconds: number) => {
    const before = serve.megabytes();
    const result = await flood({ port: serve.port, connections, seconds, ...spec });
    all.push(result);
    const { answers, withoutRetryAfter } = result;
    t.same(
      Object.keys(answers).filter((status) => status !== '200' && status !== '503'),
      [],
      `${connections} connections: each request gets 200 or 503, and none waits for ever`,
    );
    t.equal(withoutRetryAfter, 0, '503 says when to come again');
    const grown = serve.megabytes() - before;
    t.comment(`${JSON.stringify(result)}; ${before.toFixed(0)} MB, grown by ${grown.toFixed(0)} MB`);
    if (connections === MANY) t.ok(grown < GROWTH_MB, 'memory is flat');
    return result;
  };
  const expectRecovered = async () => {
    const isWell = ({ answers }: FloodResult) => Object.keys(answers).join() === '200';
    let last = await run(FEW, 1);
    for (let left = TRIES; !isWell(last) && left > 0; left--) last = await run(FEW, 1);
    t.ok(isWell(last), 'all is well when it is over');
    await serve.untilIdle();
    let counted = 0;
    for (let i = 0; i < 50; i++) {
      const query = new URLSearchParams({ sessionId: floodSession(i), productHandle: 'x' });
      counted += JSON.parse(await serve.get(`/product/visit?${query}`)).count;
    }
    const acknowledged = all.reduce((sum, { answers }) => sum + (answers['200'] ?? 0), 0);
    const sent = all.reduce((sum, one) => sum + one.sent, 0);
    const figures = `acknowledged ${acknowledged}, counted ${counted}, sent ${sent}`;
    t.ok(acknowledged <= counted && counted <= sent, figures);
  };
  return { run, expectRecovered };
}

t.test('a Redis that takes writes for a tenth of the time: the excess is refused', OPTIONS, async (t) => {
  const serve = await startServeAlone(t, { REDIS_TIMEOUT_MS: '500' });
  const { run, expectRecovered } = floodsOf(t, serve);
  await run(FEW, 1);
  const client = connectTo(t, serve.redisUrl);
  let isSlow = true;
  const pausing = (async () => {
    for (; isSlow; await sleep(1_000)) await client.call('CLIENT', 'PAUSE', '900', 'WRITE');
  })();
  const starved = await run(MANY, FLOOD_S);
  isSlow = false;
  await pausing;
  await client.call('CLIENT', 'UNPAUSE');
  t.ok((starved.answers['503'] ?? 0) > 0, 'there was an excess to refuse');
  t.ok((starved.answers['200'] ?? 0) > 0, 'and the rest was done');
  await expectRecovered();
});

t.test('a service that is busy itself does nearly as much as at its peak', OPTIONS, async (t) => {
  const { run, expectRecovered } = floodsOf(t, await startServeAlone(t), { luggage: LUGGAGE });
  const peaks: number[] = [];
  for (let i = 0; i < 3; i++) peaks.push((await run(FEW, FULL ? 5 : 1)).goodput);
  const share = (await run(MANY, FLOOD_S)).goodput / median(peaks);
  t.comment(`goodput ${(100 * share).toFixed(0)} % of the peak`);
  if (FULL) t.ok(share > 0.8, 'goodput is above 80 % of the peak');
  await expectRecovered();
});

t.test('a thousand bodies of twenty thousand objects, small on the wire, are bounded', OPTIONS, async (t) => {
  const serve = await startServeAlone(t);
  const sockets = await openMany(serve.port, 1_000);
  const before = serve.megabytes();
  let most = before;
  const sampling = setInterval(() => {
    most = Math.max(most, serve.megabytes());
  }, 50);
  t.teardown(() => clearInterval(sampling));
  const objects = Array.from({ length: 20_000 }, () => ({})); // 60 KB; some 1.2 MB of heap
  const request = requestOf({ identity: { sessionId: 'bulky' }, productHandle: 'x', objects });
  const statuses = await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<string>((done) => {
          socket.once('data', (data) => done(String(data).slice(9, 12)));
          socket.once('close', () => done('none'));
          socket.write(request);
        }),
    ),
  );
  for (const socket of sockets) socket.destroy();
  const wrong = statuses.filter((status) => status !== '200' && status !== '503');
  t.same(wrong, [], 'each was answered');
  t.ok(most - before < 400, `grown by ${(most - before).toFixed(0)} MB; all of them together take 1,200`);
  await serve.untilIdle();
});
