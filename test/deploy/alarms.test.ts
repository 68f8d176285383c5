// Alarms and dashboard: what they read is there. promtool checks the rules and plays their cases; then every metric and
// label that a rule or a panel names is looked for in the figures of a `serve`, a `flush`, redis_exporter and ClickHouse.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { logLines, sql } from '../cli/started.js';
import { runWishmeter, tempDir, until } from '../cli/wishmeter.js';
import { needsPrograms } from '../harness/needs.js';
import { startStores } from '../harness/stores.js';
import { readsOf } from './expressions.js';
import { check, DEPLOY, parseYaml } from './programs.js';

const RULES = join(DEPLOY, 'prometheus/rules.yaml');
const CASES = join(DEPLOY, 'prometheus/rules.test.yaml');
const DASHBOARD = join(DEPLOY, 'grafana/wishmeter.json');
const OPERATIONS = new URL('../../../docs/operations.md', import.meta.url);
const KEY = 'sk_a-key-for-this-test';
const METRICS_TOKEN = 'metrics-token-0123456789';
/** What Prometheus itself adds. */
const PROMETHEUS = ['up'];
const TARGET_LABELS = ['job', 'instance'];
/** Of a start with WORKERS. */
const SERVE_LABELS = ['worker'];

interface Rule {
  readonly alert: string;
  readonly expr: string;
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

t.test('metrics and labels of an expression', async (t) => {
  t.same(
    readsOf(
      'histogram_quantile(0.99, sum by (le, script) (rate(a_seconds_bucket{code=~"x|y", job!="z"}[5m]))) > 0.1 or b:c unless on (shard) d',
    ),
    { metrics: ['a_seconds_bucket', 'b:c', 'd'], labels: ['le', 'script', 'shard', 'code', 'job'] },
  );
  t.same(
    readsOf('unknown_function(a)').metrics,
    ['unknown_function', 'a'],
    'what is not known is held to be a metric',
  );
});

const programs = needsPrograms('promtool', 'prometheus-redis-exporter', 'docker-compose');

t.test('alarms and dashboard', programs, async (t) => {
  const rules: readonly Rule[] = parseYaml(readFileSync(RULES, 'utf8')).groups[0].rules;
  const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(readFileSync(DASHBOARD, 'utf8'));
  const shown = dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ title, expr: expr.replaceAll('$__rate_interval', '5m') })),
  );

  t.test('promtool takes the rules, and each case ends as it says', async (t) => {
    for (const args of [
      ['check', 'rules', RULES],
      ['test', 'rules', CASES],
    ]) {
      const { ok, output } = await check('promtool', args);
      t.ok(ok, ok ? 'taken' : output);
    }
  });

  t.test('each alarm has a case in which it is raised, and one in which it is not', async (t) => {
    interface Expected {
      readonly alertname: string;
      readonly exp_alerts: readonly unknown[];
    }
    const { tests } = parseYaml(readFileSync(CASES, 'utf8'));
    const expected: Expected[] = tests.flatMap((one: { alert_rule_test: Expected[] }) => one.alert_rule_test);
    for (const { alert } of rules) {
      const of = expected.filter(({ alertname }) => alertname === alert);
      t.ok(
        of.some(({ exp_alerts }) => exp_alerts.length > 0),
        `${alert} is raised`,
      );
      t.ok(
        of.some(({ exp_alerts }) => exp_alerts.length === 0),
        `${alert} is not raised`,
      );
    }
  });

  t.test("every metric of docs/operations.md's table of alarms has a rule", async (t) => {
    const table = /\| Alarm on \|.*?\n\n/s.exec(readFileSync(OPERATIONS, 'utf8'))?.[0] ?? '';
    // `wishmeter_visit_stream_…` stands for a family.
    const named = [...new Set(table.match(/\bwishmeter_\w+(?!…)\b/g))].filter((name) => !name.endsWith('_'));
    t.ok(named.length > 5);
    const text = rules.map(({ expr }) => expr).join('\n');
    for (const name of named) t.match(text, new RegExp(`\\b${name}(_bucket)?\\b`));
  });

  t.test('promtool takes every expression of the dashboard', async (t) => {
    const records = shown.map(
      ({ expr }, i) => `      - record: panel:${i}\n        expr: ${JSON.stringify(expr)}`,
    );
    const file = join(await tempDir(t), 'panels.yaml');
    await writeFile(file, `groups:\n  - name: panels\n    rules:\n${records.join('\n')}\n`);
    const { ok, output } = await check('promtool', ['check', 'rules', file]);
    t.ok(ok, ok ? 'taken' : output);
    t.match(output, `${shown.length} rules found`);
    const ids = dashboard.panels.map(({ id }) => id);
    t.equal(new Set(ids).size, ids.length, 'each panel has an id of its own');
  });

  t.test('every metric and every label that they read is there', async (t) => {
    const figures = await liveFigures(t);
    const there = (metric: string) => PROMETHEUS.includes(metric) || figures.names.has(metric);
    for (const { what, expr } of [
      ...rules.map(({ alert, expr }) => ({ what: alert, expr })),
      ...shown.map(({ title, expr }) => ({ what: title, expr })),
    ]) {
      const { metrics, labels } = readsOf(expr);
      t.ok(metrics.length > 0, what);
      for (const metric of metrics) t.ok(there(metric), `${what}: ${metric}`);
      const known = metrics.flatMap((metric) => [...(figures.names.get(metric) ?? [])]);
      for (const label of labels)
        t.ok(
          [...TARGET_LABELS, ...SERVE_LABELS, ...known].includes(label),
          `${what}: ${label} of ${metrics}`,
        );
    }
  });
});

