// tap loads this into each test's process (package.json), and its cost is off: it is for coverage, and for the name of the
// subtest whose callback threw. Such an error ends the file, with its stack.

import hooks, { type AsyncHook } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

/** Where the package process-on-spawn keeps what changes the environment of new processes; only tap's loader uses it. */
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');
const { [SPAWNING]: spawning } = globalThis as { [SPAWNING]?: { listeners: unknown[] } };
// Else tap's loader notes every file that a started process imports, in 0.2 s of CPU.
if (spawning !== undefined) spawning.listeners = [];

// Else tap follows every promise and socket, which takes a twentieth of the CPU.
const off: AsyncHook = { enable: () => off, disable: () => off };
hooks.createHook = () => off;
syncBuiltinESMExports();
