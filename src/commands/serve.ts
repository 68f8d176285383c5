// `wishmeter serve`: one HTTP worker on REDIS_URL. Several may share a port, one per core.

import { serve as startServing } from '../app.js';
import { type Program, requireSettings } from './program.js';
import { openSiblings } from './siblings.js';

export async function serve({ config, log, ready, untilStopped, channel }: Program): Promise<number> {
  requireSettings('serve', config, 'REDIS_URL');
  const { port, close } = await startServing(
    config,
    log,
    channel && config.WORKERS > 1 ? (tell) => openSiblings(channel, tell) : undefined,
  );
  log.info({ host: config.HOST, port }, 'serving');
  ready({ port });
  log.info({ signal: await untilStopped() }, 'stopping');
  await close();
  return 0;
}
