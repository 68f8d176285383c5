// The import rules, and the lint rules that are ours: each planted violation is found. (`make check` holds them against the
// real tree; a rule with a typing mistake would pass there for ever.) And the rules for scripts in lua/, which are held here.

import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import t, { type Test } from 'tap';
import { LUA } from '../src/redis/lua-codes.js';
import { loadScript } from '../src/redis/scripts.js';
import { tempDir } from './cli/wishmeter.js';
import { scriptNames } from './harness/lua.js';

interface Verdict {
  readonly ok: boolean;
  readonly output: string;
}

function run(cwd: string, program: string, args: readonly string[]): Promise<Verdict> {
  return new Promise((done) => {
    execFile(resolve('node_modules/.bin', program), args, { cwd }, (error, stdout, stderr) => {
      done({ ok: error === null, output: stdout + stderr });
    });
  });
}

const imports = (root: string) =>
  run(root, 'depcruise', [
    '--config',
    '.ci/dependency-cruiser.cjs',
    '--output-type',
    'err',
    'src',
    'test',
    'bench',
  ]);
/** Files of a folder in which biome finds something of a rule. */
async function lintFaults(root: string, folder: string, rule: string): Promise<string[]> {
  const { output } = await run(root, 'biome', ['lint', '--config-path=.ci', '--reporter=github', folder]);
  const found = output.matchAll(new RegExp(`^::error title=${rule},file=.*/(${folder}/[^,]+)`, 'gm'));
  return [...new Set(Array.from(found, ([, file = '']) => file))].sort();
}

/** A tree that has the rules, and these sources, by path, and nothing else. */
async function planted(t: Test, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await tempDir(t);
  for (const entry of ['.ci', 'package.json', 'tsconfig.json'])
    await cp(entry, join(root, entry), { recursive: true });
  await symlink(resolve('node_modules'), join(root, 'node_modules'));
  for (const [file, source] of Object.entries(files)) {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), source);
  }
  return root;
}

const VIOLATIONS: readonly { rule: string; file: string; source: string }[] = [
  { rule: 'visits-imports-only-down', file: 'src/visits/p1.ts', source: "import '../http/access.js';" },
  {
    rule: 'redis-imports-only-down',
    file: 'src/redis/p2.ts',
    source: "import type {} from '../app/serve.js';",
  },
  { rule: 'flush-imports-only-down', file: 'src/flush/p3.ts', source: "import '../visits/visit-batch.js';" },
  {
    rule: 'wishlist-imports-only-down',
    file: 'src/wishlist/p11.ts',
    source: "import '../extras/alerts/alert.js';",
  },
  { rule: 'errors-import-nothing', file: 'src/errors.ts', source: "import 'node:os';" },
  { rule: 'no-circles', file: 'src/redis/p4.ts', source: "import './p5.js';" },
  { rule: 'every-file-has-a-layer', file: 'src/http/p6.ts', source: "import '../utils.js';" },
  {
    rule: 'embedded-stays-behind-its-url',
    file: 'src/redis/p7.ts',
    source: "import '../extras/embedded/redis.js';",
  },
  { rule: 'src-needs-no-tests', file: 'src/redis/p8.ts', source: "import '../../test/harness/redis.js';" },
  { rule: 'src-needs-no-dev-dependencies', file: 'src/redis/p9.ts', source: "import { test } from 'tap';" },
  { rule: 'imports-resolve', file: 'src/redis/p10.ts', source: "import './nowhere.js';" },
];

t.test('planted violations of every import rule are found', async (t) => {
  const there = [
    'http/access',
    'app/serve',
    'visits/visit-batch',
    'extras/embedded/redis',
    'extras/alerts/alert',
    'utils',
  ].map((name) => [`src/${name}.ts`, 'export const x = 1;'] as const);
  const root = await planted(t, {
    ...Object.fromEntries(there),
    'test/harness/redis.ts': '',
    'bench/main.ts': '',
    'src/redis/p5.ts': "import type {} from './p4.js';",
    ...Object.fromEntries(VIOLATIONS.map(({ file, source }) => [file, source])),
  });
  const { ok, output } = await imports(root);
  t.notOk(ok);
  for (const { rule, file } of VIOLATIONS)
    t.match(output, new RegExp(`error ${rule}: ${file.replaceAll('.', '\\.')}`), `${rule} in ${file}`);
});