/** Samples by name, each with its labels, of all that is scraped, after some traffic. */
async function liveFigures(t: Test): Promise<{ readonly names: Map<string, Set<string>> }> {
  const stores = await startStores(t, ['wishmeter']);
  const { redis, clickhouse } = stores;
  const env = {
    ...stores.env,
    API_KEYS: KEY,
    METRICS_TOKEN,
    REDIS_TIMEOUT_MS: '900',
    FLUSH_METRICS_PORT: String(await freePort()),
  };
  const [serving] = ['serve', 'flush'].map((command) => runWishmeter(t, { args: [command], env }));
  const { port } = await until('serve serves', () =>
    logLines(serving?.stdout() ?? '').find(({ msg }) => msg === 'serving'),
  );
  const url = `http://127.0.0.1:${port}`;
  const post = async (path: string, body: object, key: string) => {
    const headers = { 'content-type': 'application/json', 'x-api-key': key };
    return (await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })).status;
  };
  const identity = { sessionId: 's' };
  t.equal(await post('/product/visit', { identity, productHandle: 'x' }, KEY), 200);
  t.equal(await post('/event', { identity, type: 'add' }, KEY), 200);
  t.equal(await post('/event', { identity, type: 'add' }, 'sk_no-such-key-00000'), 401);
  await until('the event is in ClickHouse', async () => {
    return (await sql(clickhouse.url, 'SELECT count() FROM events')) === '1';
  });
  const scrape = async (at: string) => {
    const answer = await fetch(at, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
    return answer.ok ? await answer.text() : '';
  };
  const own = await Promise.all([
    // The streams' owner is read from Redis at most once a second.
    until('serve tells of flush', async () => {
      const text = await scrape(`${url}/metrics`);
      return text.includes('wishmeter_stream_owner_silent_seconds{') && text;
    }),
    scrape(`http://127.0.0.1:${env.FLUSH_METRICS_PORT}/metrics`),
    redisExporter(t, redis.url),
  ]);
  return { names: new Map([...samples(own.join('\n')), ...(await clickhouseNames(clickhouse.url))]) };
}

function samples(text: string): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  // A metric that has no sample yet is there by its type: errors of inserts, say.
  for (const [, name = '', type] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
    const suffixes = type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    for (const suffix of suffixes) names.set(name + suffix, new Set(LABELS_UNSEEN[name] ?? []));
  }
  for (const [, name = '', labels = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    const seen = names.get(name) ?? new Set();
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) seen.add(label);
    names.set(name, seen);
  }
  return names;
}

/** Labels of counters that count nothing here. */
const LABELS_UNSEEN: Readonly<Record<string, readonly string[]>> = {
  wishmeter_flush_insert_errors_total: ['blame'],
  wishmeter_visits_not_logged_total: ['why'],
};

async function redisExporter(t: Test, url: string): Promise<string> {
  const port = await freePort();
  const address = url.startsWith('redis+unix') || url.includes('path=') ? socketOf(url) : url;
  const args = ['--redis.addr', address, '--web.listen-address', `127.0.0.1:${port}`];
  const child = spawn('prometheus-redis-exporter', args, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return await until('redis_exporter answers', async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`).catch(() => undefined);
    return answer?.ok && (await answer.text());
  });
}

function socketOf(url: string): string {
  return `unix://${new URL(url).searchParams.get('path')}`;
}

/** As its `prometheus` endpoint spells them, from the tables that it shows there. */
async function clickhouseNames(url: string): Promise<[string, Set<string>][]> {
  const names = await sql(
    url,
    `SELECT 'ClickHouseMetrics_' || metric FROM system.metrics
     UNION ALL SELECT 'ClickHouseProfileEvents_' || event FROM system.events SETTINGS system_events_show_zero_values = 1`,
  );
  return names.split('\n').map((name) => [name, new Set()]);
}
