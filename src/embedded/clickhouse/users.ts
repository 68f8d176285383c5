// The users of the embedded ClickHouse, and what each may do. ClickHouse itself enforces it: chDB reads users,
// roles and grants from a file as a server does (see access.ts). It knows one user, `default`, for all
// connections; so each of ours has a role, and every request begins with SET ROLE.

import { createHmac } from 'node:crypto';
import { isSameSecret } from '../../key-ring.js';

/** `service` writes events and owns the schema; `analyst` reads what analysts are shown. */
export type Role = 'service' | 'analyst';

/** The dashboard reads as the analyst does. A user of its own gives it places that no analyst can take. */
export type User = Role | 'dashboard';

/** The service's own user; its password is in the file of service-url.ts. */
export const SERVICE_USER = 'wishmeter';
/** The user of analysts. No password: the interface listens on loopback, and this user can only read. */
const ANALYST_USER = 'analyst';
const DASHBOARD_USER = 'dashboard';
/** A caller that names no user is `default` to ClickHouse and to its clients. Here that is the analyst. */
const UNNAMED = ['', 'default'];

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export function roleOf(user: User): Role {
  return user === 'dashboard' ? 'analyst' : user;
}

/** Derived from the service's, so that there is one secret to keep; it doesn't lead back to it. */
function dashboardPassword(servicePassword: string): string {
  return createHmac('sha256', servicePassword).update(DASHBOARD_USER).digest('base64url');
}

/** The service's URL -> the dashboard's. */
export function asDashboard(serviceUrl: string): string {
  const url = new URL(serviceUrl);
  url.username = DASHBOARD_USER;
  url.password = dashboardPassword(url.password);
  return url.href;
}

/** Undefined where the credentials are no user's. */
export function userOf({ user, password }: Credentials, servicePassword: string): User | undefined {
  if (user === SERVICE_USER) return isSameSecret(password, servicePassword) ? 'service' : undefined;
  if (user === DASHBOARD_USER)
    return isSameSecret(password, dashboardPassword(servicePassword)) ? 'dashboard' : undefined;
  return (user === ANALYST_USER || UNNAMED.includes(user)) && password === '' ? 'analyst' : undefined;
}

/**
 * Settings that the analyst may give with a request: limits and the look of answers, none that names a file or an
 * expression.
 */
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
