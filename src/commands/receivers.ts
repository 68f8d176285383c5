// `wishmeter receivers`: the operations of /receivers, and `replay`, which sends past events again.

import { createClickHouse } from '../clickhouse/client.js';
import { ServiceError, StartupError } from '../errors.js';
import { type OpenReceivers, openReceivers } from '../extras/receivers/deliver.js';
import { type Replay, replay } from '../extras/receivers/replay.js';
import { readReceiver } from '../extras/receivers/schemas.js';
import { UsageError } from './command-line.js';
import { redisUrls, serviceClickHouse } from './embedded-databases.js';
import type { Program } from './program.js';

const USAGE =
  'receivers takes list, add <url> <type>,…, pause <id>, resume <id>, test <id> or replay <id> --since <time>.';
const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

export async function receivers(program: Program<'receivers'>): Promise<number> {
  const { config, log, stdout } = program;
  const act = actionOf(program);
  const opened = await openReceivers(config, log, redisUrls(config));
  try {
    for (const line of await act(opened)) stdout.write(`${JSON.stringify(line)}\n`);
    return 0;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const faults = error.issues?.map(({ path, message }) => `${path.slice(1)} ${message}`).join('; ');
    throw new StartupError(faults ? `${error.message} ${faults}.` : error.message);
  } finally {
    await opened.close();
  }
}

function actionOf({ config, operands, options }: Program<'receivers'>) {
  const [action = 'list', id = '', types, ...more] = operands;
  const isWhole = more.length === 0 && (action === 'add') === (types !== undefined);
  if (
    !isWhole ||
    (action === 'list') !== (id === '') ||
    (action === 'replay') !== (options.since !== undefined)
  )
    throw new UsageError(USAGE);
  const clickhouseUrl = serviceClickHouse(config);
  const database = config.CLICKHOUSE_DATABASE;
  const since = options.since === undefined ? 0 : readSince(options.since);
  const actions: Readonly<Record<string, (opened: OpenReceivers) => Promise<readonly object[]>>> = {
    list: async ({ receivers: all }) => Promise.all((await all.list()).map((one) => all.describe(one))),
    async add({ receivers: all }) {
      const asked = { url: id, types: types?.split(','), includePersonal: options.personal === true };
      return [all.describeNew(await all.add(readReceiver(asked, all.addresses)))];
    },
    pause: async ({ receivers: all }) => [await all.describe(await all.change(id, { isEnabled: false }))],
    resume: async ({ receivers: all }) => [await all.describe(await all.change(id, { isEnabled: true }))],
    test: async ({ receivers: all }) => [await all.test(id)],
    replay: async (opened) => [{ queued: await replayTo(opened, { id, since }, clickhouseUrl, database) }],
  };
  const chosen = actions[action];
  if (chosen === undefined) throw new UsageError(USAGE);
  return chosen;
}

async function replayTo(
  { store, receivers: all }: OpenReceivers,
  { id, since }: Pick<Replay, 'id' | 'since'>,
  clickhouseUrl: string,
  database: string,
): Promise<number> {
  if (clickhouseUrl === '')
    throw new StartupError('There is no ClickHouse to replay from: set CLICKHOUSE_URL.');
  const clickhouse = createClickHouse(clickhouseUrl, database);
  try {
    return await replay({ clickhouse, store, receivers: all, id, since });
  } finally {
    await clickhouse.close();
  }
}

/** Parses a time of ISO 8601, or an age such as `90m`, `24h` or `3d`. */
function readSince(text: string): number {
  const [, count, unit = ''] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  const since = count === undefined ? Date.parse(text) : Date.now() - Number(count) * (UNIT_MS[unit] ?? 0);
  if (Number.isNaN(since))
    throw new UsageError('--since takes a time, as 2026-11-26T10:00:00Z, or 90m, 24h, 3d.');
  return since;
}
