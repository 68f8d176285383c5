// The scripts as texts: each one's SHA, so that a change of one is seen in review, and the house's rules for them.

import { readdirSync } from 'node:fs';
import t from 'tap';
import { LUA } from '../../src/errors.js';
import { isNoScript, loadScript, runScript } from '../../src/redis/scripts.js';
import { connectTo } from '../harness/dump.js';
import { startTestRedis } from '../harness/redis.js';

/** Changed on purpose? Then this is the line to change with it. */
const SHAS: Readonly<Record<string, string>> = {
  adopt: '83656647f502ae67262ab64d3297c661d26ac4d5',
  append: 'f8ee7a0a24308d9c5da09a6f64b0ca58eae609ba',
  backlog: '863ba09d8549c56491f57c15d43da13566edc50f',
  commit: '1b343767d9b21266903ee80985487dea1bbff733',
  'flush-beat': 'ae5126cc36c3ffe50de7920728fe7de78f286b64',
  'flush-claim': 'f5291d6c3a42e9ac06948b34dcd5c79455134a10',
  'flush-finalize': 'a46c83cb1606144926e563f60ffcd109eb122c84',
  'flush-prepare': '3c571244f0b064ff3ba5b351da04c1bcd1a313d5',
  'flush-release': '33cdc0831582cbf0b918275367184a35f3e4f309',
  'flush-retry': '2a8b207345c4de88873da3a81312803ea37af6d2',
  items: 'b0017804366e6a8b366bf7e9b042a6bea75faf1b',
  leave: '2fe206b1e16e762b87399180cc71c56d38b6ff98',
  'merge-done': 'aa7512275f10a82688d93ce127421cca37789d1c',
  'merge-give': '6ee6a68c0428a2c0d3e4a53861ac1961d641ea9b',
  'merge-take': '30f6f8db8490c53770034a1bf600a775db8a1c88',
  open: 'c1a15d08db203314974efadbd2b0996e038623e5',
  point: 'f0ac2114462e5793dff34a97b1d8267558a98687',
  profile: 'b5782ad98e27976c6ff4069961806271de3c91a0',
  record: '261134ffe24eec106030648015eb2280a9a1de59',
  release: 'd0b73d906bc77cd8b85c6fb2bb022a7af8b19c8f',
  sent: '1f659c707b6825ad8c5e4d6c7f8cf0c9d219e066',
  'visit-once': 'cd6fa8f2ccff340998a7c19532a6911b0505ed09',
  visits: '1f3a63c9d886a58b2e2188df63dbbaf86531de8c',
};

const names = readdirSync(new URL('../../../lua/', import.meta.url)).map((file) =>
  file.replace(/\.lua$/, ''),
);

/** Header (the comment that the script opens with) and code without comments. */
function partsOf(source: string): { header: string; code: string } {
  const lines = source.split('\n');
  const start = lines[0]?.startsWith('#!lua') ? 1 : 0;
  const end = lines.findIndex((line, i) => i >= start && !line.startsWith('--'));
  const code = lines.slice(end).filter((line) => !line.trimStart().startsWith('--'));
  return { header: lines.slice(start, end).join('\n'), code: code.join('\n') };
}

t.test('each script is the one that was reviewed', async (t) => {
  t.same(Object.fromEntries(names.map((name) => [name, loadScript(name).sha])), SHAS);
});

