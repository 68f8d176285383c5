// `wishmeter deliver`: sends events to receivers. Several share the work; see src/receivers/.

import { deliver as startDelivering } from '../app/deliver.js';
import { type Program, requireSettings } from './program.js';

export async function deliver({ config, log, ready, untilStopped }: Program<'deliver'>): Promise<number> {
  requireSettings('deliver', { REDIS_URL: config.REDIS_URL });
  const { close } = await startDelivering(config, log);
  const stopped = untilStopped(); // before anyone is told
  log.info('delivering');
  ready({});
  log.info({ signal: await stopped }, 'stopping');
  await close();
  return 0;
}
