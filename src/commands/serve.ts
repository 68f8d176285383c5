// `wishmeter serve`: one HTTP worker. Several may share a port, one per core.

import { setFlagsFromString } from 'node:v8';
import { serve as startServing } from '../app/serve.js';
import { EXTRAS } from '../extras/extras.js';
import { serviceClickHouse } from './embedded-databases.js';
import { type Program, requireSettings, startWaiting } from './program.js';
import { WorkerSiblings } from './siblings.js';

// Visits pass through many small functions and subclasses, for which V8's defaults take 4 % more CPU.
setFlagsFromString('--max-inlined-bytecode-size-cumulative=4000');
setFlagsFromString('--no-omit-default-ctors');

export async function serve(program: Program<'serve'>): Promise<number> {
  const { config, log, ready, untilStopped, channel, orphaned } = program;
  requireSettings('serve', { REDIS_URL: config.REDIS_URL });
  if ([config.API_KEYS, config.PUBLISHABLE_KEYS, config.SHOPIFY_SECRET].every(({ length }) => length === 0))
    log.warn('no caller may save items or record events: set API_KEYS, or SHOPIFY_SECRET');
  const siblings = channel && config.WORKERS > 1 ? new WorkerSiblings(channel, config.WORKERS) : undefined;
  const serving = await startWaiting(program, (waiting) =>
    startServing(config, log, {
      extras: EXTRAS,
      siblings,
      waiting,
      clickhouseUrl: () => serviceClickHouse(config),
    }),
  );
  if (serving === undefined) return 0;
  const { port, uws, drain, close } = serving;
  const stopped = untilStopped();
  log.info({ host: config.HOST, port, uws }, 'serving');
  ready({ port });
  log.info({ signal: await stopped }, 'stopping');
  await drain(orphaned);
  await close();
  return 0;
}
