// The process of the embedded ClickHouse: its start, its end, and what is left after each kind of end.

import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type EmbeddedClickHouse, startClickHouse } from '../../src/embedded/clickhouse.js';
import { forFetch } from '../harness/clickhouse.js';
import { until } from '../harness/until.js';
import { groupIsAlive, kill9, outsideAddress, startParent } from './processes.js';

const root = await mkdtemp(join(tmpdir(), 'wm-embedded-clickhouse-'));
t.teardown(() => rm(root, { recursive: true, force: true }));
let folders = 0;
const freshDir = () => join(root, String(++folders));

async function ask(url: string, sql: string, params: Record<string, string> = {}): Promise<string> {
  const { origin, headers } = forFetch(url);
  const query = new URLSearchParams(params);
  const answer = await fetch(`${origin}/?${query}`, { method: 'POST', body: sql, headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text.trimEnd();
}

const TABLE = `CREATE TABLE wishmeter.t (id UInt32) ENGINE = MergeTree ORDER BY id
  SETTINGS non_replicated_deduplication_window = 100`;

/** Queries that run now, this one among them. */
const RUNNING = 'SELECT count() FROM system.processes';

t.test('from one start to the next', async (t) => {
  const dir = freshDir();
  const token = { insert_deduplication_token: 'once' };
  const insertTwo = (url: string) => ask(url, 'INSERT INTO wishmeter.t VALUES (1), (2)', token);

  await t.test('it listens on loopback only, and a second one in its folder is refused', async (t) => {
    const clickhouse = await startClickHouse({ dir });
    t.equal(new URL(clickhouse.url).hostname, '127.0.0.1');
    const outside = outsideAddress();
    if (outside) await t.rejects(fetch(`http://${outside}:${new URL(clickhouse.url).port}/ping`));
    await t.rejects(startClickHouse({ dir }), {
      name: 'StartupError',
      message:
        /^ClickHouse did not start: exit code 1: [^|]*Another server instance [^|]+ already running[^|]+\| Failed to create connection [^|]+\.$/,
    });
    await ask(clickhouse.url, 'CREATE DATABASE wishmeter');
    await ask(clickhouse.url, TABLE);
    await insertTwo(clickhouse.url);
    await stopsAfterItsQuery(t, clickhouse);
  });

  await t.test('after a restart all rows are there, and a token is still known', async (t) => {
    const clickhouse = await startClickHouse({ dir });
    t.equal(await ask(clickhouse.url, 'SELECT count() FROM wishmeter.t'), '2');
    await insertTwo(clickhouse.url);
    t.equal(await ask(clickhouse.url, 'SELECT count() FROM wishmeter.t'), '2');
    await losesNothingKilled(t, clickhouse);
    await clickhouse.stop();
  });
});

/** A query that runs when it is stopped ends well, and a new one is not taken. */
async function stopsAfterItsQuery(t: Test, clickhouse: EmbeddedClickHouse): Promise<void> {
  const running = ask(clickhouse.url, 'SELECT sleep(1.5)');
  // One that has only begun to come would be refused.
  await until('it runs', async () => (await ask(clickhouse.url, RUNNING)) === '2');
  const stopping = clickhouse.stop();
  t.equal(await running, '0');
  await stopping;
  await t.rejects(ask(clickhouse.url, 'SELECT 1'));
}

/** kill -9 loses no acknowledged insert; it comes back on its port, with its tokens. */
async function losesNothingKilled(t: Test, clickhouse: EmbeddedClickHouse): Promise<void> {
  const { url } = clickhouse;
  const FIRST = 10;
  let acknowledged = FIRST;
  const insert = (i: number) =>
    ask(url, `INSERT INTO wishmeter.t VALUES (${i})`, { insert_deduplication_token: String(i) });
  const inserting = (async () => {
    for (;;) {
      await insert(acknowledged + 1);
      acknowledged++;
    }
  })();
  await until('some are acknowledged', () => acknowledged >= FIRST + 20);
  const first = clickhouse.pid ?? 0;
  process.kill(first, 'SIGKILL');
  await t.rejects(inserting);

  await until('another one is there', () => clickhouse.pid !== undefined && clickhouse.pid !== first);
  await until('it answers again', () => ask(url, 'SELECT 1').catch(() => false as const));
  const counted = `SELECT count() FROM wishmeter.t WHERE id > ${FIRST} AND id <= ${acknowledged}`;
  t.equal(await ask(url, counted), String(acknowledged - FIRST));
  const copies = (id: number) => ask(url, `SELECT count() FROM wishmeter.t WHERE id = ${id}`);
  await insert(acknowledged);
  t.equal(await copies(acknowledged), '1');
  // The insert that got no answer may be sent again, too. Killed between its token and its row, ClickHouse then takes
  // it for a duplicate: `flush` looks for its rows (src/clickhouse/stored.ts).
  await insert(acknowledged + 1);
  t.match(await copies(acknowledged + 1), /^[01]$/);
}

t.test('a folder that it can not use, and a taken port, are refused with the reason', async (t) => {
  const dir = freshDir();
  await mkdir(dir);
  await writeFile(join(dir, 'config'), 'a file where a folder has to be');
  await t.rejects(startClickHouse({ dir }), {
    name: 'StartupError',
    message: `ClickHouse did not start: exit code 1: EEXIST: file already exists, mkdir '${dir}/config'.`,
  });
  const other = createServer().listen(0, '127.0.0.1');
  t.teardown(() => other.close());
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  await t.rejects(startClickHouse({ dir: freshDir(), port }), {
    name: 'StartupError',
    message: `Port ${port} of 127.0.0.1 is taken; set another CLICKHOUSE_PORT.`,
  });
});

t.test('kill -9 of the parent leaves nothing running after the last query', async (t) => {
  const dir = freshDir();
  const { parent, pid, url } = await startParent('clickhouse', dir);
  await ask(url, 'CREATE DATABASE wishmeter');
  const last = ask(url, 'SELECT sum(sleepEachRow(1)) FROM numbers(3) SETTINGS max_block_size = 1');
  await until('it runs', async () => (await ask(url, RUNNING)) === '2');
  await kill9(parent);
  const next = await startClickHouse({ dir });
  t.equal(await last, '0');
  t.equal(await ask(next.url, "SELECT count() FROM system.databases WHERE name = 'wishmeter'"), '1');
  await until('it is gone', () => !groupIsAlive(pid));
  await next.stop();
});
