// Our import and lint rules find planted violations: a mistyped rule would never fail. Also rules for Lua
// scripts, and for what the core may spell.

import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { FLUSH_SETTINGS, IDENTITY_SETTINGS, SERVE_SETTINGS } from '../src/app/settings.js';
import * as SETTINGS_OF_EXTRAS from '../src/extras/settings.js';
import { createKeys } from '../src/redis/keys.js';
import { LUA } from '../src/redis/lua-codes.js';
import { loadScript } from '../src/redis/scripts.js';
import { tempDir } from './cli/wishmeter.js';
import { keysOfExtras } from './harness/extras.js';
import { scriptNames } from './harness/lua.js';

function outputOf(cwd: string, program: string, ...args: string[]): Promise<string> {
  return new Promise((done) => {
    execFile(resolve('node_modules/.bin', program), args, { cwd }, (_, stdout, stderr) =>
      done(stdout + stderr),
    );
  });
}

const asTest = (assertion: string) => `import t from 'tap';
const began = performance.now();
const ms = performance.now() - began;
const row = 5;
t.test('a test', async (t) => {
  ${assertion};
});
`;
const asTitle = (title: string) => `import t from 'tap';
t.test(${title}, async () => {});
`;
const asConstant = (value: string) => `export const value = ${value};\n`;
const PROCESS = 'export const pid = process.pid;\n';
const IMPORTED = "export { pid } from 'node:process';\n";

/** Rules of dependency-cruiser: rule, file, source. */
const IMPORTS: readonly (readonly [string, string, string])[] = [
  ['visits-imports-only-down', 'src/visits/p1.ts', "import '../wishlist/items.js';"],
  ['events-imports-only-down', 'src/events/p11.ts', "import '../visits/visit-batch.js';"],
  ['profiles-imports-only-down', 'src/profiles/p12.ts', "import type {} from '../events/row.js';"],
  ['http-imports-only-down', 'src/http/p13.ts', "import type {} from '../profiles/visitors.js';"],
  ['validation-imports-only-down', 'src/validation/p14.ts', "import '../http/access.js';"],
  ['redis-imports-only-down', 'src/redis/p2.ts', "import type {} from '../app/serve.js';"],
  ['flush-imports-only-down', 'src/flush/p3.ts', "import '../visits/visit-batch.js';"],
  ['errors-import-nothing', 'src/errors.ts', "import 'node:os';"],
  ['no-circles', 'src/redis/p4.ts', "import './p5.js';"],
  ['every-file-has-a-layer', 'src/http/p6.ts', "import '../utils.js';"],
  ['embedded-stays-behind-its-url', 'src/redis/p7.ts', "import '../extras/embedded/redis.js';"],
  ['src-needs-no-tests', 'src/redis/p8.ts', "import '../../test/harness/redis.js';"],
  ['src-needs-no-dev-dependencies', 'src/redis/p9.ts', "import { test } from 'tap';"],
  ['imports-resolve', 'src/redis/p10.ts', "import './nowhere.js';"],
];
const IMPORTED_FILES = [
  'http/access',
  'app/serve',
  'visits/visit-batch',
  'wishlist/items',
  'events/row',
  'profiles/visitors',
  'extras/embedded/redis',
  'utils',
];

