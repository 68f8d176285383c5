// `wishmeter deliver`: sends events to receivers. Several processes share the work.

import { deliver as startDelivering } from '../extras/receivers/deliver.js';
import { type Program, requireSettings, startWaiting } from './program.js';

export async function deliver(program: Program<'deliver'>): Promise<number> {
  const { config, log, ready, untilStopped } = program;
  requireSettings('deliver', { REDIS_URL: config.REDIS_URL });
  const delivering = await startWaiting(program, (waiting) => startDelivering(config, log, waiting));
  if (delivering === undefined) return 0;
  const stopped = untilStopped();
  log.info('delivering');
  ready({});
  log.info({ signal: await stopped }, 'stopping');
  await delivering.close();
  return 0;
}
