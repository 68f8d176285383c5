// Loaded into each test's process (package.json). Turns off what tap does there for coverage, and to find the subtest of an
// uncaught error. Such an error ends the file, with its stack.

import hooks, { type AsyncHook } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';

/** Where the package process-on-spawn keeps what changes the environment of new processes; only tap's loader uses it. */
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');
const { [SPAWNING]: spawning } = globalThis as { [SPAWNING]?: { listeners: unknown[] } };
// Else tap's loader notes every file that a started process imports, in 0.2 s of CPU.
if (spawning !== undefined) spawning.listeners = [];
// Tests are short: V8 optimizes later, which saves a twentieth of the CPU. Later versions of Node have no such flag.
if (process.version.startsWith('v20.')) setFlagsFromString('--interrupt-budget=1000000');

// Else tap follows every promise and socket, which takes a twentieth of the CPU.
const off: AsyncHook = { enable: () => off, disable: () => off };
hooks.createHook = () => off;
syncBuiltinESMExports();
