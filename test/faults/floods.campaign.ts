// A Redis that can do but a fraction of what is asked of it, by thousands of connections at once: what is too much waits a
// bounded time or gets 503, memory stays where it was, and what was done counts. (For a service that is itself
// the bottleneck see overload.campaign.ts.) FAULTS=full: more and longer. Times are reported, not judged. kills.test.ts has
// a small flood.

import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { connectTo } from '../harness/dump.js';
import { needsProc } from '../harness/needs.js';
import { type FloodResult, flood, floodSession } from './flood.js';
import { startServeAlone } from './serve-alone.js';
import { FULL } from './service.js';

const FEW_CONNECTIONS = 64;
const MANY_CONNECTIONS = FULL ? 4_000 : 1_500;
const FLOOD_S = FULL ? 60 : 5;
/** Longer than anything may take; a guard against what hangs, not a promise of speed. */
const HANG_MS = 15_000;
/** What is still held back when Redis is itself again is done or refused within these. */
const SECONDS_TO_RECOVER = 10;
/** What a process may grow by: buffers of thousands of connections, and the engine's own leisure. */
const GROWTH_MB = 150;

function expectBounded(t: Test, { answers, withoutRetryAfter, longestMs }: FloodResult, what: string): void {
  t.same(
    Object.keys(answers).filter((status) => status !== '200' && status !== '503'),
    [],
    `${what}: 200 or 503`,
  );
  t.equal(withoutRetryAfter, 0, `${what}: 503 says when to come again`);
  t.ok(longestMs < HANG_MS, `${what}: no request waits for ever`);
}

t.test(
  'a Redis that takes writes for a tenth of the time: the excess is refused, the rest is done',
  { timeout: 600_000, ...needsProc() },
  async (t) => {
    const serve = await startServeAlone(t, { REDIS_TIMEOUT_MS: '500' });
    const warmUp = await flood(serve.port, FEW_CONNECTIONS, 1);
    const before = serve.megabytes();
    const client = connectTo(serve.redisUrl);
    t.teardown(() => client.disconnect());
    let isSlow = true;
    const pausing = (async () => {
      while (isSlow) {
        await client.call('CLIENT', 'PAUSE', '900', 'WRITE');
        await sleep(1_000);
      }
    })();
    const starved = await flood(serve.port, MANY_CONNECTIONS, FLOOD_S);
    const grown = serve.megabytes() - before;
    isSlow = false;
    await pausing;
    await client.call('CLIENT', 'UNPAUSE');
    t.comment(
      `${MANY_CONNECTIONS} connections: ${JSON.stringify(starved)}; ${before.toFixed(0)} MB, grown by ${grown.toFixed(0)} MB`,
    );
    expectBounded(t, starved, 'the flood');
    t.ok((starved.answers['503'] ?? 0) > 0, 'there was an excess to refuse');
    t.ok((starved.answers['200'] ?? 0) > 0, 'and the rest was done');
    t.ok(grown < GROWTH_MB, 'memory is flat');

    const after: FloodResult[] = [];
    do after.push(await flood(serve.port, FEW_CONNECTIONS, 1));
    while (Object.keys(after.at(-1)?.answers ?? {}).join() !== '200' && after.length < SECONDS_TO_RECOVER);
    t.same(Object.keys(after.at(-1)?.answers ?? {}), ['200'], 'all is well when it is over');
    t.equal(await serve.openRequests(), 1, 'nothing is left open');
    let counted = 0;
    for (let i = 0; i < 50; i++) {
      const query = new URLSearchParams({ sessionId: floodSession(i), productHandle: 'x' });
      counted += JSON.parse(await serve.get(`/product/visit?${query}`)).count;
    }
    const all = [warmUp, starved, ...after];
    const acknowledged = all.reduce((sum, { answers }) => sum + (answers['200'] ?? 0), 0);
    const sent = all.reduce((sum, one) => sum + one.sent, 0);
    t.ok(
      acknowledged <= counted && counted <= sent,
      `acknowledged ${acknowledged}, counted ${counted}, sent ${sent}`,
    );
  },
);