/** Rules of biome: sources that the rule refuses, and sources that it accepts. */
const LINT: readonly {
  rule: RegExp;
  folder: string;
  refused: readonly string[];
  accepted: readonly string[];
}[] = [
  {
    rule: /lint\/style\/noRestricted(Globals|Imports)/,
    folder: 'src/visits',
    refused: [PROCESS, IMPORTED],
    accepted: [],
  },
  { rule: /lint/, folder: 'src/extras/embedded', refused: [], accepted: [PROCESS, IMPORTED] },
  {
    rule: /plugin/,
    folder: 'test',
    refused: [
      't.ok(performance.now() - began < 200)',
      't.ok(2_000 >= ms)',
      "t.equal(ms < 200, true, 'soon')",
      't.ok(Math.abs(row - Date.now()) <= 200)',
      't.match(row, { items: [] })',
      "t.match(row, [1, {}], 'told')",
    ].map(asTest),
    accepted: ['t.ok(ms >= 200)', 't.ok(row >= began && row <= Date.now())', 't.match(row, [Object])'].map(
      asTest,
    ),
  },
  {
    rule: /plugin/,
    folder: 'test/http',
    refused: ["'it is'", "'That is', {}", '`its days`', '"what isn\'t"', "'one that is'"].map(asTitle),
    accepted: ["'item'", "'one Redis'", "'a title that is fine'"].map(asTitle),
  },
  {
    rule: /plugin/,
    folder: 'src/wishlist',
    refused: ['/^(.+)$/', '/a.b/gim', '/[.]x\\\\.y/', '/\\.x./u', '/[/.]./'].map(asConstant),
    accepted: ['/^(.+)$/s', '/\\.x[.]/', '/[^\\].]/', '/[^\\n]*/g'].map(asConstant),
  },
  {
    rule: /plugin/,
    folder: 'src/events',
    refused: ['{ ...{ a: 1, b: 2 }, c: 3 }', '{ a: 1, ...{ b: 2 } }'].map(asConstant),
    accepted: ['{ ...(Math.random() > 0.5 ? { a: 1 } : {}) }', '{ ...Object.assign({ a: 1 }) }'].map(
      asConstant,
    ),
  },
];

t.test('each planted violation of a lint or import rule is found, and nothing else', async (t) => {
  const lint = LINT.flatMap(({ rule, folder, refused, accepted }) =>
    [...refused, ...accepted].map((source, i) => ({
      ...{ rule, source, file: `${folder}/lint${i}.ts`, isRefused: i < refused.length },
    })),
  );
  const files = {
    ...Object.fromEntries(IMPORTED_FILES.map((name) => [`src/${name}.ts`, 'export const x = 1;'])),
    ...{
      'test/harness/redis.ts': '',
      'bench/main.ts': '',
      'src/redis/p5.ts': "import type {} from './p4.js';",
    },
    ...Object.fromEntries(IMPORTS.map(([, file, source]) => [file, source])),
    ...Object.fromEntries(lint.map(({ file, source }) => [file, source])),
  };
  const root = await tempDir(t);
  for (const entry of ['.ci', 'package.json', 'tsconfig.json'])
    await cp(entry, join(root, entry), { recursive: true });
  await symlink(resolve('node_modules'), join(root, 'node_modules'));
  for (const [file, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), source);
  }
  const folders = ['src', 'test', 'bench'];
  const cruise = ['--config', '.ci/dependency-cruiser.cjs', '--output-type', 'err', ...folders];
  const lintArgs = ['lint', '--config-path=.ci', '--reporter=github', '--max-diagnostics=none', ...folders];
  const [cruised, linted] = await Promise.all([
    outputOf(root, 'depcruise', ...cruise),
    outputOf(root, 'biome', ...lintArgs),
  ]);
  for (const [rule, file] of IMPORTS) t.match(cruised, `error ${rule}: ${file}`);
  const found = [...linted.matchAll(/^::error title=([^,]+),file=([^,]+)/gm)];
  for (const { rule, file, source, isRefused } of lint) {
    const titles = found.flatMap(([, title = '', path = '']) => (path.endsWith(file) ? [title] : []));
    const isFound = titles.some((title) => rule.test(title));
    t.equal(isFound, isRefused, source);
  }
});

t.test('docs/architecture.md lists the folders of src in the order that `make check` holds', async (t) => {
  const docs = (await readFile('docs/architecture.md', 'utf8')).split('## Folders')[1] ?? '';
  const listed = Array.from(docs.matchAll(/^(?:- |.*, )`src\/[a-z]+\/`.*?:/gm), ([line]) =>
    Array.from(line.matchAll(/`src\/([a-z]+)\/`/g), ([, folder]) => folder),
  ).flat();
  const rules = await readFile('.ci/dependency-cruiser.cjs', 'utf8');
  const held = Array.from(rules.matchAll(/path: '\^src\/([a-z]+)\/(?:\(|')/g), ([, folder]) => folder);
  t.ok(held.length > 10);
  t.same(listed, held);
});

function partsOf(source: string): { head: string; code: string } {
  const lines = source.split('\n');
  const start = lines[0]?.startsWith('#!lua') ? 1 : 0;
  const end = lines.findIndex((line, i) => i >= start && !line.startsWith('--'));
  const code = lines.slice(end).filter((line) => !line.trimStart().startsWith('--'));
  return { head: lines.slice(start, end).join('\n'), code: code.join('\n') };
}

