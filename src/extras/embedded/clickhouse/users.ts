// The embedded ClickHouse's users. All connections of chDB share one user of ClickHouse, so our users are its roles:
// each request begins with SET ROLE, and ClickHouse enforces the role's grants (access.ts).

import { createHmac } from 'node:crypto';
import { isSameSecret } from '../../../key-ring.js';

export type Role = 'service' | 'analyst';

/** The dashboard has the analyst's role, but slots of its own. */
export type User = Role | 'dashboard';

export const SERVICE_USER = 'wishmeter';
/** The analyst has no password, because it can only read, and only on loopback. */
const ANALYST_USER = 'analyst';
const DASHBOARD_USER = 'dashboard';
const UNNAMED = ['', 'default'];

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export function roleOf(user: User): Role {
  return user === 'dashboard' ? 'analyst' : user;
}

/** Derives the password one-way from the service's, the only one that is stored. */
function dashboardPassword(servicePassword: string): string {
  return createHmac('sha256', servicePassword).update(DASHBOARD_USER).digest('base64url');
}

export function asDashboard(serviceUrl: string): string {
  const url = new URL(serviceUrl);
  url.username = DASHBOARD_USER;
  url.password = dashboardPassword(url.password);
  return url.href;
}

export function userOf({ user, password }: Credentials, servicePassword: string): User | undefined {
  if (user === SERVICE_USER) return isSameSecret(password, servicePassword) ? 'service' : undefined;
  if (user === DASHBOARD_USER)
    return isSameSecret(password, dashboardPassword(servicePassword)) ? 'dashboard' : undefined;
  return (user === ANALYST_USER || UNNAMED.includes(user)) && password === '' ? 'analyst' : undefined;
}

/** The analyst may set limits and output formats, but nothing that names a file or contains an expression. */
const ANALYST_SETTINGS = new RegExp(
  `^(${[
    '(max|min)_(?!memory_usage_for_user$|untracked_memory$)\\w+',
    'output_format_(?!schema$)\\w+',
    'format_csv_(delimiter|null_representation)',
    'format_tsv_null_representation',
    'join_(use_nulls|algorithm)',
    '(result|read|group_by|sort|join|distinct|set|timeout)_overflow_mode',
    '(connect|receive|send|lock_acquire)_timeout',
    'http_\\w+',
    'send_progress_in_http_headers',
    'cancel_http_readonly_queries_on_client_close',
    'date_time_(in|out)put_format',
    'cast_string_to_dynamic_use_inference',
    'session_timezone',
    '(enable|allow_experimental)_analyzer',
    'final|extremes|limit|offset|log_comment|prefer_column_name_to_alias|union_default_mode',
  ].join('|')})$`,
);

export function mayAnalystSet(setting: string): boolean {
  return ANALYST_SETTINGS.test(setting);
}
