// The table of commands.

import { parseArgs } from 'node:util';
import { FLUSH_SETTINGS, SERVE_SETTINGS } from '../app/settings.js';
import type { Config, SettingName } from '../config.js';
import {
  DASHBOARD_SETTINGS,
  DELIVER_SETTINGS,
  EXTRAS_SETTINGS,
  FLUSH_EXTRAS_SETTINGS,
  IMPORT_SETTINGS,
  RECEIVERS_SETTINGS,
  RIGHTS_SETTINGS,
} from '../extras/settings.js';

interface Option {
  readonly type: 'string' | 'boolean';
  readonly short?: string;
  readonly value?: string;
}

export interface CommandLine {
  readonly about: string;
  readonly options?: Readonly<Record<string, Option>>;
  readonly operands?: string;
  readonly settings: readonly SettingName[];
  readonly fallbacks?: Readonly<Partial<Record<SettingName, string>>>;
  /** The database of this command if the URL is empty; SETTINGS has that of `start`. */
  readonly ifEmpty?: Readonly<Partial<Record<'REDIS_URL' | 'CLICKHOUSE_URL', string>>>;
  readonly atTerminal?: Readonly<Partial<Record<SettingName, string>>>;
  readonly example: string;
}

const COMMON = ['DATA_DIR', 'LOG_LEVEL'] as const;
const OF_RIGHTS = [...RIGHTS_SETTINGS, 'CLICKHOUSE_URL', ...COMMON] as const;
export const OF_START = ['WORKERS', 'REDIS_FSYNC', 'CLICKHOUSE_PORT', 'ANALYST_MAX_SECONDS'] as const;
const OF_BACKUPS = [
  'REDIS_URL',
  'KEY_PREFIX',
  'CLICKHOUSE_URL',
  'CLICKHOUSE_DATABASE',
  'CLICKHOUSE_CLUSTER',
  ...COMMON,
] as const;
const REFUSES = 'it does not start';
const OF_RUNNING_START = 'that of the `start` that runs in DATA_DIR';
const REDIS_OF_START = { REDIS_URL: OF_RUNNING_START };
const CLICKHOUSE_OF_START = { CLICKHOUSE_URL: OF_RUNNING_START };
const FOR_EXPORTS = {
  ...REDIS_OF_START,
  CLICKHOUSE_URL: `${OF_RUNNING_START}, else exports lack its rows`,
};
const BOTH_OF_START = { ...REDIS_OF_START, ...CLICKHOUSE_OF_START };
const VISITOR = {
  customer: { type: 'string', value: 'ID' },
  session: { type: 'string', value: 'ID' },
  email: { type: 'string', value: 'ADDRESS' },
} as const;

