// Runs commands that end by themselves in this process, as the command line would, without starting a process
// for each.

import { PassThrough, Readable } from 'node:stream';
import { pino } from 'pino';
import { backup } from '../../src/commands/backup.js';
import { COMMAND_LINES, readArguments, UsageError } from '../../src/commands/command-line.js';
import { dashboard } from '../../src/commands/dashboard.js';
import { dead } from '../../src/commands/dead.js';
import { deliver } from '../../src/commands/deliver.js';
import { flush } from '../../src/commands/flush.js';
import { importItems } from '../../src/commands/import.js';
import { migrate } from '../../src/commands/migrate.js';
import type { Command, Program } from '../../src/commands/program.js';
import { receivers } from '../../src/commands/receivers.js';
import { report } from '../../src/commands/report.js';
import { requests } from '../../src/commands/requests.js';
import { restore } from '../../src/commands/restore.js';
import { serve } from '../../src/commands/serve.js';
import { sql } from '../../src/commands/sql.js';
import { erase, exportVisitor } from '../../src/commands/visitor.js';
import { readConfig } from '../../src/config.js';
import { StartupError } from '../../src/errors.js';

const COMMANDS = {
  ...{ backup, dashboard, dead, deliver, erase, export: exportVisitor, flush, import: importItems },
  ...{ migrate, receivers, report, requests, restore, serve, sql },
};
export type CommandHere = keyof typeof COMMANDS;

/** @param env without DATA_DIR there is no embedded database @returns what main.ts would make of it */
export async function runHere(
  name: CommandHere,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  stdin = '',
) {
  const chunks: string[] = [];
  const stdout = new PassThrough({ encoding: 'utf8' }).on('data', (text: string) => chunks.push(text));
  const said = (code: number, stderr = '') => ({
    ...{ code, stdout: chunks.join('') },
    stderr: stderr && `wishmeter: ${stderr}\n`,
  });
  try {
    const program = {
      ...readArguments(name, args),
      env,
      config: readConfig({ DATA_DIR: '/dev/null/none', ...env }, COMMAND_LINES[name].settings),
      version: '0',
      stdin: Readable.from([Buffer.from(stdin)]),
      stdout,
      log: pino({ level: 'silent' }),
      untilStopped: () => new Promise(() => {}),
      ready() {},
    } as unknown as Program<CommandHere>;
    const code = await (COMMANDS[name] as Command<CommandHere>)(program);
    await new Promise((done) => setImmediate(done));
    return said(code);
  } catch (error) {
    if (error instanceof UsageError) return said(2, error.message);
    if (error instanceof StartupError) return said(1, error.message);
    throw error;
  }
}
