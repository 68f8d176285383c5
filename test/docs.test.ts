// README.md and docs/ agree with the code: tables, curl lines, links, kinds of keys and columns.
// UPDATE_DOCS=1 writes tables and answers.

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { VISITOR_TABLES } from '../src/clickhouse/erase.js';
import { loadMigrations } from '../src/clickhouse/migrate.js';
import { SETTING_GROUPS, SETTINGS } from '../src/config.js';
import { createKeys } from '../src/redis/keys.js';
import { KEY, startApp } from './harness/app.js';
import { startTestClickHouse } from './harness/clickhouse.js';
import { keysOfExtras } from './harness/extras.js';
import { operationsOf } from './harness/operations.js';
import { startTestRedis } from './harness/redis.js';
import { checkSection, UPDATE } from './harness/sections.js';

/**
 * Run in this order: the answers in the second file are those of a service that got the requests of the
 * first.
 */
const WITH_CURL_LINES = ['README.md', 'docs/api.md'];
const exec = promisify(execFile);

t.test('README.md has fewer than 900 words', async (t) => {
  const words = readFileSync('README.md', 'utf8').split(/\s+/).length;
  t.ok(words < 900, `${words} words`);
});

const DOCUMENTS = ['.', 'docs', 'docs/shopify', 'deploy', 'bench', 'test'].flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name)),
);

