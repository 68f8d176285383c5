// `wishmeter flush`: moves events, visits and purchases from REDIS_URL to CLICKHOUSE_URL. Several may run beside each other.

import { flush as startFlushing } from '../app/flush.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings } from './program.js';

export async function flush({ config, log, ready, untilStopped }: Program<'flush'>): Promise<number> {
  const CLICKHOUSE_URL = serviceClickHouse(config);
  requireSettings('flush', { REDIS_URL: config.REDIS_URL, CLICKHOUSE_URL });
  const { close, lost } = await startFlushing(config, log, CLICKHOUSE_URL);
  const stopped = untilStopped(); // before anyone is told
  log.info('flushing');
  ready({});
  try {
    log.info({ signal: await Promise.race([stopped, lost]) }, 'stopping');
  } finally {
    await close();
  }
  return 0;
}
