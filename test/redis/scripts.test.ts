// The scripts as texts: each one's SHA, so that a change of one is seen in review, and the house's rules for them.

import t from 'tap';
import { LUA } from '../../src/redis/lua-codes.js';
import { isNoScript, loadScript, runScript } from '../../src/redis/scripts.js';
import { connectTo } from '../harness/dump.js';
import { scriptNames } from '../harness/lua.js';
import { startTestRedis } from '../harness/redis.js';

/** Changed on purpose? Then this is the line to change with it. */
const SHAS: Readonly<Record<string, string>> = {
  append: '738d9b41a3bb7101a5721f989cc2e3cb64927899',
  backlog: '5ffc36587a4b1b345d87b7f4ff4eaea03d307a59',
  claim: 'd1a14c1a22b9fbe1c2afea0927ccda7d2e84371b',
  'compliance-own': '37136f9bd18f922c5896086f7edef7943de1d543',
  'compliance-settle': '9411d2c80eaa041faec70da8e299281248742a14',
  'compliance-take': 'b80dabcb563d37d1546ef4395cef66fbfe29cdc4',
  condemn: '82b776fe01aefd9629287b913abc444dcd6d343d',
  'email-note': 'eadfcacba152e87cb4b5da4ea3d49a9fc117889c',
  'email-put': '591cf40fda685a6a6151fe7c662613406dd824ca',
  'erase-guest': '89716c64df4917bd78dc23c6cda315bcf3c91b28',
  'erase-home': '4b536b5261da397a69409426cb740bbf429b148a',
  'erase-room': '43ca5f14d194257fa815319927a421bd4b5d2ce4',
  'erase-things': '3f52f40813e21cb82ef5d525f7a36cf01118c7bd',
  'erasure-done': 'c67cb064f377866941a2e9088451c7eaba2fa05c',
  erasures: '368281666389a4945b00ac0c0a5032f07d4719f5',
  'expire-guest': '0bdbcabb4093b732f3fcebdd94de1954c9d53889',
  fence: '2409924d290580f6ce271a394330312ada2956e9',
  'flush-beat': 'a73f737e97ac99a13d2fb8cdc26be850c35c1f7f',
  'flush-claim': '3d2fcb853c07412f65350e066529fc9361f6216d',
  'flush-finalize': '3de5faec389501b795f9ad8c2bca1d87403de780',
  'flush-prepare': '2e3a0170b91550e8cb6a7c81c565a6e6cee9e506',
  'flush-release': '33cdc0831582cbf0b918275367184a35f3e4f309',
  'flush-retry': '2a8b207345c4de88873da3a81312803ea37af6d2',
  'flush-team': 'fcb9024807e5bfa61c37c38c807bbeb1a4970391',
  'free-door': 'f5b6dbfda92491a0fcf631212803f633cf2a7dea',
  'item-sizes': 'b19461eb1c8192dc6fdcb1c2650dea266194fc2d',
  items: '4a8c499e838c52f9d2d4d1487a76c3bf031f02fa',
  meet: '8e77ee80c23c73ff062d5d12466f8469aee988da',
  'merge-done': '6e53d000e44a2970be4d2115219ef359d47b48dc',
  'merge-give': '4eb1ce6272e0c515d0a5b4a6c6959f8e46c3f6b4',
  'merge-record': '9ce5188abea159588e40a2d1e421ac425ed875dc',
  'merge-take': 'fd106eddb64281287d17241382eb09124addf33d',
  'move-out': '3f7c84ee16d536cec995a02dc4e662f8db94cc74',
  open: 'e87f6ca05819f2b0dfc6312389f173a2eb11d472',
  point: '1ff8d8ba89e65e0d275ce30f2a385a48bd8a88ee',
  probe: 'd064623a6b68ddab0235d80118651c7ab4a09fc3',
  profile: '35635e3fd58e7880a56a29e1e93b09675ca7b06e',
  put: '5b01f6ae51bd4475286e5db5356e80c030bd4c98',
  record: '9b5236cd3c9be1161d20b5929ba7c51ccf0a31cf',
  register: 'bc862693dd189f9462f0067d5e5798e22b376dfe',
  release: '4ba7c3b6f580e0b665a52f3c44dbb4b22359e0c1',
  'request-begin': '4b4bc6fb0b9fd801c853a8fd9e1fe9b8741f21d6',
  'request-end': '3c3ae59621e938a09f32cf647a96b136b85c2eba',
  'request-note': '9ead1651ca68b777f2d4be21a2e6379afe76bada',
  'request-place': '2d6baa6ff4cef40049f89fb17e108caaa17c10ad',
  settings: '2f826facd09314fe8b419529ef58b8fdc729bafa',
  'settle-guest': '52577177a82ed87fbb40d1cde5a95e24bf81f0d7',
  shards: 'd59efc34c6f7e2299d6112d5880cd5008f9031c7',
  'share-of': 'e543b0b44b241ab69decd1be37dd7fe509779629',
  'visit-once': 'e8e91de3cc8493ed733e8d0d830f17df51afeb2c',
  visits: '7ede90bfacb4ca517e2a86c86759489a3c9ffbf0',
  wishlist: '50101151264e862783b9ba70c16df570e6d87174',
};

