// A parent to kill: starts one child and reports it over IPC. Arguments: the child, and ClickHouse's folder or stopMs.

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
