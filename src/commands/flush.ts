// `wishmeter flush`: moves data from Redis to ClickHouse. Several processes share the work.

import { flush as startFlushing } from '../app/flush.js';
import { FLUSH_EXTRAS } from '../extras/flush-extras.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings, startWaiting } from './program.js';

export async function flush(program: Program<'flush'>): Promise<number> {
  const { config, log, ready, untilStopped } = program;
  const CLICKHOUSE_URL = serviceClickHouse(config);
  requireSettings('flush', { REDIS_URL: config.REDIS_URL, CLICKHOUSE_URL });
  const flushing = await startWaiting(program, (waiting) =>
    startFlushing(config, log, { clickhouseUrl: CLICKHOUSE_URL, waiting, extras: FLUSH_EXTRAS }),
  );
  if (flushing === undefined) return 0;
  const { close, lost } = flushing;
  const stopped = untilStopped();
  log.info('flushing');
  ready({});
  try {
    log.info({ signal: await Promise.race([stopped, lost]) }, 'stopping');
  } finally {
    await close();
  }
  return 0;
}
