// The README says what is: its tables are those of the code, and its console lines work as they stand.
// UPDATE_README=1 writes the tables anew.

import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { SETTINGS } from '../src/config.js';
import { KEY, startApp } from './harness/app.js';
import { startTestRedis } from './harness/redis.js';

const README = new URL('../../README.md', import.meta.url);
const readme = readFileSync(README, 'utf8');
const exec = promisify(execFile);

function table(head: string, rows: readonly (readonly string[])[]): string {
  const rule = head.replace(/[^|]+/g, '---');
  return [head, rule, ...rows.map((cells) => `| ${cells.join(' | ')} |`)].join('\n');
}

/** Compares what stands between the markers `<!-- name -->` with what should; or puts it there. */
function checkSection(t: Test, name: string, expected: string) {
  const [open, close] = [`<!-- ${name} -->\n`, `\n<!-- /${name} -->`];
  const text = readFileSync(README, 'utf8');
  const [from, to] = [text.indexOf(open) + open.length, text.indexOf(close)];
  if (process.env['UPDATE_README']) writeFileSync(README, text.slice(0, from) + expected + text.slice(to));
  else t.equal(text.slice(from, to), expected, `${name}: UPDATE_README=1 writes it anew`);
}

t.test('the table of settings is that of the code', async (t) => {
  const rows = Object.entries(SETTINGS).map(([name, { fallback, about }]) => [
    `\`${name}\``,
    fallback === '' ? '' : `\`${fallback}\``,
    about,
  ]);
  checkSection(t, 'settings', table('| Setting | Default | What it does |', rows));
});

t.test('the table of packages is that of package.json', async (t) => {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const names = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
  for (const name of names) t.ok(readme.includes(`| \`${name}\``), name);
});

t.test('with a service', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  // Its default follows PORT, which is any free one here.
  const app = await startApp(t, redis, { env: { SHOP_URL: SETTINGS.SHOP_URL.fallback } });

  t.test('the table of operations is that of the API', async (t) => {
    const { paths } = (await app.get('/openapi.json')).json;
    const rows: string[][] = [];
    for (const [path, methods] of Object.entries<Record<string, Described>>(paths)) {
      for (const [method, { summary, security }] of Object.entries(methods)) {
        rows.push([method.toUpperCase(), path, summary, callers(security)]);
      }
    }
    checkSection(t, 'operations', table('| | | Does | Who |', rows));
  });

  t.test('every curl line answers as it says', async (t) => {
    let lines = 0;
    for (const [, block = ''] of readme.matchAll(/^```console\n(.*?)^```/gms)) {
      for (const step of block.split(/^\$ /m)) {
        const [command = '', ...rest] = step.split('\n');
        if (!command.startsWith('curl')) continue;
        const expected = rest.join('\n').trim();
        const here = command.replaceAll('http://localhost:8080', `http://127.0.0.1:${app.port}`);
        const { stdout } = await exec('bash', ['-c', here.replace(/^curl/, 'curl --silent')], {
          env: { ...process.env, KEY, CODE: shareCode },
        });
        shareCode = /"code":"([^"]+)"/.exec(stdout)?.[1] ?? shareCode;
        if (process.env['UPDATE_README'])
          writeFileSync(
            README,
            readFileSync(README, 'utf8').replace(`\n${expected}\n`, `\n${stdout.trim()}\n`),
          );
        else t.equal(masked(stdout), masked(expected), command);
        lines++;
      }
    }
    t.ok(lines >= 3, `${lines} lines`);
  });
});

let shareCode = '';

interface Described {
  readonly summary: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
}

function callers(security: Described['security']): string {
  if (security.length === 0) return 'everyone';
  if (security.some((way) => 'metricsToken' in way)) return 'everyone, or who has `METRICS_TOKEN`';
  const who = ['server'];
  if (security.some((way) => 'proxySignature' in way)) who.push('storefront');
  if (security.some((way) => 'publishableKey' in way)) who.push('browser');
  if (security.some((way) => 'webhookSignature' in way)) who.push('Shopify');
  if (security.some((way) => Object.keys(way).length === 0)) who.push('anyone, as `VISIT_ACCESS` says');
  return who.join(', ');
}

/** Ids, codes and times are others each time; everything else is not. */
function masked(text: string): string {
  return text
    .replace(/"(profileId|itemId)":"[^"]+"/g, '"$1":"…"')
    .replace(/"(code|shareCode)":"[A-Za-z0-9_-]{8,}"/g, '"$1":"…"')
    .replace(/\/wishlist\/share\/[A-Za-z0-9_-]+/g, '/wishlist/share/…')
    .replace(/"(addedAt|updatedAt)":"[^"]+"/g, '"$1":"…"')
    .trim();
}
