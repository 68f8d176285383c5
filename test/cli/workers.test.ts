// Several `serve` workers of one `start`: which of them a request meets is chance, what it learns is not.

import t from 'tap';
import { processesOf } from './processes.js';
import { started } from './started.js';
import { tempDir, until } from './wishmeter.js';

const NEED_PROC = process.platform === 'linux' ? {} : { skip: 'reads /proc' };

/** Each on a connection of its own, which may meet any worker. */
async function ask(url: string, init: RequestInit = {}): Promise<string> {
  const answer = await fetch(url, { ...init, headers: { ...init.headers, connection: 'close' } });
  if (answer.status !== 200) throw new Error(`${url}: ${answer.status}`);
  return answer.text();
}

/** Samples of a metric by the labels as they are written. */
function samples(text: string, name: string): Map<string, number> {
  const lines = text.matchAll(new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`, 'gm'));
  return new Map(Array.from(lines, ([, labels = '', value]) => [labels, Number(value)]));
}

t.test('a scrape shows the figures of all workers, each as its own', NEED_PROC, async (t) => {
  const dir = await tempDir(t);
  const { url, stop } = await started(t, dir, { WORKERS: '2' });
  const body = JSON.stringify({ identity: { sessionId: 's' }, productHandle: 'p' });
  const headers = { 'content-type': 'application/json' };
  const visit = () => ask(`${url}/product/visit`, { method: 'POST', body, headers });
  for (let i = 0; i < 30; i++) await visit();

  const visitsOf = (text: string) =>
    ['1', '2'].map((worker) =>
      samples(text, 'wishmeter_http_answers_total').get(
        `worker="${worker}",operation="post /product/visit",status="200"`,
      ),
    );
  const texts = await Promise.all(Array.from({ length: 6 }, () => ask(`${url}/metrics`)));
  for (const text of texts) {
    const [one = 0, two = 0] = visitsOf(text);
    t.equal(one + two, 30);
    t.same([...samples(text, 'process_start_time_seconds').keys()], ['worker="1"', 'worker="2"']);
    t.same([...samples(text, 'wishmeter_redis_up')], [['', 1]], 'what is in Redis is nobody’s own');
    t.equal(text.match(/^# TYPE wishmeter_http_answers_total /gm)?.length, 1);
  }

  const workers = async () => (await processesOf(dir)).filter(({ title }) => /^wishmeter serve/.test(title));
  const [victim] = await workers();
  process.kill(victim?.pid ?? 0, 'SIGSTOP');
  const hung = await until('a worker that answers', () =>
    ask(`${url}/metrics`, { signal: AbortSignal.timeout(3_000) }).catch(() => false),
  );
  t.equal(samples(String(hung), 'process_start_time_seconds').size, 1, 'one that hangs is left out');
  process.kill(victim?.pid ?? 0, 'SIGKILL');
  await until('it is started again, under its name', async () => {
    const text = await ask(`${url}/metrics`).catch(() => '');
    return samples(text, 'process_start_time_seconds').size === 2;
  });
  t.equal((await stop()).code, 0);
});