t.test('only src/main.ts and src/extras/embedded touch process', async (t) => {
  const [used, imported] = ['export const pid = process.pid;\n', "export { pid } from 'node:process';\n"];
  const root = await planted(t, {
    'src/redis/p1.ts': used,
    'src/redis/p2.ts': imported,
    'src/extras/embedded/p1.ts': used,
    'src/extras/embedded/p2.ts': imported,
  });
  const faults = await lintFaults(root, 'src', 'lint/style/noRestricted(?:Globals|Imports)');
  t.same(faults, ['src/redis/p1.ts', 'src/redis/p2.ts']);
});

t.test(
  'no assertion of a test has an upper bound on a duration, or a pattern that matches anything',
  async (t) => {
    const TEST = (assertion: string) => `import t from 'tap';
const began = performance.now();
const ms = performance.now() - began;
const row = 5;
t.test('a test', async (t) => {
  ${assertion};
});
`;
    const refused = [
      't.ok(performance.now() - began < 200)',
      't.ok(2_000 >= ms)',
      "t.equal(ms < 200, true, 'soon')",
      't.ok(Math.abs(row - Date.now()) <= 200)',
      't.match(row, { items: [] })',
      "t.match(row, [1, {}], 'told')",
    ];
    const accepted = [
      't.ok(ms >= 200)',
      't.ok(row >= began && row <= Date.now())',
      't.ok(row < 300)',
      't.match(row, [Object])',
    ];
    const files = [...refused, ...accepted].map(
      (assertion, i) => [`test/p${i}.ts`, TEST(assertion)] as const,
    );
    const root = await planted(t, Object.fromEntries(files));
    const expected = files.slice(0, refused.length).map(([file]) => file);
    t.same(await lintFaults(root, 'test', 'plugin'), expected);
  },
);

t.test('a `.` of a pattern in src matches U+2028, too', async (t) => {
  const refused = ['/^(.+)$/', '/a.b/gim', '/[.]x\\\\.y/', '/\\.x./u', '/[/.]./'];
  const accepted = ['/^(.+)$/s', '/a.b/gims', '/\\.x[.]/', '/[^\\].]/', '/[^\\n]*/g'];
  const files = [...refused, ...accepted].map(
    (pattern, i) => [`src/redis/p${i}.ts`, `export const pattern = ${pattern};\n`] as const,
  );
  const root = await planted(t, Object.fromEntries(files));
  const expected = files.slice(0, refused.length).map(([file]) => file);
  t.same(await lintFaults(root, 'src', 'plugin'), expected);
});

/** The one include that makes keys: those beside a key that it was given, in the same slot. */
const RETAIN = readFileSync('lua/includes/retain.lua', 'utf8');

/** The comment that a script opens with, and its code without comments and without RETAIN. */
function partsOf(source: string): { head: string; code: string } {
  const lines = source.replace(RETAIN, '').split('\n');
  const start = lines[0]?.startsWith('#!lua') ? 1 : 0;
  const end = lines.findIndex((line, i) => i >= start && !line.startsWith('--'));
  const code = lines.slice(end).filter((line) => !line.trimStart().startsWith('--'));
  return {
    head: lines.slice(start, end).join('\n'),
    code: code.join('\n').replace(/key_of\(identity, '.'\)/g, 'own'),
  };
}

