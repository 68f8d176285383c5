// Figures for operators: docs/metrics.md has every metric that `serve` and `flush` show, and promtool finds nothing to
// say about them; each counts what it says. UPDATE_DOCS=1 writes the tables anew.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { text as readText } from 'node:stream/consumers';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { VERSION } from '../../src/http/openapi.js';
import { until } from '../cli/wishmeter.js';
import { startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';
import { startTestRedis } from '../harness/redis.js';

const DOCUMENT = new URL('../../../docs/metrics.md', import.meta.url);
const SHOPPER = { sessionId: 's', device: 'desktop' };
/** Labels of what nothing here makes happen. */
const UNSEEN: Readonly<Record<string, readonly string[]>> = {
  wishmeter_flush_insert_errors_total: ['blame'],
  wishmeter_visit_flush_insert_errors_total: ['blame'],
};

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: ReadonlySet<string>;
}

/** The metrics of a scrape that are ours. */
function metricsOf(figures: string): Metric[] {
  const types = new Map(
    Array.from(figures.matchAll(/^# TYPE (\S+) (\S+)$/gm), ([, name, type]) => [name, type]),
  );
  return Array.from(figures.matchAll(/^# HELP (wishmeter_\S+) (.*)$/gm), ([, name = '', help = '']) => {
    const labels = new Set(UNSEEN[name]);
    for (const [, own = ''] of figures.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, 'gm')))
      for (const [, label = ''] of own.matchAll(/(\w+)="/g)) if (label !== 'le') labels.add(label);
    return { name, type: types.get(name) ?? '', help, labels };
  });
}

function tableOf(metrics: readonly Metric[]): string {
  const rows = metrics
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, type, help, labels }) => {
      const named = [...labels].map((label) => `\`${label}\``).join(', ');
      return `| \`${name}\` | ${type} | ${named} | ${help} |`;
    });
  return ['| Metric | Type | Labels | |', '|---|---|---|---|', ...rows].join('\n');
}