export const COMMAND_LINES = {
  start: {
    about: 'runs everything on this machine, with its own Redis and ClickHouse if no URL is set',
    settings: [
      ...OF_START,
      ...SERVE_SETTINGS,
      ...EXTRAS_SETTINGS,
      ...FLUSH_SETTINGS,
      ...DELIVER_SETTINGS,
      ...DASHBOARD_SETTINGS,
      ...COMMON,
    ],
    fallbacks: { HOST: '127.0.0.1' },
    // On a terminal, no load balancer needs time to drain, and log lines would hide the banner.
    atTerminal: { DRAIN_MS: '0', LOG_LEVEL: 'warn' },
    example: 'PORT=9000 DATA_DIR=/var/lib/wishmeter wishmeter start',
  },
  serve: {
    about: 'runs one HTTP worker',
    settings: [...SERVE_SETTINGS, ...EXTRAS_SETTINGS, 'WORKERS', ...COMMON],
    ifEmpty: { ...FOR_EXPORTS, REDIS_URL: REFUSES },
    example: 'REDIS_URL=redis://redis:6379 API_KEYS="$KEY" wishmeter serve',
  },
  flush: {
    about: 'moves events, visits and purchases from Redis to ClickHouse',
    settings: [...FLUSH_SETTINGS, ...FLUSH_EXTRAS_SETTINGS, ...COMMON],
    ifEmpty: {
      REDIS_URL: REFUSES,
      CLICKHOUSE_URL: `${OF_RUNNING_START}, else ${REFUSES}`,
    },
    example:
      'REDIS_URL=redis://redis:6379 CLICKHOUSE_URL=http://user:password@clickhouse:8123 wishmeter flush',
  },
  deliver: {
    about: 'sends events to receivers',
    settings: [...DELIVER_SETTINGS, 'LOG_LEVEL'],
    ifEmpty: { REDIS_URL: REFUSES },
    example: 'REDIS_URL=redis://redis:6379 wishmeter deliver',
  },
  receivers: {
    about: 'lists, adds, pauses, resumes or tests receivers, or sends past events again',
    options: { since: { type: 'string', value: 'TIME' }, personal: { type: 'boolean' } },
    operands: '[list | add <url> <type>,… | pause <id> | resume <id> | test <id> | replay <id>]',
    settings: [...RECEIVERS_SETTINGS, 'CLICKHOUSE_URL', 'CLICKHOUSE_DATABASE', ...COMMON],
    ifEmpty: BOTH_OF_START,
    example: 'wishmeter receivers add https://hooks.shop.example/wishes add,purchase',
  },
  migrate: {
    about: 'brings ClickHouse to the schema of this version; --yes lets given settings change it',
    options: { yes: { type: 'boolean' } },
    settings: [
      'VISIT_RETENTION_DAYS',
      'SHOP_TIMEZONE',
      'CLICKHOUSE_URL',
      'CLICKHOUSE_DATABASE',
      'CLICKHOUSE_CLUSTER',
      ...COMMON,
    ],
    ifEmpty: CLICKHOUSE_OF_START,
    example: 'CLICKHOUSE_URL=http://user:password@clickhouse:8123 wishmeter migrate',
  },
  sql: {
    about: 'runs a query of an analyst, else what stdin has; with --write as the service',
    options: { format: { type: 'string', short: 'f', value: 'F' }, write: { type: 'boolean' } },
    operands: '["<query>"]',
    settings: ['CLICKHOUSE_URL', 'CLICKHOUSE_DATABASE', 'CLICKHOUSE_PORT', ...COMMON],
    ifEmpty: { CLICKHOUSE_URL: `${OF_RUNNING_START}, or at CLICKHOUSE_PORT` },
    example: 'wishmeter sql --format JSONEachRow "SELECT * FROM top_products LIMIT 10"',
  },
  dashboard: {
    about:
      "serves pages of the shop's figures, from ClickHouse, of its receivers and, with DASHBOARD_VISITORS, of visitors",
    settings: [...DASHBOARD_SETTINGS, 'LOG_LEVEL'],
    // Other machines must reach the dashboard through a proxy, which has TLS.
    fallbacks: { HOST: '127.0.0.1' },
    ifEmpty: { REDIS_URL: 'receivers are not shown', CLICKHOUSE_URL: REFUSES },
    example:
      'CLICKHOUSE_URL=http://analyst:password@clickhouse:8123 DASHBOARD_TOKEN="$TOKEN" wishmeter dashboard',
  },
  report: {
    about: 'prints the last weeks on one page, as markdown to post or html to mail',
    options: { weeks: { type: 'string', value: 'N' }, format: { type: 'string', short: 'f', value: 'F' } },
    settings: [
      'SHOP_URL',
      'SHOP_NAME',
      'PRODUCT_URL',
      'SHOP_TIMEZONE',
      'CLICKHOUSE_URL',
      'CLICKHOUSE_DATABASE',
      'CLICKHOUSE_PORT',
      ...COMMON,
    ],
    ifEmpty: { CLICKHOUSE_URL: `${OF_RUNNING_START}, or at CLICKHOUSE_PORT` },
    example: 'SHOP_URL=https://shop.example wishmeter report --weeks 1 --format html',
  },
  dead: {
    about: 'lists, retries or drops the events that ClickHouse refused',
    options: { all: { type: 'boolean' } },
    operands: '[list | retry | drop] [<id> …]',
    settings: ['REDIS_URL', 'KEY_PREFIX', ...COMMON],
    ifEmpty: REDIS_OF_START,
    example: 'wishmeter dead retry --all',
  },
  requests: {
    about:
      "lists what Shopify's compliance webhooks asked for, exports data, closes it, confirms a shop's erasure",
    operands: '[list | export <id> | done <id> | confirm <id>]',
    settings: OF_RIGHTS,
    ifEmpty: FOR_EXPORTS,
    example: 'wishmeter requests export 3',
  },
  import: {
    about: 'brings old wishlists onto the lists, from CSV or NDJSON; - is standard input',
    options: { 'dry-run': { type: 'boolean' }, emails: { type: 'string', value: 'FILE' } },
    operands: '<file>',
    settings: [...IMPORT_SETTINGS, ...COMMON],
    ifEmpty: REDIS_OF_START,
    example: 'wishmeter import --dry-run --emails customers.csv old-wishlists.csv',
  },
  export: {
    about: 'prints all data of a visitor, as JSON',
    options: VISITOR,
    settings: OF_RIGHTS,
    ifEmpty: FOR_EXPORTS,
    example: 'wishmeter export --customer 6940095348933',
  },
  erase: {
    about: 'erases a visitor: from Redis now, from ClickHouse within ERASURE_INTERVAL_S',
    options: VISITOR,
    settings: OF_RIGHTS,
    ifEmpty: BOTH_OF_START,
    example: 'wishmeter erase --email a@shop.example',
  },
  backup: {
    about: 'copies all data of Redis and ClickHouse into a new folder, while the service runs',
    operands: '<folder>',
    settings: OF_BACKUPS,
    ifEmpty: BOTH_OF_START,
    example: 'wishmeter backup /var/backups/wishmeter/2026-03-01',
  },
  restore: {
    about: 'puts a backup into empty databases, those of the URLs or new ones in DATA_DIR',
    options: { only: { type: 'string', value: 'redis|clickhouse' } },
    operands: '<folder>',
    settings: OF_BACKUPS,
    ifEmpty: {
      REDIS_URL: 'a new one in DATA_DIR, for `start`',
      CLICKHOUSE_URL: 'a new one in DATA_DIR, for `start`',
    },
    example: 'wishmeter restore /var/backups/wishmeter/2026-03-01',
  },
} as const satisfies Record<string, CommandLine>;

