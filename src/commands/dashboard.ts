// `wishmeter dashboard`: serves pages with the shop's figures and its receivers.

import { Waiting } from '../app/waiting.js';
import { StartupError } from '../errors.js';
import { dashboard as serveDashboard } from '../extras/dashboard/dashboard.js';
import { type Program, requireSettings } from './program.js';

export async function dashboard(program: Program<'dashboard'>): Promise<number> {
  const { config, log, ready, untilStopped, channel } = program;
  requireSettings('dashboard', { CLICKHOUSE_URL: config.CLICKHOUSE_URL });
  if (config.DASHBOARD_TOKEN === '') {
    throw new StartupError(
      '`wishmeter dashboard` needs DASHBOARD_TOKEN, 16 or more visible characters that open it; `openssl rand -base64 24` makes one.',
    );
  }
  const stopped = untilStopped();
  const waiting = channel === undefined ? new Waiting(log) : undefined;
  const { port, close, refused } = await serveDashboard(config, log, waiting);
  try {
    log.info({ host: config.HOST, port }, 'dashboard');
    ready({ port });
    log.info({ signal: await Promise.race([stopped, refused]) }, 'stopping');
  } finally {
    await close();
  }
  return 0;
}
