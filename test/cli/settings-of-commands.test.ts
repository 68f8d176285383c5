// `--help` of a command lists the settings that it reads. That none is missing the types hold: a command is given no
// other. Here each runs to its end, and the settings that it reads on the way are the whole list.

import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t from 'tap';
import { dashboard } from '../../src/commands/dashboard.js';
import { dead } from '../../src/commands/dead.js';
import { flush } from '../../src/commands/flush.js';
import { COMMAND_LINES, type CommandName } from '../../src/commands/help.js';
import { migrate } from '../../src/commands/migrate.js';
import type { Command, Program } from '../../src/commands/program.js';
import { requests } from '../../src/commands/requests.js';
import { serve } from '../../src/commands/serve.js';
import { shards } from '../../src/commands/shards.js';
import { sql } from '../../src/commands/sql.js';
import { erase, exportVisitor } from '../../src/commands/visitor.js';
import { readConfig, type SettingName } from '../../src/config.js';
import { KEY } from '../harness/app.js';
import { startStores } from '../harness/stores.js';

/** Each but `start`, which hands all of them to its children, with arguments. In an order in which each finds data. */
const COMMANDS: { readonly [Name in Exclude<CommandName, 'start'>]: readonly [Command<Name>, ...string[]] } =
  {
    migrate: [migrate],
    serve: [serve],
    flush: [flush],
    sql: [sql, 'SELECT 1'],
    dashboard: [dashboard],
    dead: [dead],
    shards: [shards],
    requests: [requests],
    export: [exportVisitor, '--session', 's'],
    erase: [erase, '--session', 's'],
  };

/** Runs a command in this process until it ends, or is stopped once it is ready. @returns the settings that it read */
async function settingsReadBy<Name extends CommandName>(
  [command, ...args]: readonly [Command<Name>, ...string[]],
  env: Readonly<Record<string, string>>,
): Promise<ReadonlySet<SettingName>> {
  // src/main.ts reads it for each.
  const read = new Set<SettingName>(['LOG_LEVEL']);
  const config = new Proxy(readConfig(env), {
    get(all, name: SettingName) {
      read.add(name);
      return all[name];
    },
  });
  const stop = new AbortController();
  const program: Program<Name> = {
    args,
    env,
    config,
    version: '0',
    pid: process.pid,
    stdin: new PassThrough(),
    stdout: new PassThrough().resume(),
    log: pino({ level: 'silent' }),
    async untilStopped() {
      if (!stop.signal.aborted) await once(stop.signal, 'abort');
      return 'SIGTERM';
    },
    beforeForcedExit() {},
    ready(message) {
      void use(message).finally(() => stop.abort());
    },
    channel: { now: () => performance.now(), send() {}, listen() {} },
    orphaned: AbortSignal.abort(),
    kill() {},
  };
  await command(program);
  return read;
}

/** Some settings are read when they are needed: an export asks where ClickHouse is. */
async function use(ready: { readonly port?: number }): Promise<void> {
  await sleep(0);
  if (ready.port === undefined) return;
  const answer = await fetch(`http://127.0.0.1:${ready.port}/profile?sessionId=s`, {
    headers: { authorization: `Bearer ${KEY}` },
  });
  await answer.text();
}

t.test('each command reads every setting that its --help lists', async (t) => {
  const { env: ofStores } = await startStores(t, ['wishmeter']);
  const env = {
    ...ofStores,
    DASHBOARD_PORT: '0',
    DASHBOARD_TOKEN: 'a-token-0123456789',
    FLUSH_METRICS_PORT: '0',
    WORKERS: '2',
    API_KEYS: KEY,
  };
  for (const [name, command] of Object.entries(COMMANDS)) {
    const read = await settingsReadBy(command as readonly [Command<CommandName>, ...string[]], env);
    const { settings } = COMMAND_LINES[name as CommandName];
    t.same([...read].sort(), [...new Set(settings)].sort(), name);
  }
});
