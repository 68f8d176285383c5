// `wishmeter dashboard`: serves pages with the shop's figures and its receivers.

import { Waiting } from '../app/waiting.js';
import { StartupError } from '../errors.js';
import { dashboard as serveDashboard } from '../extras/dashboard/dashboard.js';
import type { ConfigOf } from './command-line.js';
import { type Program, requireSettings } from './program.js';

export async function dashboard(program: Program<'dashboard'>): Promise<number> {
  const { config, log, ready, untilStopped, channel } = program;
  requireSettings('dashboard', { CLICKHOUSE_URL: config.CLICKHOUSE_URL });
  if (config.DASHBOARD_TOKEN === '') {
    throw new StartupError(
      '`wishmeter dashboard` needs DASHBOARD_TOKEN, 16 or more visible characters that open it; `openssl rand -base64 24` makes one.',
    );
  }
  checkLogins(config);
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

/** Also for `start`, which sets DASHBOARD_API_URL and DASHBOARD_API_KEY. @throws StartupError */
export function checkLogins(
  config: Pick<
    ConfigOf<'dashboard'>,
    'DASHBOARD_TOKEN' | 'DASHBOARD_LOGINS' | 'DASHBOARD_VISITORS' | 'DASHBOARD_API_URL' | 'DASHBOARD_API_KEY'
  >,
): void {
  const { DASHBOARD_TOKEN, DASHBOARD_LOGINS, DASHBOARD_API_URL, DASHBOARD_API_KEY } = config;
  if (DASHBOARD_LOGINS.some(({ token }) => token === DASHBOARD_TOKEN))
    throw new StartupError(
      'DASHBOARD_LOGINS has the token of DASHBOARD_TOKEN; give each login one of its own.',
    );
  if (config.DASHBOARD_VISITORS === 'off') return;
  const needed = { DASHBOARD_LOGINS, DASHBOARD_API_URL, DASHBOARD_API_KEY };
  const missing = Object.entries(needed).filter(([, value]) => value.length === 0);
  if (missing.length > 0)
    throw new StartupError(
      `DASHBOARD_VISITORS=on needs ${missing.map(([name]) => name).join(' and ')}; docs/settings.md says what they are.`,
    );
}