/** Whether a head explains an element: by itself, in a range (`KEYS[2..6]`), or in an open one (`ARGV[3...]`). */
function describes(head: string, list: string, index: number): boolean {
  if (head.includes(`${list}[${index}]`)) return true;
  const ranges = head.matchAll(new RegExp(`${list}\\[(\\d+)\\.{2,3}(\\d*)\\]`, 'g'));
  return [...ranges].some(
    ([, first, last]) => index >= Number(first) && (last === '' || index <= Number(last)),
  );
}

t.test('the head of every Lua script names its purpose, keys, arguments, answers and errors', async (t) => {
  const names = scriptNames();
  t.ok(names.includes('visits/countVisits') && names.includes('wishlist/changeItems'));
  for (const name of names) {
    const { head, code } = partsOf(loadScript(name).source);
    t.match(head, /^-- [A-Z].*\n/, name);
    t.match(head, /KEYS\[/, name);
    t.match(head, /^-- Returns /m, name);
    if (/\bARGV\b/.test(code)) t.match(head, /ARGV\[/, name);
    for (const [element, list = '', index] of code.matchAll(/\b(KEYS|ARGV)\[(\d+)\]/g))
      t.ok(describes(head, list, Number(index)), `${name}: ${element} is in the head`);
    const named = Object.entries(LUA).filter(([error]) => new RegExp(`\\b${error}\\b`).test(head));
    const errors = named.flatMap(([, code]) => (typeof code === 'number' ? [code] : []));
    const answers = code.matchAll(/(?:return (?:\{ )?|answer = )(-\d+)/g);
    const answered = Array.from(answers, ([, code]) => Number(code));
    t.same([...new Set(answered)].sort(), errors.sort(), `${name}: errors`);
    if (name === 'visits/countVisits') t.ok(answered.length > 0, 'errors are found in the code');
  }
});

t.test('Lua and TypeScript have the same codes, and each code has one meaning', async (t) => {
  const codes: readonly (string | number | undefined)[] = Object.values(LUA);
  t.equal(new Set(codes).size, codes.length);
  for (const file of await readdir('lua', { recursive: true })) {
    if (!file.endsWith('.lua')) continue;
    const code = (await readFile(`lua/${file}`, 'utf8')).replace(/--[^\n]*/g, '');
    const own = code.replaceAll("'-', '+'", ''); // the bounds of XRANGE
    const spelled = Array.from(own.matchAll(/(?:return|answer =) (-\d)|'([^'])'/g), ([, number, sign]) =>
      number === undefined ? sign : Number(number),
    );
    t.same(
      spelled.filter((one) => codes.includes(one)),
      [],
      `${file} names codes`,
    );
  }
  for (const name of scriptNames()) {
    const code = loadScript(name).source.replace(/--[^\n]*|'[^'\n]*'/g, '');
    const words = code.match(/(?<![.\w])[A-Z][A-Z_]{2,}\b/g) ?? [];
    const defined = [...code.matchAll(/^local ([A-Z_, ]+) =/gm)].flatMap(([, list = '']) => list.split(', '));
    t.same(
      words.filter((word) => ![...defined, 'KEYS', 'ARGV'].includes(word)),
      [],
      `${name} knows the codes that it names`,
    );
  }
});

const WHOLE =
  /\.(hgetall|hkeys|hvals|smembers)\(|(?<!Object)\.keys\([^)]|\.(zrange|lrange)\([^,]+, '?0'?, '?-1|call\('(HGETALL|HKEYS|HVALS|SMEMBERS|KEYS)'|'(ZRANGE|LRANGE)', [^,]+, 0, -1/i;
/** Files that may read a whole collection, with the bound of its size. */
const BOUNDED: Readonly<Record<string, string>> = {
  'src/redis/node-markers.ts': 'a field for each master of the cluster',
  'src/extras/receivers/receivers.ts': 'at most 20 receivers',
  'src/extras/receivers/queue.ts': 'the figures of one receiver, a fixed set of fields',
  'src/extras/backup/restore-redis.ts':
    'at most 10,000 sessions of a customer, in a Redis that nobody uses yet',
  'lua/profiles/startMerge.lua': 'facts and addresses of one guest',
};

t.test('no command reads a whole collection unless its size is bounded', async (t) => {
  const files = [...(await readdir('src', { recursive: true })).map((file) => `src/${file}`)].filter((file) =>
    /(?<!dashboard\/page\/.+)\.ts$/.test(file),
  );
  const scripts = (await readdir('lua', { recursive: true })).map((file) => `lua/${file}`);
  const found: string[] = [];
  for (const file of [...files, ...scripts.filter((file) => file.endsWith('.lua'))]) {
    const text = await readFile(file, 'utf8');
    const calls = text.split('\n').filter((line) => WHOLE.test(line) && !/^\s*(\/\/|--|\*)/.test(line));
    if (calls.length > 0) found.push(file);
  }
  t.same(found.sort(), Object.keys(BOUNDED).sort());
});

const CORE = /^(src\/(?!extras\/|commands\/|main\.ts|setting-groups\.ts)|lua\/(?!extras\/)).*\.(ts|lua|sql)$/;
/** Files of the core that spell something of an extra, with the reason. */
const SPELL: Readonly<Record<string, string>> = {
  'src/clickhouse/columns.ts': 'the origins of all rows: analysts see one table of events',
  'src/clickhouse/migrations/003_products.sql': 'the rows of all origins are in one table',
  'src/clickhouse/migrations/004_steps.sql': 'leaves out rows of alerts and products',
  'src/clickhouse/views/rows.sql': 'the view product_alerts',
  'src/clickhouse/visitor-rows.ts': 'rows of the view product_alerts in an export',
};

/** Matches what only extras have: settings, keys, metrics, origins, ids of operations, scripts. */
async function spelledByExtras(sources: string): Promise<RegExp[]> {
  const found = (pattern: RegExp) =>
    [...new Set(Array.from(sources.matchAll(pattern), ([, name]) => name))].join('|');
  const ofCore = new Set<string>([...SERVE_SETTINGS, ...FLUSH_SETTINGS, ...IDENTITY_SETTINGS]);
  const settings = Object.values(SETTINGS_OF_EXTRAS).flat();
  const keys = (await keysOfExtras()).flatMap((keysOf) => Object.values(keysOf(createKeys('wm'))));
  const tags = keys.map((key) => {
    const spelled = JSON.stringify(typeof key === 'function' ? key('x') : key);
    return /wm:\{?(\w+)/.exec(spelled)?.[1];
  });
  return [
    new RegExp(`\\b(?:${settings.filter((name) => !ofCore.has(name)).join('|')})\\b`),
    new RegExp(`[{:|](?:${tags.join('|')})[:}\`|)]`),
    new RegExp(`\\b(?:${found(/\b(wishmeter_\w+)/g)})`),
    new RegExp(`origin\\b[^\\n]*['"](?:${found(/\b(?:origin"?: ?|IMPORT = )['"](\w+)/g)})['"]`),
    new RegExp(`['"](?:${found(/\b(?:id|operation): '(\w+)'/g)})['"]`),
    /loadScript(?:<[^\n]*>)?\('extras\//,
  ];
}

async function filesOf(folder: string, wanted: RegExp): Promise<[file: string, text: string][]> {
  const files = (await readdir(folder, { recursive: true })).map((file) => `${folder}/${file}`);
  return Promise.all(
    files.filter((file) => wanted.test(file)).map(async (file) => [file, await readFile(file, 'utf8')]),
  );
}

const PLANTED = [
  "config.PRODUCT_ALERTS === 'on'",
  'wm:{wish:x}',
  "name: 'wishmeter_alerts_total'",
  "origin: 'import'",
  "id: 'putProduct'",
  "loadScript('extras/alerts/stampItems')",
];

t.test('no file of the core spells what only an extra has', async (t) => {
  const ofExtras = await filesOf('src/extras', /^(?!.*\/page\/).*\.ts$/);
  const patterns = await spelledByExtras(ofExtras.map(([, text]) => text).join('\n'));
  const isSpelled = (text: string) => patterns.some((pattern) => pattern.test(text));
  for (const [i, planted] of PLANTED.entries()) t.match(planted, patterns[i]);
  const core = [...(await filesOf('src', CORE)), ...(await filesOf('lua', CORE))];
  t.ok(core.length > 100, 'the core was read');
  const found = core.filter(([, text]) => isSpelled(text)).map(([file]) => file);
  t.same(found.sort(), Object.keys(SPELL).sort());
});
