// `wishmeter flush`: moves events from REDIS_URL to CLICKHOUSE_URL. A second one is a stand-by in
// waiting: it takes over by raising the fencing epoch; see src/flush/.

import { flush as startFlushing } from '../app/flush.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings } from './program.js';

export async function flush({ config: given, log, ready, untilStopped }: Program): Promise<number> {
  const config = { ...given, CLICKHOUSE_URL: serviceClickHouse(given) };
  requireSettings('flush', config, 'REDIS_URL', 'CLICKHOUSE_URL');
  const { close, lost } = await startFlushing(config, log);
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