for (const name of names) {
  t.test(`${name}.lua`, async (t) => {
    const { header, code } = partsOf(loadScript(name).source);

    t.test('opens with its purpose, KEYS, ARGV and what it returns', async (t) => {
      t.match(header, /^-- [A-Z].*\.?\n/);
      t.match(header, /KEYS\[/);
      t.match(header, /^-- Returns /m);
      for (const [, list, index] of code.matchAll(/\b(KEYS|ARGV)\[(\d+)\]/g)) {
        t.ok(describes(header, list as string, Number(index)), `${list}[${index}] is in the header`);
      }
      if (/\bARGV\b/.test(code)) t.match(header, /ARGV\[/);
    });

    t.test('names the error codes that it answers, and no others, by their values', async (t) => {
      const returned = [...code.matchAll(/return (?:\{ )?(-\d+)/g)].map(([, value]) => Number(value));
      const named = [...header.matchAll(/\b([A-Z]{4,}) (-\d+)/g)].map(([, name, value]) => [
        name,
        Number(value),
      ]);
      for (const [name, value] of named) t.equal(LUA[name as keyof typeof LUA], value, `${name}`);
      t.same([...new Set(returned)].sort(), named.map(([, value]) => value).sort());
      if (/^(visits|append|commit)$/.test(name)) t.ok(returned.length > 0, 'the check sees what is there');
    });

    t.test('builds no key: what it touches, it was given', async (t) => {
      t.same(keyFaults(code), []);
    });
  });
}

t.test('a key that a script builds would be seen', async (t) => {
  const planted = [
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
  ];
  for (const code of planted) t.not(keyFaults(code).length, 0, code);
  t.same(
    keyFaults(
      "local a, b = KEYS[2 * i], KEYS[2 * i + 1]\nredis.call('RENAME', KEYS[1], KEYS[i + 5])\nredis.call('GET', b)",
    ),
    [],
  );
});

/** Whether a header explains an element: by itself, in a range (`KEYS[2..6]`), or in an open one (`ARGV[3...]`). */
function describes(header: string, list: string, index: number): boolean {
  if (header.includes(`${list}[${index}]`)) return true;
  for (const [, first, last] of header.matchAll(new RegExp(`${list}\\[(\\d+)\\.{2,3}(\\d*)\\]`, 'g'))) {
    if (index >= Number(first) && (last === '' || index <= Number(last))) return true;
  }
  return false;
}

/** Commands whose keys are not plainly elements of KEYS. */
function keyFaults(code: string): string[] {
  const faults: string[] = [];
  const calls = [...code.matchAll(/redis\.p?call\(\s*'([A-Z]+)'\s*([^)]*)/g)];
  if (calls.length !== (code.match(/redis\.p?call\b/g) ?? []).length)
    faults.push('a command that is not spelled out');
  for (const [call, command, rest = ''] of calls) {
    if (command === 'TIME') continue;
    const key = /^,\s*(KEYS\[[^\]]+\]|[a-z_]+)\s*(,|$)/.exec(rest)?.[1];
    const given = key !== undefined && (key.startsWith('KEYS') || isGivenKey(code, key));
    const allGiven = !/^(DEL|RENAME)$/.test(command ?? '') || /^(,\s*KEYS\[[^\]]+\]\s*)+$/.test(rest);
    if (!given || !allGiven) faults.push(call);
  }
  return faults;
}

/** Whether a local name is only ever one of KEYS. */
function isGivenKey(code: string, name: string): boolean {
  const assigned = [...code.matchAll(/local ([a-z_, ]+) = (.+)/g)].flatMap(([, names = '', values = '']) => {
    const at = names.split(', ').indexOf(name);
    return at < 0 ? [] : [values.split(/,\s*(?![^[]*\])/)[at] ?? ''];
  });
  return assigned.length > 0 && assigned.every((value) => /^KEYS\[[^\]]+\]$/.test(value.trim()));
}

t.test('a script runs on a server that has never seen it, and after SCRIPT FLUSH', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  for (const name of names) {
    const script = loadScript(name);
    const bySha = () => client.evalsha(script.sha, 0);
    await t.rejects(bySha(), { message: /^NOSCRIPT/ }, `${name}: unknown`);
    t.equal(isNoScript(await bySha().catch((error: unknown) => error)), true);
    // Compiles everywhere; what it says of having no keys is its own business.
    await runScript(client, script, [], []).catch((error: Error) =>
      t.notMatch(error.message, /compil|NOSCRIPT/, name),
    );
    const known = await bySha().catch((error: unknown) => error);
    t.equal(isNoScript(known), false, `${name}: known from now on`);
  }
  await client.script('FLUSH');
  const point = loadScript('point');
  const [keys, args] = [
    ['{x}ids', '{x}v'],
    ['s:1', '', 'p', 'own'],
  ];
  t.equal(await runScript(client, point, keys, args), 1);
  t.equal(await client.evalsha(point.sha, 2, ...keys, ...args), 1, 'by SHA again');
});

t.test('an error of the script itself is not hidden, and not tried again', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  await client.set('{x}ids', 'no hash');
  await t.rejects(runScript(client, loadScript('point'), ['{x}ids', '{x}v'], ['s:1', '', 'p', 'own']), {
    message: /^WRONGTYPE/,
  });
});
