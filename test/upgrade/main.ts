// A rolling upgrade, as docs/operations.md has it, from another commit's build to this one and back: `make test-upgrade
// FROM=<commit>`, where both have the same schema of Redis. Two `serve` on a port and a `flush` are restarted one after the
// other, under visits and events; no request fails, and everything is there once.

import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { putUnderLoad } from '../cli/shop-under-load.js';
import { client, sql } from '../cli/started.js';
import { MAIN, type Running, until } from '../cli/wishmeter.js';
import { programPart } from '../faults/stage.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';

const KEY = 'sk_a-key-for-this-test';
const OLD_MAIN = process.env.OLD_MAIN ?? '';
const WHILE_MS = 1_000;
const NEWER = /has schema \d+, and this program knows \d+/;

t.test('from another version to this one and back', async (t) => {
  const [redis, clickhouse] = await Promise.all([startTestRedis(), startTestClickHouse()]);
  t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));
  const port = await freePort();
  const env = {
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
    API_KEYS: KEY,
    HOST: '127.0.0.1',
    PORT: String(port),
    DRAIN_MS: '400',
    FLUSH_INTERVAL_MS: '50',
  };
  let version = OLD_MAIN;
  const runs: Running[] = [];
  const part = (name: string, command: 'serve' | 'flush') => {
    const made = programPart(name, command, env, runs, () => version);
    t.teardown(() => made.stop());
    return made;
  };
  const [flush, ...serves] = [part('flush', 'flush'), part('serve 1', 'serve'), part('serve 2', 'serve')];
  for (const one of [flush, ...serves]) await one.start();

  const load = putUnderLoad(port, 8);
  const events = putEvents(`http://127.0.0.1:${port}`);
  await sleep(WHILE_MS);
  const restart = async (one: typeof flush, to: string) => {
    version = to;
    await one.stop();
    await one.start();
    await sleep(WHILE_MS);
  };
  for (const one of [flush, ...serves]) await restart(one, MAIN);
  const sentOnTheWay = events.sent();
  await until('this version flushes what the other one took', async () => (await stored()) >= sentOnTheWay);
  for (const one of serves) await restart(one, OLD_MAIN);
  const olderFlush = await restart(flush, OLD_MAIN).then(
    () => 'it runs',
    (error: Error) => error.message,
  );
  if (olderFlush !== 'it runs') {
    const { stderr } = (await runs.at(-1)?.ended) ?? {};
    t.match(
      stderr,
      NEWER,
      'an older flush is refused where the schema of ClickHouse is newer, and only there',
    );
    await restart(flush, MAIN);
  }
  t.comment(`the older flush: ${olderFlush}`);

  const { sent, failures } = await events.end();
  t.same(failures, [], 'no event was refused');
  t.ok((await load.expectExact(t)) > 0);
  async function stored(): Promise<number> {
    return Number(await sql(clickhouse.url, 'SELECT count() FROM events'));
  }
  await until('all events are flushed', async () => (await stored()) >= sent);
  await flush.stop();
  t.equal(await stored(), sent, 'each event once');
});

/** Events one after the other, each of which must be answered with 200. */
function putEvents(url: string) {
  const shop = client(url, KEY);
  const failures: unknown[] = [];
  let sent = 0;
  let going = true;
  const running = (async () => {
    for (; going; await sleep(2)) {
      try {
        const { status, body } = await shop.event(`s-${sent % 50}`, 'add', { productId: String(sent + 1) });
        if (status === 200) sent++;
        else failures.push(body);
      } catch (error) {
        failures.push(String(error));
      }
    }
  })();
  return {
    sent: () => sent,
    async end() {
      going = false;
      await running;
      return { sent, failures };
    },
  };
}
