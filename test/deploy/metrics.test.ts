// docs/metrics.md has every metric, alarms and panels read no others, promtool plays the alarms. UPDATE_DOCS=1 writes the tables.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { flush } from '../../src/app/flush.js';
import { readConfig } from '../../src/config.js';
import { tempDir } from '../cli/wishmeter.js';
import { sample, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { connectToClickHouse, select } from '../harness/clickhouse.js';
import { needsPrograms } from '../harness/needs.js';
import { connectTo } from '../harness/redis.js';
import { checkSection } from '../harness/sections.js';
import { startStores } from '../harness/stores.js';
import { until } from '../harness/until.js';
import { check, DEPLOY, parseYaml, redisUsers } from './programs.js';

const RULES = join(DEPLOY, 'prometheus/rules.yaml');
const CASES = join(DEPLOY, 'prometheus/rules.test.yaml');
/** Labels of metrics without a sample in this test. */
const UNSEEN: Record<string, readonly string[]> = {
  wishmeter_flush_insert_errors_total: ['blame'],
  wishmeter_visit_flush_insert_errors_total: ['blame'],
  wishmeter_http_refused_total: ['code', 'why'],
  wishmeter_receiver_oldest_due_seconds: ['receiver'],
  wishmeter_order_faults_total: ['field'],
};
for (const name of 'enabled pending_deliveries pending_bytes deliveries_total failures_total dead_letters_total'.split(
  ' ',
))
  UNSEEN[`wishmeter_receiver_${name}`] = ['receiver'];
/** Added by Prometheus, by blackbox_exporter, and by a start with WORKERS. */
const ADDED = {
  metrics: ['up', 'probe_success', 'ALERTS'],
  labels: ['job', 'instance', 'worker', 'alertname', 'alertstate', 'cause'],
};

interface Metric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: ReadonlySet<string>;
}

function metricsOf(figures: string): Metric[] {
  const typed = figures.matchAll(/^# TYPE (\S+) (\S+)$/gm);
  const types = new Map(Array.from(typed, ([, name, type]) => [name, type]));
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
      const series = labels.size === 0 ? name : `${name}{${[...labels].join(',')}}`;
      return `| \`${series}\` | ${type} | ${help} |`;
    });
  return ['| Metric | Type | |', '|---|---|---|', ...rows].join('\n');
}

function lint(figures: string): string {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: figures });
  return `${status === 0 ? '' : `exit ${status} `}${stdout}${stderr}`;
}

async function traffic(t: Test, { shop, post, send }: TestApp): Promise<void> {
  const shopper = { sessionId: 's', device: 'desktop' };
  for (const handle of ['a', 'a', 'b']) await shop.visit(shopper, handle);
  const visit = { identity: shopper, productHandle: 'c' };
  for (let i = 0; i < 2; i++)
    t.equal((await post('/product/visit', visit, { 'idempotency-key': 'once' })).status, 200);
  await shop.event(shopper, 'moveToCart');
  for (const productId of ['1', '2', '3']) await shop.add(shopper, { productId });
  for (let i = 0; i < 2; i++) await shop.remove(shopper, { productId: '1' });
  await shop.share(shopper);
  t.equal((await send('PUT', '/settings', { autoRemoveAfterPurchase: true }, TRUSTED)).status, 200);
  const line = (product: number) => ({ product_id: product, variant_id: null, quantity: 1, price: '1.00' });
  const order = {
    id: 7,
    currency: 'EUR',
    note_attributes: [{ name: 'wishlist_session_id', value: 's' }],
    line_items: [line(2), line(3)],
  };
  t.equal((await post('/webhook/purchase', order, TRUSTED)).status, 200);
  t.equal((await post('/event', {}, { 'x-api-key': 'wrong' })).status, 401);
  await shop.erase({ sessionId: 's' });
}

