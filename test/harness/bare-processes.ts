// Loaded into each test's process (package.json). Turns off tap's hooks for coverage, and those that find the
// subtest of an uncaught error. Such an error ends the file, with its stack.

import hooks, { type AsyncHook } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import process from 'node:process';
import { setFlagsFromString } from 'node:v8';

/**
 * The key of the package process-on-spawn, whose hooks change the environment of new processes; only tap's
 * loader uses it.
 */
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');
const { [SPAWNING]: spawning } = globalThis as { [SPAWNING]?: { listeners: unknown[] } };
// Otherwise tap's loader notes every file that a started process imports, which takes 0.2 s of CPU.
if (spawning !== undefined) spawning.listeners = [];
// Tests are short: if V8 optimizes later, they use 5 % less CPU. Later versions of Node have no such flag.
if (process.version.startsWith('v20.')) setFlagsFromString('--interrupt-budget=1000000');

// Otherwise tap follows every promise and socket, which takes 5 % of the CPU.
const off: AsyncHook = { enable: () => off, disable: () => off };
hooks.createHook = () => off;
syncBuiltinESMExports();