t.test('every link and file that a document names exists', async (t) => {
  for (const file of DOCUMENTS) {
    const text = readFileSync(file, 'utf8');
    for (const [, path = '', anchor] of text.matchAll(/\]\(([^)#:\s]*)(#[^)]*)?\)/g)) {
      const target = path === '' ? file : join(dirname(file), path);
      t.ok(existsSync(target), `${file}: ${target}`);
      if (anchor) t.ok(headings(target).has(anchor), `${file}: ${target}${anchor}`);
    }
    for (const [, path = ''] of text.matchAll(/`((?:src|lua|test|bench|deploy|docs)\/[\w./-]+\.\w+)`/g))
      t.ok(existsSync(path), `${file}: ${path}`);
  }
});

t.test('docs/settings.md lists the settings of the code', async (t) => {
  for (const [group, settings] of Object.entries(SETTING_GROUPS)) {
    const lines = Object.entries(settings).map(([name, { fallback, about }]) =>
      fallback === '' ? `- \`${name}\`: ${about}` : `- \`${name}=${fallback}\`: ${about}`,
    );
    checkSection(t, 'docs/settings.md', group, lines.join('\n'));
  }
});

t.test('docs/architecture.md lists the packages of package.json', async (t) => {
  const architecture = readFileSync('docs/architecture.md', 'utf8');
  const manifest = JSON.parse(readFileSync('package.json', 'utf8'));
  const names = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
  for (const name of names) t.ok(architecture.includes(`- \`${name}\``), name);
});

t.test('documents about a running service', async (t) => {
  const redis = await startTestRedis(t);
  const clickhouse = await startTestClickHouse(t, { databases: [SETTINGS.CLICKHOUSE_DATABASE.fallback] });
  // SHOP_URL's default depends on PORT, and this test has any free port.
  const env = { CLICKHOUSE_URL: clickhouse.url, SHOP_URL: SETTINGS.SHOP_URL.fallback };
  const app = await startApp(t, redis, { env });

  t.test('docs/api.md lists the operations by their callers, as the API has them', async (t) => {
    const { paths } = (await app.get('/openapi.json')).json;
    const byCaller = new Map<string, string[]>();
    for (const [path, methods] of Object.entries<Record<string, Described>>(paths)) {
      for (const [method, { summary, security }] of Object.entries(methods)) {
        const who = callers(security);
        const line = `- \`${method.toUpperCase()} ${path}\`: ${summary}`;
        byCaller.set(who, [...(byCaller.get(who) ?? []), line]);
      }
    }
    const lists = [...byCaller].map(([who, operations]) => `**${who}**\n\n${operations.join('\n')}`);
    checkSection(t, 'docs/api.md', 'operations', lists.join('\n\n'));
  });

  t.test(
    'docs/api.md says under "Sending again" which operations take, ignore and refuse an Idempotency-Key',
    async (t) => {
      const [, section = ''] =
        /^## Sending again\n(.*?)^## /ms.exec(readFileSync('docs/api.md', 'utf8')) ?? [];
      const documented = new Map<string, string>();
      for (const [i, list] of section.split(/^These (?:ignore|refuse) a key.*:$/m).entries())
        for (const [, name = ''] of list.matchAll(/`([A-Z]+ \/[^`]+)`/g))
          documented.set(name, ['takes', 'ignores', 'refuses'][i] as string);
      const operations = (await operationsOf(app)).filter(({ method }) => method !== 'GET');
      const uses = operations.map(({ name, takesKey, ignoresKey }) => [
        name,
        takesKey ? 'takes' : ignoresKey ? 'ignores' : 'refuses',
      ]);
      t.same([...documented].sort(), uses.sort());
    },
  );

  t.test('every curl line of the documents has the printed answer', async (t) => {
    for (const file of WITH_CURL_LINES) {
      let lines = 0;
      for (const [, block = ''] of readFileSync(file, 'utf8').matchAll(/^```console\n(.*?)^```/gms)) {
        for (const step of block.split(/^\$ /m)) {
          const [command = '', ...rest] = step.split('\n');
          if (!command.startsWith('curl')) continue;
          const expected = rest.join('\n').trim();
          const answer = await run(command, app.port);
          const isRight = masked(answer) === masked(expected);
          if (UPDATE && !isRight)
            replace(file, `${command}\n${expected}\n`, `${command}\n${withIdsOf(expected, answer)}\n`);
          else t.equal(masked(answer), masked(expected), command);
          lines++;
        }
      }
      t.ok(lines >= 3, `${file}: ${lines} lines`);
    }
  });
});

async function run(command: string, port: number): Promise<string> {
  const here = command.replaceAll('http://localhost:8080', `http://127.0.0.1:${port}`);
  const env = { ...process.env, KEY };
  const { stdout } = await exec('bash', ['-c', here.replace(/^curl/, 'curl --silent')], { env });
  return stdout.trim();
}

function replace(file: string, what: string, by: string) {
  const text = readFileSync(file, 'utf8').replace(what, () => by);
  writeFileSync(file, text);
}

/** Anchors of a document's headings, as GitHub makes them. */
function headings(file: string): Set<string> {
  const lines = readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gm);
  const titles = Array.from(lines, ([, title = '']) => title.toLowerCase().replace(/[^\w\- ]/g, ''));
  return new Set(titles.map((title) => `#${title.replaceAll(' ', '-')}`));
}

interface Described {
  readonly summary: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
}

function callers(security: Described['security']): string {
  if (security.length === 0) return 'everyone';
  if (security.some((way) => 'metricsToken' in way)) return 'everyone, or by `METRICS_TOKEN`';
  const who: string[] = [];
  if (security.some((way) => 'proxySignature' in way)) who.push('storefront');
  if (security.some((way) => 'publishableKey' in way)) who.push('browser');
  if (security.some((way) => 'webhookSignature' in way)) who.push('Shopify');
  if (security.some((way) => Object.keys(way).length === 0)) who.push('anyone');
  return who.join(', ') || 'server';
}

/** Ids, codes and times differ from run to run; everything else is the same. */
const OF_THIS_TIME =
  /(?<="(?:profileId|itemId|addedAt|updatedAt)":")[^"]+|(?<="(?:code|shareCode)":")[A-Za-z0-9_-]{8,}(?=")|(?<=\/wishlist\/share\/)[A-Za-z0-9_-]+/g;

function masked(text: string): string {
  return text.replace(OF_THIS_TIME, '…').trim();
}

/** An answer with the ids of the document, because its later answers use these ids. */
function withIdsOf(expected: string, answer: string): string {
  const known = expected.match(OF_THIS_TIME) ?? [];
  let i = 0;
  return answer.replace(OF_THIS_TIME, (found) => known[i++] ?? found);
}

const [ofRedis = '', ofClickHouse = ''] = readFileSync('docs/privacy.md', 'utf8').split('## ClickHouse');
const namesOf = (text: string) => Array.from(text.matchAll(/`(\w+)`/g), ([, name = '']) => name);
const entriesOf = (text: string) =>
  Array.from(text.matchAll(/^- (`\w+`(?:, `\w+`)*)[^:\n]*: (.+)/gm), ([, names = '', rest = '']) => ({
    names: namesOf(names),
    rest,
  }));

function schema(): Map<string, Set<string>> {
  const tables = new Map<string, Set<string>>();
  for (const { sql } of loadMigrations()) {
    for (const [, name = '', body = ''] of sql.matchAll(
      /CREATE TABLE IF NOT EXISTS \{database\}\.(\w+)(?:\{local\})? \{on_cluster\}\s*\(\n(.*?)\n\)/gs,
    )) {
      const columns = [...body.matchAll(/^ {4}([a-z_]+) [A-Z]/gm)].map(([, column = '']) => column);
      tables.set(name, new Set(columns));
    }
    for (const [, name = '', body = ''] of sql.matchAll(
      /ALTER TABLE \{database\}\.(\w+)(?:\{local\})?(.*?);/gs,
    ))
      for (const [, column = ''] of body.matchAll(/ADD COLUMN (?:IF NOT EXISTS )?(\w+)/g))
        tables.get(name)?.add(column);
  }
  return tables;
}

t.test('docs/privacy.md lists every kind of key', async (t) => {
  const [, ofNobody = ''] = /^No visitor's data is in (.*?)\n\n/ms.exec(ofRedis) ?? [];
  const listed = [...namesOf(ofNobody), ...entriesOf(ofRedis).flatMap(({ names }) => names)];
  // Kinds that contain other kinds; these have entries of their own.
  const keys = createKeys('wm');
  const kinds = Object.keys(keys).filter((kind) => !['prefix', 'allOf'].includes(kind));
  for (const keysOf of await keysOfExtras()) kinds.push(...Object.keys(keysOf(keys)));
  t.same(listed.sort(), kinds.sort());
});

t.test('docs/privacy.md lists every column of every table', async (t) => {
  const listed = entriesOf(ofClickHouse).map(({ names: [name], rest }) => [name, namesOf(rest).sort()]);
  const there = [...schema()].map(([name, columns]) => [name, [...columns].sort()]);
  t.ok(there.length >= 2, 'the migrations were read');
  t.same(listed.sort(), there.sort());
});

t.test('an erasure deletes from every table with rows of visitors', async (t) => {
  const ofVisitors = [...schema()]
    .filter(([, columns]) => ['profile_id', 'old_id', 'visitor', 'old'].some((name) => columns.has(name)))
    .map(([name]) => name);
  t.same(VISITOR_TABLES.map(({ name }) => name).sort(), ofVisitors.sort());
});
