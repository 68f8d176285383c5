// Clients that take their time, never end or leave, by the thousand: good requests beside them are answered, and nothing
// is kept of them. FAULTS=full: 5,000 of them, and the p99 of the good requests, quiet and beside them in turns, is
// judged; else it is told, since this machine may be busy.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { median } from '../../bench/statistics.js';
import { until } from '../cli/wishmeter.js';
import { needsProc } from '../harness/needs.js';
import { type Good, goodRequests, p99, told } from './good-requests.js';
import { startServeAlone } from './serve-alone.js';
import { FULL } from './service.js';
import { startSlowClients } from './slow-clients.js';

const SLOW_CLIENTS = FULL ? 5_000 : 1_200;
const ROUNDS = FULL ? 5 : 3;
const WINDOW_S = FULL ? 13 : 1.5;
/** Longer than a body may take. */
const BODIES_END_S = 13;
/** Longer than anything may take; a guard against what hangs, not a promise of speed. */
const HANG_MS = 15_000;
/** What a process may grow by: buffers of thousands of connections, and the engine's own leisure. */
const GROWTH_MB = 150;

t.test(`${SLOW_CLIENTS} slow clients`, { timeout: 600_000, ...needsProc() }, async (t) => {
  const serve = await startServeAlone(t);
  await goodRequests(serve.port, 1);
  const before = serve.megabytes();
  const quiet: Good[] = [];
  const beside: Good[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    quiet.push(await goodRequests(serve.port, WINDOW_S));
    const slow = await startSlowClients(t, { port: serve.port, count: SLOW_CLIENTS });
    const began = performance.now();
    beside.push(await goodRequests(serve.port, WINDOW_S));
    const isLast = round === ROUNDS;
    if (isLast) await sleep(Math.max(0, BODIES_END_S * 1_000 - (performance.now() - began)));
    const grown = serve.megabytes() - before;
    const { ended, answers, left } = await slow.end();
    t.comment(
      `quiet: ${told(quiet.at(-1))}; beside them: ${told(beside.at(-1))}; ` +
        `${ended} ended by the server, ${JSON.stringify(answers)}; ${left} left; ` +
        `${before.toFixed(0)} MB, grown by ${grown.toFixed(0)} MB`,
    );
    if (isLast)
      t.ok((answers['408'] ?? 0) > SLOW_CLIENTS / 4, 'bodies that do not end are told so after 10 s');
    t.ok(left > 20, 'clients left in the middle');
    t.ok(grown < GROWTH_MB, 'memory is flat');
    await until('nothing is open any more', async () => (await serve.openRequests()) === 1);
  }
  const [alone, crowded] = [quiet, beside].map((windows) => median(windows.map(p99))) as [number, number];
  const ratio = crowded / alone;
  t.comment(
    `p99, medians of ${ROUNDS}: quiet ${alone.toFixed(1)} ms, beside them ${crowded.toFixed(1)} ms, ${ratio.toFixed(2)} times`,
  );
  if (FULL) t.ok(ratio <= 3, 'p99 within 3 times the quiet one');
  const all = [...quiet, ...beside];
  t.same(
    all.flatMap(({ wrong }) => wrong),
    [],
    'every good request was answered with 200',
  );
  t.ok(all.every(({ latencies }) => latencies.length > 20 && (latencies.at(-1) as number) < HANG_MS));
  t.ok(serve.isAlive());
});