const names = scriptNames();

/** Header (the comment that the script opens with) and code without comments. */
function partsOf(source: string): { header: string; code: string } {
  const lines = source.split('\n');
  const start = lines[0]?.startsWith('#!lua') ? 1 : 0;
  const end = lines.findIndex((line, i) => i >= start && !line.startsWith('--'));
  const code = lines.slice(end).filter((line) => !line.trimStart().startsWith('--'));
  return { header: lines.slice(start, end).join('\n'), code: code.join('\n') };
}

t.test('each script, with what it includes, is the one that was reviewed', async (t) => {
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
      const returned = [...code.matchAll(/(?:return (?:\{ )?|answer = )(-\d+)/g)].map(([, value]) =>
        Number(value),
      );
      const named = [...header.matchAll(/\b([A-Z_]{4,}) (-\d+)/g)].map(([, name, value]) => [
        name,
        Number(value),
      ]);
      for (const [name, value] of named) t.equal(LUA[name as keyof typeof LUA], value, `${name}`);
      t.same([...new Set(returned)].sort(), [...new Set(named.map(([, value]) => value))].sort());
      if (/^(visits|append|wishlist)$/.test(name)) t.ok(returned.length > 0, 'the check sees what is there');
    });

    t.test('builds no key: what it touches, it was given', async (t) => {
      const faults = TAKES_KEYS_FROM_TEXT.has(name)
        ? textKeyFaults(code)
        : keyFaults(code, OF_OTHER_SLOTS[name]);
      t.same(faults, []);
    });
  });
}

t.test('a key that a script builds would be seen', async (t) => {
  for (const code of [
    "redis.call('GET', door .. 'x')",
    "local door = own .. ':v'",
    "redis.pcall('GET', 'a')",
  ])
    t.not(textKeyFaults(code).length, 0, code);
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
    "local function put(key)\n  redis.call('SET', key, 1)\nend\nput(KEYS[1])\nput(ARGV[1])",
  ];
  for (const code of planted) t.not(keyFaults(code).length, 0, code);
  t.same(
    keyFaults(
      "local a, b = KEYS[2 * i], KEYS[2 * i + 1]\nredis.call('RENAME', KEYS[1], KEYS[i + 5])\nredis.call('GET', b)",
    ),
    [],
  );
});

/** Of many slots. On a cluster a call to a node may not name them in KEYS; `record` is for one server. */
const TAKES_KEYS_FROM_TEXT: ReadonlySet<string> = new Set(['record', 'visits']);

/** Names of keys that are given whole, in ARGV: they need not be in the slot of KEYS, nor at this node. */
const OF_OTHER_SLOTS: Readonly<Record<string, readonly string[]>> = { 'visit-once': ['stream', 'state'] };

