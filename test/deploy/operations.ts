// docs/operations.md, run: a shop as in production, whose databases can be lost, and the commands that stand there.

import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import type { Child } from '../../src/embedded/child.js';
import { type EmbeddedClickHouse, startClickHouse } from '../../src/embedded/clickhouse/start.js';
import { logLines, shopAt } from '../cli/started.js';
import { MAIN, type Running, tempDir, until } from '../cli/wishmeter.js';
import { type Part, programPart } from '../faults/service.js';
import { forFetch, putMigrated } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';
import { startRedisServer } from './programs.js';

const DOCUMENT = new URL('../../../docs/operations.md', import.meta.url);
const KEY = 'sk_a-key-for-this-test';
/** No command may have the default one in it. */
const CLICKHOUSE_DATABASE = 'shop';
const RUN_MS = 60_000;
const STARTS = 5;

const document = await readFile(DOCUMENT, 'utf8');

/** Runs the block of the document that stands under this marker. */
export async function follow(t: Test, name: string, env: NodeJS.ProcessEnv): Promise<void> {
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
      redis = await startRedisServer(folders.redis, redisPort, ['--appendonly', 'yes', '--save', '']);
    },
    clickhouse: async () => {
      clickhouse = await startClickHouse({ dir: folders.clickhouse });
    },
  };
  await putMigrated(folders.clickhouse, CLICKHOUSE_DATABASE);
  await Promise.all([startDatabase.redis(), startDatabase.clickhouse()]);
  t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));

  const env = () => ({
    REDIS_URL: `redis://127.0.0.1:${redisPort}`,
    CLICKHOUSE_URL: clickhouse.url,
    CLICKHOUSE_DATABASE,
  });
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
      },
      runs,
    );
  let [serve, flush] = [part('serve'), part('flush')];
  t.teardown(() => Promise.all([serve.stop(), flush.stop()]));
  let shop = shopAt('', KEY);
  let visits = 0;
  const ask = async (query: string) => {
    const { origin, headers } = forFetch(clickhouse.url);
    const answer = await fetch(origin, { method: 'POST', headers, body: `${query} FORMAT TSV` });
    return (await answer.text()).split('\n').filter(Boolean);
  };
  const shown = () => ask(`SELECT product_id FROM ${CLICKHOUSE_DATABASE}.events ORDER BY product_id`);
  return {
    visit: (sessionId: string) => shop.visit({ sessionId }),
    count: (sessionId: string) => shop.count({ sessionId }),
    shown,
    visitsShown: async () => Number(await ask(`SELECT count() FROM ${CLICKHOUSE_DATABASE}.visits`)),
    flush: { start: () => flush.start(), stop: () => flush.stop() },
    start: async () => {
      // The databases are at other addresses than before.
      [serve, flush] = [part('serve'), part('flush')];
      await Promise.all([flush, serve].map(startPatiently));
      const lines = runs.flatMap((run) => logLines(run.stdout()));
      const line = lines.findLast(({ msg }) => msg === 'serving');
      shop = shopAt(`http://127.0.0.1:${line?.['port']}`, KEY);
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
      await shop.visit({ sessionId: 'ada' });
      await shop.event({ sessionId: 'ada' }, 'add', { productId: name });
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

export const programs = needsPrograms('redis-cli', 'redis-server', 'curl');

/** Where `a` and `b` are in the backup of Redis, `c` in that of ClickHouse, and `d` in none; all were flushed. */
export async function backedUp(t: Test, kind: 'rdb' | 'aof') {
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
