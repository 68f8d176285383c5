// The import rules, and the lint rules that are ours: each planted violation is found. (`make check` holds them against the
// real tree; a rule with a typing mistake would pass there for ever.)

import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import t, { type Test } from 'tap';

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
const lint = (root: string, file: string) => run(root, 'biome', ['lint', '--config-path=.ci', file]);

/** A tree that has the rules, and these sources, by path, and nothing else. */
async function planted(t: Test, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'wm-layout-'));
  t.teardown(() => rm(root, { recursive: true, force: true }));
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
  { rule: 'errors-import-nothing', file: 'src/errors.ts', source: "import 'node:os';" },
  { rule: 'no-circles', file: 'src/redis/p4.ts', source: "import './p5.js';" },
  { rule: 'every-file-has-a-layer', file: 'src/http/p6.ts', source: "import '../utils.js';" },
  {
    rule: 'embedded-stays-behind-its-url',
    file: 'src/redis/p7.ts',
    source: "import '../embedded/redis.js';",
  },
  { rule: 'src-needs-no-tests', file: 'src/redis/p8.ts', source: "import '../../test/harness/redis.js';" },
  { rule: 'src-needs-no-dev-dependencies', file: 'src/redis/p9.ts', source: "import { test } from 'tap';" },
  { rule: 'imports-resolve', file: 'src/redis/p10.ts', source: "import './nowhere.js';" },
];

t.test('planted violations of every import rule are found', async (t) => {
  const there = ['http/access', 'app/serve', 'visits/visit-batch', 'embedded/redis', 'utils'].map(
    (name) => [`src/${name}.ts`, 'export const x = 1;'] as const,
  );
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

t.test('only src/main.ts and src/embedded touch process', async (t) => {
  const sources = ['export const pid = process.pid;\n', "export { pid } from 'node:process';\n"];
  const message = 'Only src/main.ts and src/embedded touch the process';
  for (const source of sources) {
    const root = await planted(t, { 'src/redis/p.ts': source, 'src/embedded/p.ts': source });
    t.match(await lint(root, 'src/redis/p.ts'), { ok: false, output: message }, source);
    t.notMatch((await lint(root, 'src/embedded/p.ts')).output, message);
  }
});

t.test('no assertion of a test has an upper bound on a duration', async (t) => {
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
  ];
  const accepted = ['t.ok(ms >= 200)', 't.ok(row >= began && row <= Date.now())', 't.ok(row < 300)'];
  const files = [...refused, ...accepted].map((assertion, i) => [`test/p${i}.ts`, TEST(assertion)] as const);
  const root = await planted(t, Object.fromEntries(files));
  for (const [i, [file, source]] of files.entries()) {
    const { output } = await lint(root, file);
    t.equal(output.includes('No upper bound on a duration in a test'), i < refused.length, source);
  }
});
