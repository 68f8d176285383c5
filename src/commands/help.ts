// What `wishmeter help` and `--help` print: the commands, each with its settings and an example, and what settings are
// when not given.

import { FLUSH_SETTINGS, RIGHTS_SETTINGS, SERVE_SETTINGS } from '../app/settings.js';
import { ALL_SETTINGS, type Config, SETTINGS, type SettingName } from '../config.js';

export interface CommandLine {
  /** The command with its arguments. */
  readonly usage: string;
  readonly about: string;
  /** All that it is given. */
  readonly settings: readonly SettingName[];
  readonly example: string;
}

/** How every command logs, and where it finds the databases of a `start`. */
const COMMON = ['DATA_DIR', 'LOG_LEVEL'] as const;
const OF_REDIS = ['REDIS_URL', 'KEY_PREFIX', ...COMMON] as const;
const OF_RIGHTS = [...RIGHTS_SETTINGS, 'CLICKHOUSE_URL', ...COMMON] as const;

export const COMMAND_LINES = {
  start: {
    usage: 'start',
    about: 'everything on this machine: HTTP, flusher, and a Redis and a ClickHouse where none is given',
    settings: ALL_SETTINGS,
    example: 'PORT=9000 DATA_DIR=/var/lib/wishmeter wishmeter start',
  },
  serve: {
    usage: 'serve',
    about: 'one HTTP worker on REDIS_URL',
    settings: [...SERVE_SETTINGS, 'WORKERS', ...COMMON],
    example: 'REDIS_URL=redis://redis:6379 API_KEYS="$KEY" wishmeter serve',
  },
  flush: {
    usage: 'flush',
    about: 'moves events from REDIS_URL to CLICKHOUSE_URL',
    settings: [...FLUSH_SETTINGS, ...COMMON],
    example:
      'REDIS_URL=redis://redis:6379 CLICKHOUSE_URL=http://user:password@clickhouse:8123 wishmeter flush',
  },
  migrate: {
    usage: 'migrate',
    about: 'brings CLICKHOUSE_URL to the schema of this version',
    settings: [
      'VISIT_RETENTION_DAYS',
      'CLICKHOUSE_URL',
      'CLICKHOUSE_DATABASE',
      'CLICKHOUSE_CLUSTER',
      ...COMMON,
    ],
    example: 'CLICKHOUSE_URL=http://user:password@clickhouse:8123 wishmeter migrate',
  },
  sql: {
    usage: 'sql [--format F] [--write] "<query>"',
    about:
      'asks ClickHouse; without a query reads it from stdin; --write as the service and not as an analyst',
    settings: ['CLICKHOUSE_URL', 'CLICKHOUSE_DATABASE', 'CLICKHOUSE_PORT', ...COMMON],
    example: 'wishmeter sql --format JSONEachRow "SELECT * FROM top_products LIMIT 10"',
  },
  dashboard: {
    usage: 'dashboard',
    about: "the shop's figures as a page, from CLICKHOUSE_URL as a user who may read the views",
    settings: [
      'HOST',
      'CLICKHOUSE_URL',
      'CLICKHOUSE_DATABASE',
      'DASHBOARD_PORT',
      'DASHBOARD_TOKEN',
      'LOG_LEVEL',
    ],
    example:
      'CLICKHOUSE_URL=http://analyst:password@clickhouse:8123 DASHBOARD_TOKEN="$TOKEN" wishmeter dashboard',
  },
  dead: {
    usage: 'dead [list | retry | drop]',
    about: 'the events that ClickHouse refused: as JSON lines, back into the stream, or away (ids or --all)',
    settings: OF_REDIS,
    example: 'wishmeter dead retry --all',
  },
  requests: {
    usage: 'requests [list | export <id> | done <id>]',
    about: 'what compliance webhooks have asked for and is open: data of visitors, and erasures',
    settings: OF_RIGHTS,
    example: 'wishmeter requests export 3',
  },
  export: {
    usage: 'export --customer ID | --session ID | --email ADDRESS',
    about: 'all that is kept of a visitor, as JSON',
    settings: OF_RIGHTS,
    example: 'wishmeter export --customer 6940095348933',
  },
  erase: {
    usage: 'erase --customer ID | --session ID | --email ADDRESS',
    about: 'erases a visitor: from Redis now, from ClickHouse within ERASURE_INTERVAL_S',
    settings: OF_RIGHTS,
    example: 'wishmeter erase --email a@shop.example',
  },
} as const satisfies Record<string, CommandLine>;

export type CommandName = keyof typeof COMMAND_LINES;

/** The settings that a command is given. */
export type ConfigOf<Name extends CommandName> = Pick<
  Config,
  (typeof COMMAND_LINES)[Name]['settings'][number]
>;

/** A command line that makes no sense: told with the usage, exit code 2. */
export class UsageError extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'UsageError';
  }
}

/** @throws UsageError where there is no such command */
export function commandNamed(name: string): CommandName {
  if (Object.hasOwn(COMMAND_LINES, name)) return name as CommandName;
  throw new UsageError(`There is no command ${JSON.stringify(name)}.`);
}

/** The short form, for mistakes on the command line. */
export function usage(): string {
  const commands = Object.values(COMMAND_LINES).map(({ usage, about }) => [usage, about]);
  const help = ['help [command]', 'this, and every setting; <command> --help has its own and an example'];
  return `Usage: wishmeter <command>\n\n${table([...commands, help, ['--version', 'of this program']])}\n`;
}

/** Commands and settings. */
export function help(): string {
  return `${usage()}\n${settingsTable(ALL_SETTINGS)}`;
}

export function helpOf(name: CommandName): string {
  const { usage, about, settings, example } = COMMAND_LINES[name];
  return `Usage: wishmeter ${usage}\n\n  ${about}\n\nExample:\n\n  ${example}\n\n${settingsTable(settings)}`;
}

/** In the order of docs/settings.md. */
function settingsTable(names: readonly SettingName[]): string {
  const rows = ALL_SETTINGS.filter((name) => names.includes(name)).map((name) => {
    const { fallback, about } = SETTINGS[name];
    return [name, about.replaceAll('`', ''), fallback && `(${fallback})`];
  });
  return `Settings come from the environment:\n\n${table(rows)}\n`;
}

function table(rows: readonly (readonly string[])[]): string {
  const width = Math.max(...rows.map(([first = '']) => first.length));
  return rows
    .map(([first = '', ...rest]) => `  ${first.padEnd(width)}  ${rest.filter(Boolean).join(' ')}`)
    .join('\n');
}
