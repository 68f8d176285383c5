// tap loads this into each test's process (package.json), so that what a test starts runs as in production: tap's own loader,
// handed down in NODE_OPTIONS, notes every imported file, for coverage alone, and takes each process 0.2 s of CPU.

/** Where the package process-on-spawn keeps what changes the environment of new processes; only tap's loader uses it. */
const SPAWNING = Symbol.for('process-on-spawn@*:singletonId');

const { [SPAWNING]: spawning } = globalThis as { [SPAWNING]?: { listeners: unknown[] } };
if (spawning !== undefined) spawning.listeners = [];
