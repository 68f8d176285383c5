// docs/operations.md, run: backups under way, each loss, and the restore of it by the commands that stand there. What
// should be missing is missing, and nothing else.

import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { type Child, startChild } from '../../src/embedded/child.js';
import { type EmbeddedClickHouse, startClickHouse } from '../../src/embedded/clickhouse.js';
import { findRedis, untilLoaded } from '../../src/embedded/redis.js';
import { apiKey, client, logLines, nothingLeft, sql, started } from '../cli/started.js';
import { MAIN, type Running, tempDir, until } from '../cli/wishmeter.js';
import { type Part, programPart } from '../faults/service.js';
import { forFetch } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';

const DOCUMENT = new URL('../../../docs/operations.md', import.meta.url);
const KEY = 'sk_a-key-for-this-test';
const RUN_MS = 60_000;
const STARTS = 5;

const document = await readFile(DOCUMENT, 'utf8');

/** Runs the block of the document that stands under this marker. */
async function follow(t: Test, name: string, env: NodeJS.ProcessEnv): Promise<void> {
  const [, script] = new RegExp(`^<!-- ${name} -->\n\`\`\`sh\n(.*?)^\`\`\``, 'ms').exec(document) ?? [];
  if (script === undefined) throw new Error(`docs/operations.md has no ${name}`);
  const { PATH } = process.env;
  await promisify(execFile)('bash', ['--norc', '-euo', 'pipefail', '-c', script], {
    env: { ...env, PATH: `${env['PATH']}:${PATH}` },
    timeout: RUN_MS,
  }).catch((error) => t.fail(`${name}: ${error.message}${error.stdout}${error.stderr}`));
}

/** As systemd does: where this machine is too busy for Redis to answer in time, it is started again. */
async function startPatiently(part: Part): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await part.start();
    } catch (error) {
      if (tries === STARTS) throw error;
    }
  }
}

/** Redis on a port, ClickHouse, `serve` and `flush`, as in production, in folders that can be lost. */
async function openShop(t: Test) {
  const dir = await tempDir(t);
  const folders = {
    redis: join(dir, 'redis'),
    clickhouse: join(dir, 'clickhouse'),
    backup: join(dir, 'backup'),
  };
  for (const folder of Object.values(folders)) await mkdir(folder, { mode: 0o700 });
  const bin = join(dir, 'bin');
  await mkdir(bin);
  const program = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`;
  await writeFile(join(bin, 'wishmeter'), program, { mode: 0o755 });

  let redis: Child<void>;
  let redisPort = 0;
  let clickhouse: EmbeddedClickHouse;
  const startDatabase = {
    redis: async () => {
      redisPort = await freePort();
      const args = ['--port', String(redisPort), '--bind', '127.0.0.1', '--appendonly', 'yes', '--save', ''];
      redis = await startChild({
        name: 'Redis',
        command: () => ({ file: findRedis(), args, cwd: folders.redis }),
        ready: (_child, ended) => untilLoaded({ port: redisPort, host: '127.0.0.1' }, ended),
        output: 'tail',
      });
    },
    clickhouse: async () => {
      clickhouse = await startClickHouse({ dir: folders.clickhouse });
    },
  };
  await Promise.all([startDatabase.redis(), startDatabase.clickhouse()]);
  t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));

  const env = () => ({ REDIS_URL: `redis://127.0.0.1:${redisPort}`, CLICKHOUSE_URL: clickhouse.url });
  const runs: Running[] = [];
  const part = (command: 'serve' | 'flush') =>
    programPart(
      command,
      command,
      {
        ...env(),
        API_KEYS: KEY,
        HOST: '127.0.0.1',
        PORT: '0',
        REDIS_TIMEOUT_MS: '900',
        FLUSH_INTERVAL_MS: '50',
        FLUSH_OWNER: 'shop',
      },
      runs,
    );
  let [serve, flush] = [part('serve'), part('flush')];
  t.teardown(() => Promise.all([serve.stop(), flush.stop()]));
  let shop = client('', KEY);
  let visits = 0;
  const ask = async (query: string) => {
    const { origin, headers } = forFetch(clickhouse.url);
    const answer = await fetch(origin, { method: 'POST', headers, body: `${query} FORMAT TSV` });
    return (await answer.text()).split('\n').filter(Boolean);
  };
  const shown = () => ask('SELECT product_id FROM wishmeter.events ORDER BY product_id');
  return {
    visit: (sessionId: string) => shop.visit(sessionId, 'red-shoe'),
    count: (sessionId: string) => shop.count(sessionId, 'red-shoe'),
    shown,
    visitsShown: async () => Number(await ask('SELECT count() FROM wishmeter.visits')),
    flush: { start: () => flush.start(), stop: () => flush.stop() },
    start: async () => {
      // The databases are at other addresses than before.
      [serve, flush] = [part('serve'), part('flush')];
      await startPatiently(flush);
      await startPatiently(serve);
      const line = logLines(runs.at(-1)?.stdout() ?? '').find(({ msg }) => msg === 'serving');
      shop = client(`http://127.0.0.1:${line?.['port']}`, KEY);
    },
    stop: async () => {
      await serve.stop();
      await flush.stop();
    },
    follow: (name: string) =>
      follow(t, name, {
        ...env(),
        PATH: bin,
        REDIS_DIR: folders.redis,
        BACKUP: folders.backup,
      }),
    /** Stops a database, and nothing is left of its folder. */
    lose: async (which: 'redis' | 'clickhouse') => {
      await (which === 'redis' ? redis : clickhouse).stop();
      await rm(folders[which], { recursive: true });
      await mkdir(folders[which], { mode: 0o700 });
    },
    /** What is there of a database once it is lost; put back by `startDatabase`. */
    startDatabase,
    /** A visit of the one visitor, and an event of this name. */
    traffic: async (name: string) => {
      t.equal((await shop.visit('ada', 'red-shoe')).status, 200);
      t.equal((await shop.event('ada', 'add', { productId: name })).status, 200);
      visits++;
      return visits;
    },
    untilShown: (names: readonly string[]) =>
      until(`events ${names}`, async () => {
        const now = await shown();
        return names.every((name) => now.includes(name));
      }),
  };
}

