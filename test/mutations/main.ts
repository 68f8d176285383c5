// `make mutate`: are there tests that fail? Applies each mutation of the lists to a copy of the built tree, runs the tests
// that must notice it, and fails where none does. ONLY=<part of a name or a file> tries some of them; JOBS, two where it is
// not given, is how many are tried at a time, each in a copy of its own.
//
//   copies ─▶ the named tests pass ─▶ for each: apply ─▶ compile the file ─▶ a test fails (caught) ─▶ restore
//                                                                        └▶ all pass (survived: a hole)
//
// Tests that fail without a mutation would catch everything, and a mutation that does not compile would prove
// nothing: both are errors. Only the file that is mutated is checked and compiled: the whole tree takes longer than most tests.

import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { cp, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, relative, resolve } from 'node:path';
import ts from 'typescript';
import { faultOf, type Mutation, readMutations } from './lists.js';

/** Options of tap. A test that hangs is one that fails. */
const TAP = ['--reporter=terse', '--timeout=180'];
const NOT_COPIED = new Set(['.git', '.tap', 'data', 'debian13', 'node_modules', 'results']);
/** See `until`: what a mutation keeps from coming need not be waited for as long as on a busy machine. */
const PATIENCE_MS = '30000';
/** A mutation may leave a name unused; that is not what its tests are about. */
const COMPILER_OPTIONS = { noUnusedLocals: false, noUnusedParameters: false, incremental: false };

const { ONLY = '', JOBS = '2' } = process.env;
const mutations = readMutations('.').filter(({ name, file }) => name.includes(ONLY) || file.includes(ONLY));
const faults = mutations.map((mutation) => faultOf('.', mutation)).filter((fault) => fault !== undefined);
if (mutations.length === 0) faults.push(`no mutation has ${ONLY} in its name or file`);
if (faults.length > 0) fail('These mutations do not fit the code:', faults);

const copies = await Promise.all(
  Array.from({ length: Number(JOBS) || 1 }, () => mkdtemp(join(tmpdir(), 'wm-mutate-'))),
);
process.on('exit', () => {
  for (const copy of copies) rmSync(copy, { recursive: true, force: true, maxRetries: 20 });
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
for (const copy of copies) {
  await cp('.', copy, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => !NOT_COPIED.has(basename(path)),
  });
  await symlink(resolve('node_modules'), join(copy, 'node_modules'));
}
const compile = createCompiler();

const tests = [...new Set(mutations.flatMap((mutation) => mutation.tests))];
console.log(`${mutations.length} mutations; first their ${tests.length} test files as they are …`);
const before = await run(copies[0] as string, [...TAP, ...tests]);
if (!before.ok) fail('Without any mutation these tests fail:', [before.output]);

const left: string[] = [];
const waiting = [...mutations];
let tried = 0;
await Promise.all(
  copies.map(async (copy) => {
    for (let mutation = waiting.shift(); mutation !== undefined; mutation = waiting.shift()) {
      const began = performance.now();
      const end = await endOf(copy, mutation);
      if (end !== 'caught')
        left.push(`${end}: ${mutation.name} (${mutation.file}; ${mutation.tests.join(', ')})`);
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      console.log(`${++tried}/${mutations.length} ${end.padEnd(16)} ${seconds} s  ${mutation.name}`);
    }
  }),
);
console.log(`${mutations.length} mutations, ${mutations.length - left.length} caught`);
if (left.length > 0) fail('No test noticed these, or they prove nothing:', left);

/** Leaves the copy as it was. */
async function endOf(copy: string, { file, text, replacement, tests }: Mutation): Promise<string> {
  const source = await readFile(file, 'utf8');
  const mutated = source.split(text).join(replacement);
  const changed = new Map([[file, mutated]]);
  if (file.endsWith('.ts')) {
    const compiled = compile(file, mutated);
    if (compiled === undefined) return 'does not compile';
    for (const [path, content] of compiled) changed.set(path, content);
  }
  const before = await Promise.all(
    [...changed.keys()].map(async (path) => [path, await readFile(join(copy, path))] as const),
  );
  for (const [path, content] of changed) await writeFile(join(copy, path), content);
  try {
    return (await run(copy, [...TAP, ...tests])).ok ? 'SURVIVED' : 'caught';
  } finally {
    for (const [path, content] of before) await writeFile(join(copy, path), content);
  }
}

/** @returns a function that gives the compiled files by path, of a file with this text; undefined where it has an error */
function createCompiler(): (file: string, text: string) => Map<string, string> | undefined {
  const config = ts.getParsedCommandLineOfConfigFile('tsconfig.json', COMPILER_OPTIONS, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (error) =>
      fail('tsconfig.json:', [ts.flattenDiagnosticMessageText(error.messageText, ' ')]),
  });
  if (config === undefined) return fail('tsconfig.json is not there', []);
  let changed = { path: '', text: '', version: 0 };
  const service = ts.createLanguageService({
    getCompilationSettings: () => config.options,
    getScriptFileNames: () => config.fileNames,
    getScriptVersion: (path) => (path === changed.path ? String(changed.version) : '0'),
    getScriptSnapshot: (path) => {
      if (path === changed.path) return ts.ScriptSnapshot.fromString(changed.text);
      return ts.sys.fileExists(path) ? ts.ScriptSnapshot.fromString(readFileSync(path, 'utf8')) : undefined;
    },
    getCurrentDirectory: () => process.cwd(),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
    readDirectory: ts.sys.readDirectory,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  });
  return (file, text) => {
    const path = resolve(file);
    changed = { path, text, version: changed.version + 1 };
    const errors = [...service.getSyntacticDiagnostics(path), ...service.getSemanticDiagnostics(path)];
    if (errors.length > 0) return undefined;
    const { outputFiles } = service.getEmitOutput(path);
    return new Map(outputFiles.map(({ name, text }) => [relative('.', name), text]));
  };
}

/** tap in a copy of the tree. */
function run(copy: string, args: readonly string[]): Promise<{ ok: boolean; output: string }> {
  return new Promise((done, failed) => {
    const child = spawn(join('node_modules/.bin', 'tap'), args, {
      cwd: copy,
      env: { ...process.env, PATIENCE_MS },
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