function checkSection(t: Test, name: string, expected: string): void {
  const [open, close] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`];
  const text = readFileSync(DOCUMENT, 'utf8');
  const [from, to] = [text.indexOf(open) + open.length, text.indexOf(close)];
  if (process.env['UPDATE_DOCS']) writeFileSync(DOCUMENT, text.slice(0, from) + expected + text.slice(to));
  else t.equal(text.slice(from, to), expected, `${name}: UPDATE_DOCS=1 writes it anew`);
}

async function lint(figures: string): Promise<string> {
  const child = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  const said = Promise.all([readText(child.stdout), readText(child.stderr)]);
  const ended = once(child, 'exit');
  child.stdin.end(figures);
  const [code] = await ended;
  return `${code === 0 ? '' : `exit ${code} `}${(await said).join('')}`;
}

/** A sample by its name and labels as they are written. */
function sample(figures: string, series: string): number {
  const line = figures.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? Number.NaN : Number(line.slice(series.length + 1));
}

/** Something of everything that is counted. */
async function traffic(t: Test, app: TestApp): Promise<void> {
  const ok = async (answering: Promise<{ readonly status: number }>) =>
    t.equal((await answering).status, 200);
  const item = { productId: '1', productTitle: 'A', productHandle: 'a', image: 'https://x.example/a.png' };
  const price = { price: '1.00', compareAt: null, inventoryAvailable: true, quantity: 1 };
  for (const productHandle of ['a', 'a', 'b'])
    await ok(app.post('/product/visit', { identity: SHOPPER, productHandle }));
  const visit = { identity: SHOPPER, productHandle: 'c' };
  for (let i = 0; i < 2; i++) await ok(app.post('/product/visit', visit, { 'idempotency-key': 'once' }));
  await ok(app.post('/event', { identity: SHOPPER, type: 'moveToCart' }, TRUSTED));
  for (const productId of ['1', '2', '3'])
    await ok(app.post('/item/add', { identity: SHOPPER, ...item, ...price, productId }, TRUSTED));
  await ok(app.post('/item/remove', { identity: SHOPPER, productId: '1' }, TRUSTED));
  await ok(app.post('/item/remove', { identity: SHOPPER, productId: '1' }, TRUSTED));
  await ok(app.post('/share', { identity: SHOPPER }, TRUSTED));
  await ok(app.send('PUT', '/settings', { autoRemoveAfterPurchase: true }, TRUSTED));
  const line = (product: number) => ({ product_id: product, variant_id: null, quantity: 1, price: '1.00' });
  const order = {
    id: 7,
    currency: 'EUR',
    note_attributes: [{ name: 'wishlist_session_id', value: 's' }],
    line_items: [line(2), line(3)],
  };
  await ok(app.post('/webhook/purchase', order, TRUSTED));
  t.equal((await app.post('/event', {}, { 'x-api-key': 'wrong' })).status, 401);
  await ok(app.del('/profile', { identity: { sessionId: 's' } }, TRUSTED));
}

const COUNTED: Readonly<Record<string, number>> = {
  wishmeter_visits_counted_total: 4,
  wishmeter_visits_logged_total: 4,
  'wishmeter_visits_not_logged_total{why="full"}': 0,
  'wishmeter_events_total{type="add"}': 3,
  'wishmeter_events_total{type="remove"}': 1,
  'wishmeter_events_total{type="moveToCart"}': 1,
  'wishmeter_events_total{type="share"}': 1,
  'wishmeter_events_total{type="autoRemoveAfterPurchase"}': 2,
  'wishmeter_events_total{type="purchase"}': 2,
  wishmeter_erasures_total: 1,
  'wishmeter_http_request_duration_seconds_count{operation="post /product/visit",status_class="2xx"}': 5,
  'wishmeter_http_request_duration_seconds_bucket{le="+Inf",operation="post /event",status_class="4xx"}': 1,
  [`wishmeter_build_info{version="${VERSION}"}`]: 1,
};

t.test('metrics', needsPrograms('promtool'), async (t) => {
  const [redis, clickhouse] = await Promise.all([
    startTestRedis(),
    startTestClickHouse({ databases: ['wishmeter'] }),
  ]);
  t.teardown(() => Promise.all([redis.stop(), clickhouse.stop()]));
  const app = await startApp(t, redis, { prefix: 'wm' });
  await traffic(t, app);
  // Before flush is there to erase them.
  const waiting = sample(await app.figures(), 'wishmeter_pending_erasures');
  const lines: string[] = [];
  const config = readConfig({
    HOST: '127.0.0.1',
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
    FLUSH_INTERVAL_MS: '20',
    FLUSH_METRICS_PORT: '0',
  });
  const flushing = await flush(config, pino({}, { write: (line) => lines.push(line) }));
  t.teardown(() => flushing.close());
  const { port } = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'metrics');
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const flushed = await until('flush has brought visits and events', async () => {
    const figures = await scrape();
    const rows = ['wishmeter_flush_rows_total', 'wishmeter_visit_flush_rows_total'].map((name) =>
      sample(figures, name),
    );
    return rows.every((count) => count > 0) && figures;
  });
  // The streams' owner is read from Redis at most once a second.
  const served = await until('serve tells of flush', async () => {
    const figures = await app.figures();
    return figures.includes('wishmeter_visit_stream_owner_silent_seconds{') && figures;
  });

  t.test('each counts what it says', async (t) => {
    for (const [series, count] of Object.entries(COUNTED)) t.equal(sample(served, series), count, series);
    for (const script of ['visits', 'wishlist', 'erase-home', 'visit-once', 'command'])
      t.ok(sample(served, `wishmeter_redis_call_duration_seconds_count{script="${script}"}`) > 0, script);
    t.equal(waiting, 2, 'a profile and its identity are still to be erased from ClickHouse');
    t.ok(sample(served, 'wishmeter_event_loop_delay_seconds_count') > 0);
  });

  t.test('a histogram is one: its buckets rise to its count, and its sum is in their unit', async (t) => {
    const name = 'wishmeter_http_request_duration_seconds';
    const labels = 'operation="post /product/visit",status_class="2xx"';
    const buckets = [
      ...served.matchAll(new RegExp(`^${name}_bucket\\{le="(.+?)",${labels}\\} (\\d+)$`, 'gm')),
    ];
    t.ok(buckets.length > 5);
    const counts = buckets.map(([, , count]) => Number(count));
    t.same(
      counts,
      counts.toSorted((a, b) => a - b),
    );
    t.equal(counts.at(-1), sample(served, `${name}_count{${labels}}`));
    const sum = sample(served, `${name}_sum{${labels}}`);
    t.ok(sum > 0 && sum < 60, `${sum} s for five visits`);
  });

  t.test('no gauge has two sources: backlogs are reported by serve, owners of shards by flush', async (t) => {
    const names = [served, flushed].map((figures) => metricsOf(figures).map(({ name }) => name));
    const both = (names[0] ?? []).filter((name) => names[1]?.includes(name));
    t.same(both.toSorted(), ['wishmeter_build_info', 'wishmeter_event_loop_delay_seconds']);
    t.notMatch(flushed, /wishmeter_flush_(pending|oldest|dead)/);
    t.notMatch(served + flushed, /nodejs_(eventloop_lag|active_\w+_total)/);
  });

  t.test('promtool has nothing to say of them', async (t) => {
    t.equal(await lint(served), '', 'of serve');
    t.equal(await lint(flushed), '', 'of flush');
    t.not(await lint('# HELP x_total x\n# TYPE x_total gauge\nx_total 1\n'), '', 'it does say something');
  });

  t.test('docs/metrics.md has each', async (t) => {
    checkSection(t, 'serve', tableOf(metricsOf(served)));
    checkSection(t, 'flush', tableOf(metricsOf(flushed)));
  });
});
