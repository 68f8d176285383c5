// `make mutate`: are there tests that fail? Applies each mutation of the lists to a copy of the tree, runs the
// tests that must notice it, and fails where none does. ONLY=<part of a name or a file> tries some of them.
//
//   copy ─▶ build ─▶ the named tests pass ─▶ for each: apply ─▶ build ─▶ a test fails (caught) ─▶ restore
//                                                                     └▶ all pass (survived: a hole)
//
// Tests that fail without a mutation would catch everything, and a mutation that does not compile would prove
// nothing: both are errors.

import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { faultOf, type Mutation, readMutations } from './lists.js';

const NOT_COPIED = new Set(['.git', '.tap', 'data', 'debian13', 'node_modules', 'results']);
/** A mutation may leave a name unused; that is not what its tests are about. */
const TSC = ['--noUnusedLocals', 'false', '--noUnusedParameters', 'false'];

const root = await mkdtemp(join(tmpdir(), 'wm-mutate-'));
process.on('exit', () => rmSync(root, { recursive: true, force: true, maxRetries: 20 }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const { ONLY = '' } = process.env;
const mutations = readMutations('.').filter(({ name, file }) => name.includes(ONLY) || file.includes(ONLY));
const faults = mutations.map((mutation) => faultOf('.', mutation)).filter((fault) => fault !== undefined);
if (mutations.length === 0) faults.push(`no mutation has ${ONLY} in its name or file`);
if (faults.length > 0) fail('These mutations do not fit the code:', faults);

await cp('.', root, {
  recursive: true,
  preserveTimestamps: true,
  filter: (path) => !NOT_COPIED.has(basename(path)),
});
await symlink(resolve('node_modules'), join(root, 'node_modules'));
const asItIs = await build();
if (!asItIs.ok) fail('The tree as it is does not compile:', [asItIs.output]);

const tests = [...new Set(mutations.flatMap((mutation) => mutation.tests))];
console.log(`${mutations.length} mutations; first their ${tests.length} test files as they are …`);
const before = await run('tap', ['--reporter=terse', ...tests]);
if (!before.ok) fail('Without any mutation these tests fail:', [before.output]);

const left: string[] = [];
for (const [i, mutation] of mutations.entries()) {
  const began = performance.now();
  const end = await endOf(mutation);
  if (end !== 'caught')
    left.push(`${end}: ${mutation.name} (${mutation.file}; ${mutation.tests.join(', ')})`);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  console.log(`${i + 1}/${mutations.length} ${end.padEnd(16)} ${seconds} s  ${mutation.name}`);
}
console.log(`${mutations.length} mutations, ${mutations.length - left.length} caught`);
if (left.length > 0) fail('No test noticed these, or they prove nothing:', left);

/** Leaves the sources as they were; what is compiled is put right by the next build. */
async function endOf({ file, text, replacement, tests }: Mutation): Promise<string> {
  const path = join(root, file);
  const source = await readFile(path, 'utf8');
  await writeFile(path, source.split(text).join(replacement));
  try {
    if (!(await build()).ok) return 'does not compile';
    return (await run('tap', ['--reporter=terse', ...tests])).ok ? 'SURVIVED' : 'caught';
  } finally {
    await writeFile(path, source);
  }
}

/** Also for a mutation of a script, which is read as it is: the one before may have been of a source. */
function build() {
  return run('tsc', TSC);
}

function run(program: string, args: readonly string[]): Promise<{ ok: boolean; output: string }> {
  return new Promise((done, failed) => {
    const child = spawn(join('node_modules/.bin', program), args, {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => {
        output += part;
      });
    child.once('error', failed).once('close', (code) => done({ ok: code === 0, output }));
  });
}

function fail(what: string, lines: readonly string[]): never {
  console.error([what, ...lines].join('\n  '));
  process.exit(1);
}