/** Whether a head explains an element: by itself, in a range (`KEYS[2..6]`), or in an open one (`ARGV[3...]`). */
function describes(head: string, list: string, index: number): boolean {
  if (head.includes(`${list}[${index}]`)) return true;
  const ranges = head.matchAll(new RegExp(`${list}\\[(\\d+)\\.{2,3}(\\d*)\\]`, 'g'));
  return [...ranges].some(
    ([, first, last]) => index >= Number(first) && (last === '' || index <= Number(last)),
  );
}

t.test('a script says its purpose, keys, arguments, answers and errors in its head', async (t) => {
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
    const named = Array.from(head.matchAll(/\b([A-Z_]{4,}) (-\d+)/g), ([, error = '', code]) => {
      t.equal(LUA[error as keyof typeof LUA], Number(code), `${name}: ${error}`);
      return Number(code);
    });
    const answered = Array.from(code.matchAll(/(?:return (?:\{ )?|answer = )(-\d+)/g), ([, code]) =>
      Number(code),
    );
    t.same([...new Set(answered)].sort(), [...new Set(named)].sort(), `${name}: errors`);
    if (name === 'visits/countVisits') t.ok(answered.length > 0, 'errors are found in the code');
  }
});

/** Their keys are of many slots: on a cluster a call to a node may not name them in KEYS. */
const TAKE_KEYS_FROM_TEXT: ReadonlySet<string> = new Set([
  'events/recordEvents',
  'visits/countVisits',
  'extras/alerts/addSubscribers',
  'wishlist/changeItems',
]);
/** The value in the place that a name has among names; none where it is not among them. */
function valueAt(names: string, name: string, values: string): string[] {
  const at = names.split(', ').indexOf(name);
  const value = at < 0 ? '' : (values.split(/,\s*(?![^[]*\])/)[at] ?? '').trim();
  return value === '' || value === 'nil' ? [] : [value.replace(/^(\S+) or ''$/, '$1')];
}

/** Whether a name is only ever one of KEYS: where it is a local, and what is given for it where it is a parameter. */
function isGivenKey(code: string, name: string): boolean {
  const assigned = [...code.matchAll(/^\s*(?:local )?([a-z_, ]+) = (.+)/gm)].flatMap(
    ([, names = '', values = '']) => valueAt(names, name, values),
  );
  const passed = [...code.matchAll(/local function (\w+)\(([^)]*)\)/g)].flatMap(([, of, names = '']) =>
    [...code.matchAll(new RegExp(`(?<!function )\\b${of}\\(([^)]*)`, 'g'))].flatMap(([, values = '']) =>
      valueAt(names, name, values),
    ),
  );
  const values = [...assigned, ...passed].filter((value) => value !== name);
  return (
    values.length > 0 && values.every((value) => /^KEYS\[[^\]]+\]$/.test(value) || isGivenKey(code, value))
  );
}

/** Commands whose keys are not plainly elements of KEYS. */
function keyFaults(code: string): string[] {
  const calls = [...code.matchAll(/redis\.p?call\(\s*'((?:XINFO', '|XGROUP', ')?[A-Z]+)'\s*([^)]*)/g)];
  const others = code.replace('redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))', ''); // writeKey.lua
  const isSpelledOut = calls.length === (others.match(/redis\.p?call\b/g) ?? []).length;
  const faults = calls.flatMap(([call, command = '', rest = '']) => {
    if (command === 'TIME') return [];
    const key = /^,\s*((?:KEYS|ARGV)\[[^\]]+\]|[a-z_]+)\s*(,|$)/.exec(rest)?.[1] ?? '';
    const isGiven = key.startsWith('KEYS') || isGivenKey(code, key);
    const areAllGiven = !/^(DEL|RENAME|UNLINK)$/.test(command) || /^(,\s*KEYS\[[^\]]+\]\s*)+$/.test(rest);
    return isGiven && areAllGiven ? [] : [call];
  });
  return isSpelledOut ? faults : [...faults, 'a command that is not spelled out'];
}

