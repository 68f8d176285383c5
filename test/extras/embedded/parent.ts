// A parent for the tests to kill: starts one child, reports it over IPC, and waits for its own end. Its arguments: what to
// start, and the folder of ClickHouse or the milliseconds that a stubborn child has after SIGTERM.

import { startChild } from '../../../src/extras/embedded/child.js';
import { startClickHouse } from '../../../src/extras/embedded/clickhouse/start.js';

const [what, setting = ''] = process.argv.slice(2);

const stubborn = async () => {
  const { pid } = await startChild({
    name: 'stubborn',
    command: () => ({ file: '/bin/sh', args: ['-c', "trap '' TERM; echo up; while :; do sleep 1; done"] }),
    ready: (child) => new Promise<void>((up) => child.stdout?.once('data', () => up())),
    output: 'tail',
    stopMs: Number(setting),
  });
  return { url: '', pid };
};

const started = what === 'clickhouse' ? await startClickHouse({ dir: setting }) : await stubborn();
process.send?.({ url: started.url, pid: started.pid });
setInterval(() => {}, 60_000);