/** Commands whose keys are not of KEYS or a name; and what a text is put together from, beside what answers say. */
function textKeyFaults(code: string): string[] {
  const calls = [...code.matchAll(/redis\.p?call\(\s*'[A-Z]+'\s*([^)]*)/g)];
  const faults = calls.flatMap(([call, rest = '']) =>
    rest === '' || /^,\s*(KEYS\[\d\]|[a-z_]+)\s*(,|$)/.test(rest) ? [] : [call],
  );
  const joined = code.replace(/'@' \.\. (field|\(field or ''\))|room \.\. ' '/g, '');
  return joined.includes('..') ? [...faults, 'a text that is put together'] : faults;
}

/** Whether a header explains an element: by itself, in a range (`KEYS[2..6]`), or in an open one (`ARGV[3...]`). */
function describes(header: string, list: string, index: number): boolean {
  if (header.includes(`${list}[${index}]`)) return true;
  for (const [, first, last] of header.matchAll(new RegExp(`${list}\\[(\\d+)\\.{2,3}(\\d*)\\]`, 'g'))) {
    if (index >= Number(first) && (last === '' || index <= Number(last))) return true;
  }
  return false;
}

/** Commands whose keys are not plainly elements of KEYS. */
function keyFaults(code: string, ofOtherSlots: readonly string[] = []): string[] {
  const faults: string[] = [];
  const calls = [...code.matchAll(/redis\.p?call\(\s*'([A-Z]+)'\s*([^)]*)/g)];
  if (calls.length !== (code.match(/redis\.p?call\b/g) ?? []).length)
    faults.push('a command that is not spelled out');
  for (const [call, command, rest = ''] of calls) {
    if (command === 'TIME') continue;
    const key = /^,\s*(KEYS\[[^\]]+\]|[a-z_]+)\s*(,|$)/.exec(rest)?.[1];
    const given =
      key !== undefined && (key.startsWith('KEYS') || isGivenKey(code, key) || ofOtherSlots.includes(key));
    const allGiven = !/^(DEL|RENAME|UNLINK)$/.test(command ?? '') || /^(,\s*KEYS\[[^\]]+\]\s*)+$/.test(rest);
    if (!given || !allGiven) faults.push(call);
  }
  return faults;
}

/** Whether a name is only ever one of KEYS: where it is a local, and what is given for it where it is a parameter. */
function isGivenKey(code: string, name: string): boolean {
  const assigned = [...code.matchAll(/local ([a-z_, ]+) = (.+)/g)].flatMap(([, names = '', values = '']) =>
    valueAt(names, name, values),
  );
  const passed = [...code.matchAll(/local function (\w+)\(([^)]*)\)/g)].flatMap(([, of, names = '']) =>
    [...code.matchAll(new RegExp(`(?<!function )\\b${of}\\(([^)]*)`, 'g'))].flatMap(([, values = '']) =>
      valueAt(names, name, values),
    ),
  );
  const values = [...assigned, ...passed.filter((value) => value !== name)];
  return (
    values.length > 0 && values.every((value) => /^KEYS\[[^\]]+\]$/.test(value) || isGivenKey(code, value))
  );
}

/** The value in the place that a name has among names; none where it is not among them. */
function valueAt(names: string, name: string, values: string): string[] {
  const at = names.split(', ').indexOf(name);
  return at < 0 ? [] : [(values.split(/,\s*(?![^[]*\])/)[at] ?? '').trim()];
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
    [Number.MAX_SAFE_INTEGER, 's:1', '', 'a.1 1'],
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
  const args = [Number.MAX_SAFE_INTEGER, 's:1', '', 'a.1 1'];
  await t.rejects(runScript(client, loadScript('point'), ['{x}ids', '{x}v'], args), {
    message: /^WRONGTYPE/,
  });
  t.same(await client.keys('*'), ['{x}ids']);
});
