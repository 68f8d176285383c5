// A parent for the tests to kill: starts what it is told to, says so over IPC, and waits for its end.

import { startChild } from '../../src/embedded/child.js';
import { startClickHouse } from '../../src/embedded/clickhouse.js';
import { startRedis } from '../../src/embedded/redis.js';

const [what, dir = ''] = process.argv.slice(2);

const stubborn = async () => {
  const { pid } = await startChild({
    name: 'stubborn',
    command: () => ({ file: '/bin/sh', args: ['-c', "trap '' TERM; echo up; while :; do sleep 1; done"] }),
    ready: (child) => new Promise<void>((up) => child.stdout?.once('data', () => up())),
    output: 'tail',
    stopMs: 1_000,
  });
  return { url: '', pid };
};

const started =
  what === 'redis'
    ? await startRedis({ dir })
    : what === 'clickhouse'
      ? await startClickHouse({ dir })
      : await stubborn();
process.send?.({ url: started.url, pid: started.pid });
setInterval(() => {}, 60_000);