const programs = needsPrograms('redis-cli', 'redis-server', 'curl');

/** Where `a` and `b` are in the backup of Redis, `c` in that of ClickHouse, and `d` in none; all were flushed. */
async function backedUp(t: Test, kind: 'rdb' | 'aof') {
  const shop = await openShop(t);
  await shop.start();
  await shop.traffic('a');
  await shop.untilShown(['a']);
  // `b` waits in Redis when that is copied, and is in ClickHouse when that is.
  await shop.flush.stop();
  const counted = await shop.traffic('b');
  await shop.follow(`backup-${kind}`);
  await shop.flush.start();
  await shop.traffic('c');
  await shop.untilShown(['b', 'c']);
  await shop.follow('backup-clickhouse');
  await shop.traffic('d');
  await shop.untilShown(['d']);
  return { shop, counted };
}

for (const kind of ['aof', 'rdb'] as const) {
  t.test(`Redis is lost, and restored from an ${kind} older than ClickHouse`, programs, async (t) => {
    const { shop, counted } = await backedUp(t, kind);
    const profileId = (await shop.visit('grace')).body['profileId'];
    await shop.stop();
    await shop.lose('redis');
    await shop.follow(`restore-${kind}`);
    await shop.startDatabase.redis();
    await shop.start();
    t.equal(await shop.count('ada'), counted, 'counts are those of the backup');
    await shop.traffic('e');
    await shop.untilShown(['e']);
    t.same(await shop.shown(), ['a', 'b', 'c', 'd', 'e'], 'every event, once');
    t.equal((await shop.visit('grace')).body['profileId'], profileId, 'ids are as before');
    // Five of the one, two of the other; that of `b` waited in the backup, and had been flushed.
    await until('every visit, once', async () => (await shop.visitsShown()) === 7);
  });
}

t.test('ClickHouse is lost, and restored as it was before Redis; then both are', programs, async (t) => {
  const { shop, counted } = await backedUp(t, 'rdb');
  await shop.flush.stop();
  const visits = await shop.traffic('e'); // it waits in Redis
  await shop.stop();
  await shop.lose('clickhouse');
  await shop.startDatabase.clickhouse();
  await shop.follow('restore-clickhouse');
  await shop.follow('restore-clickhouse'); // once more doubles nothing
  await shop.start();
  await shop.untilShown(['e']);
  t.same(await shop.shown(), ['a', 'b', 'c', 'e'], 'what was flushed after the backup is gone');
  t.equal(await shop.count('ada'), visits, 'every count is there');

  await shop.stop();
  await shop.lose('redis');
  await shop.lose('clickhouse');
  await shop.follow('restore-rdb');
  await Promise.all([shop.startDatabase.redis(), shop.startDatabase.clickhouse()]);
  await shop.follow('restore-clickhouse');
  await shop.start();
  await shop.traffic('f');
  await shop.untilShown(['f']);
  t.same(await shop.shown(), ['a', 'b', 'c', 'f'], 'what was acknowledged before the backup, once');
  t.equal(await shop.count('ada'), counted + 1);
});

t.test('an embedded start: DATA_DIR copied and put back', async (t) => {
  const dir = await tempDir(t);
  const [DATA_DIR, BACKUP] = [join(dir, 'data'), join(dir, 'backup')];
  await mkdir(BACKUP);
  const follows = (name: string) => follow(t, name, { DATA_DIR, BACKUP });
  const first = await started(t, DATA_DIR);
  const before = client(first.url, await apiKey(DATA_DIR));
  await before.visit('ada', 'red-shoe');
  await before.event('ada', 'add', { productId: 'a' });
  await first.stop();
  await follows('backup-embedded');
  const second = await started(t, DATA_DIR);
  await client(second.url, await apiKey(DATA_DIR)).visit('ada', 'red-shoe');
  await second.stop();
  await nothingLeft(DATA_DIR);
  await follows('restore-embedded');
  const third = await started(t, DATA_DIR);
  const after = client(third.url, await apiKey(DATA_DIR));
  t.equal(await after.count('ada', 'red-shoe'), 1);
  await until('the event is in ClickHouse', async () => {
    return (await sql(third.clickhouseUrl, 'SELECT product_id FROM events')) === 'a';
  });
  await third.stop();
});