export type CommandName = keyof typeof COMMAND_LINES;
type Row<Name extends CommandName> = (typeof COMMAND_LINES)[Name];

export type ConfigOf<Name extends CommandName> = Pick<Config, Row<Name>['settings'][number]>;

export type OptionsOf<Name extends CommandName> =
  Row<Name> extends { options: infer Options }
    ? { readonly [O in keyof Options]?: Options[O] extends { type: 'string' } ? string : boolean }
    : unknown;

/** An error that is printed with the usage, and has the exit code 2. */
export class UsageError extends Error {
  constructor(sentence: string) {
    super(sentence);
    this.name = 'UsageError';
  }
}

export function commandNamed(name: string): CommandName {
  if (Object.hasOwn(COMMAND_LINES, name)) return name as CommandName;
  throw new UsageError(`There is no command ${JSON.stringify(name)}.`);
}

export interface Arguments<Name extends CommandName> {
  readonly options: OptionsOf<Name>;
  readonly operands: readonly string[];
  readonly isHelp: boolean;
}

export function readArguments<Name extends CommandName>(
  name: Name,
  args: readonly string[],
): Arguments<Name> {
  const { options, operands }: CommandLine = COMMAND_LINES[name];
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { ...options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: operands !== undefined,
    });
    const isHelp = values.help === true;
    return { options: values as OptionsOf<Name>, operands: positionals, isHelp };
  } catch (error) {
    const [why] = (error as Error).message.split('. ');
    throw new UsageError(
      `${name}: ${why}. Settings come from the environment, as in PORT=9000 wishmeter start.`,
    );
  }
}
