// An operator's afternoon, again: two `serve` behind nginx, two `flush`, `deliver` and `dashboard` on a Redis Cluster of three masters
// and three replicas with a user for each process, under load. Each act of docs/operations.md that something breaks at is a line
// of a table: what clients saw, and which alarm of deploy/prometheus/rules.yaml fired after how long. Then the books are checked.
// `make afternoon` takes some ten minutes; a busy machine makes every figure larger. Needs nginx and Prometheus. Exit code 1 if the
// books are wrong.

import { execFile, spawn } from 'node:child_process';
import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { startNginx } from '../cli/nginx.js';
import { tempDir, wishmeter } from '../cli/wishmeter.js';
import { DEPLOY } from '../deploy/programs.js';
import { until } from '../harness/until.js';
import { Caller } from './caller.js';
import { Load } from './load.js';
import { reconcile } from './reconcile.js';
import { type ClusterNode, type RedisCluster, redisCluster } from './redis-cluster.js';
import { KEY, kill, openService, type Part, programPart } from './service.js';

const PASSWORD = 'afternoon';
/** A master is down for so long, or full, or ClickHouse is away: longer than an alarm waits. */
const OUTAGE_MS = 100_000;
const LIMIT_MS = 120_000;

const closers: (() => unknown)[] = [];
const scope = { teardown: (close: () => unknown) => void closers.unshift(close) } as Test;
const say = (text: string) => process.stdout.write(`${text}\n`);