t.test('metrics', needsPrograms('promtool'), async (t) => {
  const { redis, clickhouse } = await startStores(t, ['wishmeter']);
  const app = await startApp(t, redis, { prefix: 'wm' });
  await traffic(t, app);
  const lines: string[] = [];
  const config = readConfig({
    HOST: '127.0.0.1',
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
    FLUSH_INTERVAL_MS: '200',
    FLUSH_METRICS_PORT: '0',
  });
  const flushing = await flush(config, pino({}, { write: (line) => lines.push(line) }));
  t.teardown(() => flushing.close());
  const { port } = lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'metrics');
  const scrape = async () => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const flushed = await until('flush has brought visits and events', async () => {
    const figures = await scrape();
    const rows = ['flush_rows_total', 'visit_flush_rows_total'].map((name) => sample(figures, name) ?? 0);
    return rows.every((count) => count > 0) && figures;
  });
  const served = await app.stats();

  t.test('promtool finds no fault in the metrics of serve and flush', async (t) => {
    t.equal(lint(served), '', 'of serve');
    t.equal(lint(flushed), '', 'of flush');
    t.not(lint('# HELP x_total x\n# TYPE x_total gauge\nx_total 1\n'), '', 'it does say something');
  });

  t.test('docs/metrics.md has every metric', async (t) => {
    checkSection(t, 'docs/metrics.md', 'serve', tableOf(metricsOf(served)));
    const ofServe = new Set(metricsOf(served).map(({ name }) => name));
    const ofFlush = metricsOf(flushed).filter(({ name }) => !ofServe.has(name));
    checkSection(t, 'docs/metrics.md', 'flush', tableOf(ofFlush));
  });

  const programs = needsPrograms('prometheus-redis-exporter', 'docker-compose');
  t.test('every metric and every label that an alarm or a panel reads exists', programs, async (t) => {
    const ofClickHouse = await clickhouseNames(t, clickhouse.url);
    const there = seriesIn([served, flushed, await redisExporter(t, redis.url)].join('\n'));
    const { rules } = alarms();
    const read = [...rules.map(({ alert, expr }) => ({ title: alert, expr })), ...panels().expressions];
    for (const { title, expr } of read) {
      const { metrics, labels } = readsOf(expr);
      t.ok(metrics.length > 0, title);
      for (const metric of metrics)
        t.ok([...ADDED.metrics, ...ofClickHouse, ...there.metrics].includes(metric), `${title}: ${metric}`);
      for (const label of labels)
        t.ok([...ADDED.labels, ...there.labels].includes(label), `${title}: ${label}`);
    }
  });
});

