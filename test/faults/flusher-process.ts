// A flusher that kills or freezes itself at a step, so that no test depends on timing. Its argument is its
// spec as JSON.

import { pino } from 'pino';
import { createClickHouse } from '../../src/clickhouse/client.js';
import { openHandOver } from '../../src/extras/receivers/hand-over.js';
import { startFlusher } from '../../src/flush/flusher.js';
import { connectRedis } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';

/** `read`: before the flusher reads the erasures; `inserting`: before it sends the insert. */
export type Step = 'read' | 'inserting' | 'inserted' | 'handedOver' | 'acknowledged';

export interface ProcessSpec {
  readonly redisUrls: readonly string[];
  readonly prefix: string;
  readonly streams: number;
  readonly clickhouseUrl: string;
  readonly database: string;
  readonly abandonedMs?: number;
  readonly at?: { readonly step: Step; readonly signal: 'SIGKILL' | 'SIGSTOP' };
}

const spec = JSON.parse(process.argv[2] ?? '') as ProcessSpec;
const redis = await connectRedis({ urls: spec.redisUrls, name: 'flusher', timeoutMs: 5_000 }, () => {});
let armed = spec.at?.step;
const reached = (step: Step) => {
  if (armed !== step) return;
  armed = undefined;
  process.kill(process.pid, spec.at?.signal);
  // The process stops when SIGSTOP is delivered, which may be some instructions later.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
};

const keys = createKeys(spec.prefix);
const log = pino({ level: 'silent' });
const { handOver } = openHandOver(redis, keys, 1e9, log);

let isHandedOver = false;
const observe = (command: 'hscan' | 'xreadgroupBuffer', before: (args: unknown[]) => void) => {
  const call = redis[command] as (...args: unknown[]) => unknown;
  Object.assign(redis, {
    [command](...args: unknown[]) {
      before(args);
      return call.apply(redis, args);
    },
  });
};
observe('hscan', () => reached('read'));
// The next read comes after the acknowledgement.
observe('xreadgroupBuffer', (args) => {
  if (isHandedOver && args.at(-2) === keys.events(0) && args.at(-1) === '>') reached('acknowledged');
});

const clickhouse = createClickHouse(spec.clickhouseUrl, spec.database);
const { exec } = clickhouse;
clickhouse.exec = (params) => {
  reached('inserting');
  return exec.call(clickhouse, params);
};
const flusher = startFlusher({
  redis,
  keys,
  clickhouse,
  async handOver(...batch) {
    reached('inserted');
    await handOver(...batch);
    reached('handedOver');
    isHandedOver = true;
  },
  intervalMs: 20,
  abandonedMs: spec.abandonedMs,
  log,
});

process.once('SIGTERM', async () => {
  await flusher.close();
  process.exit(0);
});
process.send?.('started');
