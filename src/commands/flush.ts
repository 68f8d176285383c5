// `wishmeter flush`: moves events from REDIS_URL to CLICKHOUSE_URL. A second one is a stand-by in
// waiting: it takes over by raising the fencing epoch; see src/flush/.

import { flush as startFlushing } from '../app.js';
import { type Program, requireSettings } from './program.js';

export async function flush({ config, log, ready, untilStopped }: Program): Promise<number> {
  requireSettings('flush', config, 'REDIS_URL', 'CLICKHOUSE_URL');
  const { close } = await startFlushing(config, log);
  log.info('flushing');
  ready({});
  log.info({ signal: await untilStopped() }, 'stopping');
  await close();
  return 0;
}