t.test('alarms and dashboard', needsPrograms('promtool', 'docker-compose'), async (t) => {
  const { rules, cases } = alarms();
  const { ids, expressions } = panels();

  t.test('promtool accepts the alarm rules, and their test cases pass', async (t) => {
    t.match(await check('promtool', ['check', 'rules', RULES]), { ok: true });
    t.match(await check('promtool', ['test', 'rules', CASES]), { ok: true });
  });

  t.test('each alarm has a test case that raises it, and one that does not', async (t) => {
    for (const { alert } of rules) {
      const raised = cases.flatMap(({ alertname, exp_alerts }) =>
        alertname === alert ? [exp_alerts.length > 0] : [],
      );
      t.ok(raised.includes(true), `${alert} is raised`);
      t.ok(raised.includes(false), `${alert} is not raised`);
    }
  });

  t.test('each alarm says what it means and what to do, and docs/operations.md lists them all', async (t) => {
    for (const { alert, annotations } of rules) {
      t.match(annotations, { summary: /./, shopper: /./, action: /./ }, alert);
      for (const text of [annotations['shopper'], annotations['action']])
        t.notMatch(text, /\{\{|→/, 'it stands in a list');
    }
    const lines = rules.map(({ alert, annotations, labels, for: after = 'at once' }) => {
      const when = `${after}${labels['severity'] === 'critical' ? ', **critical**' : ''}`;
      return `- ${alert} (${when}): ${annotations['shopper']} → ${annotations['action']}`;
    });
    checkSection(t, 'docs/operations.md', 'alarms', lines.join('\n'));
  });

  t.test('promtool accepts every expression of the Grafana dashboard', async (t) => {
    const rules = expressions.map(({ expr }, i) => ({ record: `panel:${i}`, expr }));
    const file = join(await tempDir(t), 'panels.yaml');
    await writeFile(file, JSON.stringify({ groups: [{ name: 'panels', rules }] })); // which is YAML, too
    const output = `${expressions.length} rules found`;
    t.match(await check('promtool', ['check', 'rules', file]), { ok: true, output });
    t.equal(new Set(ids).size, ids.length, 'each panel has an id of its own');
  });
});

function alarms() {
  interface Alarm {
    readonly alert: string;
    readonly expr: string;
    readonly for?: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  }
  interface Expected {
    readonly alertname: string;
    readonly exp_alerts: readonly unknown[];
  }
  const { groups } = parseYaml(readFileSync(RULES, 'utf8'));
  const { tests } = parseYaml(readFileSync(CASES, 'utf8'));
  return {
    rules: groups[0].rules as readonly Alarm[],
    cases: tests.flatMap((one: { alert_rule_test: Expected[] }) => one.alert_rule_test) as Expected[],
  };
}

function panels() {
  interface Panel {
    readonly id: number;
    readonly title: string;
    readonly targets?: readonly { readonly expr: string }[];
  }
  const text = readFileSync(join(DEPLOY, 'grafana/wishmeter.json'), 'utf8');
  const all: readonly Panel[] = JSON.parse(text.replaceAll('$__rate_interval', '5m')).panels;
  const expressions = all.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
  return { ids: all.map(({ id }) => id), expressions };
}

const NO_METRIC =
  /^(histogram_quantile|rate|delta|changes|max_over_time|sum|max|min|avg|count|or|and|unless|group_left)$/;

/** What a PromQL expression reads. Not a parser: it takes away what is no metric, and what is left must be. */
function readsOf(expression: string) {
  const labels: string[] = [];
  const bare = expression
    .replace(/\b(?:by|without|on|ignoring|group_left|group_right) *\(([^)]*)\)/g, (_, list: string) => {
      labels.push(...list.split(',').map((label) => label.trim()));
      return ' ';
    })
    .replace(/\{([^}]*)\}/g, (_, matchers: string) => {
      for (const [, label = ''] of matchers.matchAll(/(\w+) *(?:=~|!~|!=|=)/g)) labels.push(label);
      return ' ';
    })
    .replace(/\[[^\]]*\]/g, ' ');
  const words = bare.match(/[A-Za-z_:][\w:]*/g) ?? [];
  return { metrics: words.filter((word) => !NO_METRIC.test(word)), labels: labels.filter(Boolean) };
}

/** Also metrics that have no sample yet: errors of inserts, say. */
function seriesIn(scrape: string) {
  const names = Array.from(scrape.matchAll(/^# TYPE (\w+) (\w+)$/gm), ([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  );
  const labels = Array.from(scrape.matchAll(/[{,](\w+)="/g), ([, label = '']) => label);
  return { metrics: names.flat(), labels: [...new Set([...labels, ...Object.values(UNSEEN).flat()])] };
}

async function redisExporter(t: Test, url: string): Promise<string> {
  const port = await freePort();
  const address = `unix://${new URL(url).searchParams.get('path')}`;
  const [line = []] = redisUsers(/^exporter$/, 'secret');
  await connectTo(t, url).call('ACL', 'SETUSER', ...line);
  const as = ['--redis.user', 'exporter', '--redis.password', 'secret'];
  const args = ['--redis.addr', address, ...as, '--web.listen-address', `127.0.0.1:${port}`];
  const child = spawn('prometheus-redis-exporter', args, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return await until('redis_exporter has figures', async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined);
    const text = (await answer?.text()) ?? '';
    return /^redis_up 1$/m.test(text) && text;
  });
}

/** Names as ClickHouse's `prometheus` endpoint spells them, from the tables behind it. */
async function clickhouseNames(t: Test, url: string): Promise<string[]> {
  const query = `SELECT 'ClickHouseMetrics_' || metric AS name FROM system.metrics
    UNION ALL SELECT 'ClickHouseProfileEvents_' || event FROM system.events SETTINGS system_events_show_zero_values = 1`;
  return (await select<{ name: string }>(connectToClickHouse(t, url), query)).map(({ name }) => name);
}