/** Commands whose keys are not of KEYS or a name; and what a text is put together from, beside what answers say. */
function textKeyFaults(code: string, name = ''): string[] {
  const calls = [...code.matchAll(/redis\.p?call\(\s*'[A-Z]+'\s*([^)]*)/g)];
  const faults = calls.flatMap(([call, rest = '']) =>
    rest === '' || /^,\s*(KEYS\[\d\]|[a-z_]+|op\.[a-z_]+)\s*(,|$)/.test(rest) ? [] : [call],
  );
  // Events are put together, too; its keys are lines of the text that it takes apart.
  if (name === 'wishlist/changeItems') return faults;
  const joined = code.replace(/'@' \.\. (link|both\[2\]|\(link or ''\))/g, '');
  return joined.includes('..') ? [...faults, 'a text that is put together'] : faults;
}

t.test('a script touches no key that it was not given', async (t) => {
  for (const name of scriptNames()) {
    const { code } = partsOf(loadScript(name).source);
    t.same(TAKE_KEYS_FROM_TEXT.has(name) ? textKeyFaults(code, name) : keyFaults(code), [], name);
  }
  for (const code of [
    "redis.call('GET', identity .. 'x')",
    "local identity = own .. ':v'",
    "redis.pcall('GET', 'a')",
  ])
    t.not(textKeyFaults(code).length, 0, code);
  for (const code of [
    "redis.call('GET', KEYS[1] .. ':x')",
    "redis.call('GET', 'wm:meta')",
    "redis.call('GET', ARGV[1])",
    "redis.call('GET', tostring(KEYS[1]))",
    "local key = KEYS[1] .. 'x'\nredis.call('SET', key, 1)",
    "local key = ARGV[1]\nredis.pcall('SET', key, 1)",
    "local a, b = KEYS[1], ARGV[2]\nredis.call('SET', b, 1)",
    'redis.call("GET", KEYS[1])',
    'redis.call(ARGV[1], KEYS[1])',
    "redis.call('RENAME', KEYS[1], ARGV[1])",
    "local function put(key)\n  redis.call('SET', key, 1)\nend\nput(KEYS[1])\nput(ARGV[1])",
  ])
    t.not(keyFaults(code).length, 0, code);
  const pair = 'local a, b = KEYS[2 * i], KEYS[2 * i + 1]\n';
  t.same(keyFaults(`${pair}redis.call('RENAME', KEYS[1], KEYS[i + 5])\nredis.call('GET', b)`), []);
});

/** Commands that take a whole collection, in TypeScript and in Lua. */
const WHOLE =
  /\.(hgetall|hkeys|hvals|smembers)\(|(?<!Object)\.keys\([^)]|\.(zrange|lrange)\([^,]+, '?0'?, '?-1|call\('(HGETALL|HKEYS|HVALS|SMEMBERS|KEYS)'|'(ZRANGE|LRANGE)', [^,]+, 0, -1/i;
/** Where they are allowed: what bounds the collection. */
const BOUNDED: Readonly<Record<string, string>> = {
  'src/redis/node-markers.ts': 'a field for each master of the cluster',
  'src/extras/receivers/receivers.ts': 'at most 20 receivers',
  'src/extras/receivers/queue.ts': 'the figures of one receiver, a fixed set of fields',
  'lua/wishlist/changeItems.lua': 'MAX_ITEMS, for a profile from before its bytes were kept',
  'lua/wishlist/readItemSizes.lua': 'MAX_ITEMS',
};

t.test('no command takes a whole collection, but those whose size is bounded', async (t) => {
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

t.test('only src/redis asks whether Redis is a cluster', async (t) => {
  const files = (await readdir('src', { recursive: true })).filter((file) => file.endsWith('.ts'));
  const asks = async (file: string) =>
    /\bisCluster\b|'nodes' in\b|\.nodes\(/.test(await readFile(`src/${file}`, 'utf8'));
  const asking: string[] = [];
  for (const file of files) if (await asks(file)) asking.push(file);
  t.ok(asking.length > 0);
  t.same(
    asking.filter((file) => !file.startsWith('redis/')),
    [],
  );
});
