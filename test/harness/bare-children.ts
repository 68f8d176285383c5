// tap loads this into the process of each test (package.json), so that what a test starts runs as it does in production:
// tap's own loader, which it hands down in NODE_OPTIONS, notes every file that a process imports. That is for coverage
// alone, and takes each process 0.2 s of CPU.

/** Where the package process-on-spawn keeps what changes the environment of new processes; only tap's loader uses it. */
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');

const { [SPAWNING]: spawning } = globalThis as { [SPAWNING]?: { listeners: unknown[] } };
if (spawning !== undefined) spawning.listeners = [];
