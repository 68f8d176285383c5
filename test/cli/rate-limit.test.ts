// RATE_LIMIT of a real `start`: one caller floods all of its workers, and gets what the limit says, not so much from each.

import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { apiKey, started } from './started.js';
import { tempDir, until } from './wishmeter.js';

const LIMIT = 30;
const CONNECTIONS = 24;
const VISIT = JSON.stringify({ identity: { sessionId: 'flood' }, productHandle: 'p' });
const JSON_TYPE = { 'content-type': 'application/json' };
/** After these what was too much in the first second is paid back. */
const ACCEPTED = 4 * LIMIT;
const WITHIN_MS = 120_000;

/** The second of the machine's monotonic clock, by which the workers count. */
const second = () => Number(process.hrtime.bigint() / 1_000_000_000n);

t.test('a caller that floods three workers gets RATE_LIMIT, within a tenth', async (t) => {
  const dir = await tempDir(t);
  const { url, stop } = await started(t, dir, { WORKERS: '3', RATE_LIMIT: String(LIMIT) });
  // Connections are spread over the workers, and each stays with its own.
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  t.teardown(() => agent.destroy());
  const statuses = new Map<number, number>();
  const visit = () =>
    new Promise<void>((resolve, reject) => {
      request(`${url}/product/visit`, { method: 'POST', headers: JSON_TYPE, agent }, (answer) => {
        const status = answer.statusCode ?? 0;
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        answer.resume().on('end', resolve).on('error', reject);
      })
        .on('error', reject)
        .end(VISIT);
    });

  const began = second();
  const accepted = () => statuses.get(200) ?? 0;
  const seconds = () => second() - began + 1;
  const isWithin = () => accepted() <= LIMIT * seconds() * 1.1;
  let isEnough = false;
  const flood = Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      while (!isEnough) await visit();
    }),
  );
  const enough = until(
    'what is accepted is within the limit',
    () => accepted() >= ACCEPTED && isWithin(),
    WITHIN_MS,
  );
  await enough.finally(() => {
    isEnough = true;
  });
  await flood;
  t.ok(isWithin(), `${accepted()} accepted in ${seconds()} s: ${JSON.stringify([...statuses])}`);
  t.same([...statuses.keys()].sort(), [200, 429]);

  const headers = { authorization: `Bearer ${await apiKey(dir)}` };
  const count = await new Promise<string>((resolve, reject) => {
    request(`${url}/product/visit?sessionId=flood&productHandle=p`, { headers }, (answer) => {
      text(answer).then(resolve, reject);
    })
      .on('error', reject)
      .end();
  });
  t.equal(JSON.parse(count).count, accepted(), 'what was accepted was counted, and nothing else');
  t.equal((await stop()).code, 0);
});