/** What docs/operations.md asks of a node, which forgets it when it ends; and its users. */
async function setUp(node: ClusterNode): Promise<void> {
  await node.command('CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
  const lines = await readFile(join(DEPLOY, 'redis/users.acl'), 'utf8');
  for (const line of lines
    .replace(/\$\w+_PASSWORD/g, PASSWORD)
    .replaceAll('$KEY_PREFIX', 'wm')
    .match(/wishmeter-.*/g) ?? [])
    await node.command('ACL', 'SETUSER', ...line.split(' '));
}

async function startNode(node: ClusterNode): Promise<void> {
  await node.start();
  await setUp(node);
}

/** Prometheus with our rules. @returns names of alarms that fire now */
async function startPrometheus(serve: number, flush: readonly number[]): Promise<() => Promise<string[]>> {
  const dir = await tempDir(scope);
  await copyFile(join(DEPLOY, 'prometheus/rules.yaml'), join(dir, 'rules.yaml'));
  const job = (name: string, ports: readonly number[]) =>
    `  - { job_name: ${name}, static_configs: [{ targets: [${ports.map((port) => `'127.0.0.1:${port}'`)}] }] }\n`;
  const jobs = job('wishmeter-serve', [serve]) + job('wishmeter-flush', flush);
  const often = 'global: { scrape_interval: 5s, evaluation_interval: 5s }\nrule_files: [rules.yaml]\n';
  await writeFile(join(dir, 'prometheus.yaml'), `${often}scrape_configs:\n${jobs}`);
  const port = await freePort();
  const args = ['--config.file', join(dir, 'prometheus.yaml'), '--storage.tsdb.path', join(dir, 'data')];
  const child = spawn('prometheus', [...args, `--web.listen-address=127.0.0.1:${port}`], { stdio: 'ignore' });
  scope.teardown(() => child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  await until('Prometheus is ready', () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return async () => {
    const answer = (await (await fetch(`${url}/api/v1/alerts`)).json()) as {
      data: { alerts: { state: string; labels: { alertname: string } }[] };
    };
    return answer.data.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname);
  };
}

let exitCode = 1;
try {
  const cluster: RedisCluster = await redisCluster(await tempDir(scope));
  const withUsers = Object.assign(Object.create(cluster) as RedisCluster, {
    start: async () => {
      await cluster.start();
      await Promise.all(cluster.nodes.map(setUp));
    },
  });
  const as = (user: string) => cluster.url().replaceAll('//', `//wishmeter-${user}:${PASSWORD}@`);
  const [flushPort, secondPort, dashboardPort] = [await freePort(), await freePort(), await freePort()];
  const env = {
    REDIS_URL: as('serve'),
    REDIS_REPLICAS: '1',
    KEY_PREFIX: 'wm',
    FLUSH_METRICS_PORT: String(flushPort),
  };
  const service = await openService(scope, { workers: 2, redis: withUsers, env });
  const { clickhouseUrl: CLICKHOUSE_URL } = service;
  const own = { HOST: '127.0.0.1', CLICKHOUSE_URL };
  const others: Part[] = [
    programPart('flush 2', 'flush', {
      ...own,
      REDIS_URL: as('flush'),
      FLUSH_METRICS_PORT: String(secondPort),
    }),
    programPart('deliver', 'deliver', { REDIS_URL: as('deliver') }),
    programPart('dashboard', 'dashboard', {
      ...own,
      REDIS_URL: as('dashboard'),
      DASHBOARD_PORT: String(dashboardPort),
      DASHBOARD_TOKEN: 'a-token-0123456789',
    }),
  ];
  for (const part of others) {
    await part.start();
    scope.teardown(() => part.stop());
  }
  const nginx = await startNginx(scope, Number(new URL(service.url).port));
  const firing = await startPrometheus(Number(new URL(service.url).port), [flushPort, secondPort]);
  const load = new Load({
    url: () => `http://127.0.0.1:${nginx}`,
    key: KEY,
    seed: 1,
    connections: 16,
    restMs: 25,
  });
  scope.teardown(() => load.stop());
  await load.untilServed(500);
  // Visitors who come once: the load sends some requests until they are acknowledged, so it is all at a master that is away.
  const visitors = new Caller({ url: () => `http://127.0.0.1:${nginx}`, key: KEY, connections: 8 });
  let isClosed = false;
  const visiting = Array.from({ length: 8 }, async (_, n) => {
    for (let i = 0; !isClosed; i++) {
      const identity = { sessionId: `visitor-${n}-${i}` };
      await visitors.call('POST', '/product/visit', { identity, productHandle: 'h' });
      await sleep(50);
    }
  });

  const rows: string[] = [];
  const act = async (name: string, work: () => Promise<unknown>) => {
    const before = { ...visitors.answers };
    const began = performance.now();
    const seconds = () => Math.round((performance.now() - began) / 1_000);
    const old = new Set(await firing());
    const alarms = new Map<string, number>();
    let isOver = false;
    const watching = (async () => {
      while (!isOver) {
        for (const alarm of await firing())
          if (!old.has(alarm) && !alarms.has(alarm)) alarms.set(alarm, seconds());
        await sleep(1_000);
      }
    })();
    await work();
    await load.untilServed(200);
    const took = seconds();
    isOver = true;
    await watching;
    const seen = Object.entries(visitors.answers)
      .map(([status, n]) => [status, n - (before[status] ?? 0)] as const)
      .filter(([, n]) => n > 0)
      .map(([status, n]) => `${n} × ${status}`);
    const fired = [...alarms].map(([alarm, s]) => `${alarm} after ${s} s`).join(', ') || 'none';
    const row = `| ${name} | ${took} s | ${seen.join(', ')} | ${fired} |`;
    rows.push(row);
    say(row);
  };
  const killed = async (part: Part, ms: number, start = () => part.start()) => {
    await kill(part);
    await sleep(ms);
    await start();
  };
  const pair = async () => (await cluster.pairs())[0] as { master: ClusterNode; replica: ClusterNode };

  say('| Act | Lasts | Clients saw | Alarms |\n|---|---|---|---|');
  await act('nothing', () => sleep(20_000));
  await act('`kill -9` of a `serve`, up again after 5 s', () => killed(service.workers[0] as Part, 5_000));
  await act('`kill -9` of a `flush`, up again after 5 s', () => killed(service.flush, 5_000));
  await act('`cluster failover`', async () => {
    const { replica } = await pair();
    await replica.command('CLUSTER', 'FAILOVER');
    await until('roles changed', async () => (await replica.role()) === 'master', LIMIT_MS);
    await cluster.whole();
  });
  await act('`kill -9` of a master', async () => {
    const { master, replica } = await pair();
    await kill(master);
    await until('its replica took over', async () => (await replica.role()) === 'master', LIMIT_MS);
    await startNode(master);
    await cluster.whole();
  });
  await act('500 slots move', async () => {
    const [from, to] = (await cluster.pairs()).map(({ master }) => master) as [ClusterNode, ClusterNode];
    const [fromId, toId] = await Promise.all([from, to].map((node) => node.command('CLUSTER', 'MYID')));
    const how = [
      '--cluster-from',
      `${fromId}`,
      '--cluster-to',
      `${toId}`,
      '--cluster-slots',
      '500',
      '--cluster-yes',
    ];
    await promisify(execFile)('redis-cli', ['--cluster', 'reshard', `127.0.0.1:${from.port}`, ...how]);
  });
  await act('a master and its replica are away', async () => {
    const { master, replica } = await pair();
    await Promise.all([kill(master), kill(replica)]);
    await sleep(OUTAGE_MS);
    await Promise.all([startNode(master), startNode(replica)]);
    await cluster.whole();
  });
  await act('a master is at its maxmemory', async () => {
    const { master } = await pair();
    await master.command('CONFIG', 'SET', 'maxmemory', '1mb');
    await sleep(OUTAGE_MS);
    await master.command('CONFIG', 'SET', 'maxmemory', '0');
  });
  await act('ClickHouse is away', () => killed(service.clickhouse, OUTAGE_MS));
  await act('backup', async () => {
    const folder = join(await tempDir(scope), 'backup');
    const backupEnv = { REDIS_URL: as('backup'), CLICKHOUSE_URL };
    const { code, stderr } = await wishmeter({ args: ['backup', folder], env: backupEnv });
    if (code !== 0) throw new Error(stderr);
  });

  isClosed = true;
  await Promise.all(visiting);
  await load.stop();
  const { wrong, ...found } = await reconcile([load], service);
  say(`${load}\n${JSON.stringify(found)}`);
  for (const what of wrong) say(`WRONG ${what}`);
  exitCode = wrong.length === 0 ? 0 : 1;
} finally {
  for (const close of closers) await close();
}
process.exit(exitCode);
