#!/usr/bin/env node
// The command line. Only this file and src/extras/embedded/ use `process`.
//
// Exit codes: 0 success · 1 failure (one sentence on stderr, as a line of JSON if logs are) · 2 wrong command line ·
// 128+n second signal.
//
// A command is imported when it is called, so that `sql` doesn't load a web server.

import { writeSync } from 'node:fs';
import { constants } from 'node:os';
import {
  type Arguments,
  COMMAND_LINES,
  type CommandLine,
  type CommandName,
  commandNamed,
  readArguments,
  UsageError,
} from './commands/command-line.js';
import { help, helpOf, usage } from './commands/help.js';
import type { Command, Program, StopSignal } from './commands/program.js';
import { notesOn } from './commands/setting-notes.js';
import { readConfig } from './config.js';
import { StartupError } from './errors.js';
import { createLog, terminal } from './log.js';
import { VERSION } from './version.js';

const COMMANDS: { readonly [Name in CommandName]: () => Promise<Command<Name>> } = {
  start: async () => (await import('./commands/start/start.js')).start,
  serve: async () => (await import('./commands/serve.js')).serve,
  flush: async () => (await import('./commands/flush.js')).flush,
  deliver: async () => (await import('./commands/deliver.js')).deliver,
  receivers: async () => (await import('./commands/receivers.js')).receivers,
  migrate: async () => (await import('./commands/migrate.js')).migrate,
  sql: async () => (await import('./commands/sql.js')).sql,
  dashboard: async () => (await import('./commands/dashboard.js')).dashboard,
  report: async () => (await import('./commands/report.js')).report,
  dead: async () => (await import('./commands/dead.js')).dead,
  requests: async () => (await import('./commands/requests.js')).requests,
  import: async () => (await import('./commands/import.js')).importItems,
  export: async () => (await import('./commands/visitor.js')).exportVisitor,
  erase: async () => (await import('./commands/visitor.js')).erase,
  backup: async () => (await import('./commands/backup.js')).backup,
  restore: async () => (await import('./commands/restore.js')).restore,
};

const PROCESSES: ReadonlySet<CommandName> = new Set(['start', 'serve', 'flush', 'deliver', 'dashboard']);

const OLDEST_NODE = [20, 12] as const;
const SIGNALS: readonly StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

async function main([first, ...args]: readonly string[]): Promise<number> {
  if (first === undefined) throw new UsageError('A command is missing.');
  if (first === '--version' || first === '-v') return print(`${VERSION}\n`, args);
  if (first === 'help' || first === '--help' || first === '-h') {
    const [about, ...more] = args;
    return print(about === undefined ? help() : helpOf(commandNamed(about)), more);
  }
  const name = commandNamed(first);
  const given = readArguments(name, args);
  if (given.isHelp) return print(helpOf(name), []);

  process.title = `wishmeter ${name}`;
  process.umask(0o077); // only the owner may read files that we write
  checkNode();
  return await run(name, given);
}

async function run<Name extends CommandName>(name: Name, given: Arguments<Name>): Promise<number> {
  const program = await createProgram(name, given);
  // uWebSockets.js reads this when it is loaded. Its 4 KiB are less than the cookies of some shops.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ||= '16384';
  const command = await COMMANDS[name]();
  return await command(program);
}

function print(text: string, [more]: readonly string[]): number {
  if (more !== undefined) throw new UsageError(`There is nothing to do for ${JSON.stringify(more)}.`);
  process.stdout.write(text);
  return 0;
}

async function createProgram<Name extends CommandName>(
  name: Name,
  { options, operands }: Arguments<Name>,
): Promise<Program<Name>> {
  const line: CommandLine = COMMAND_LINES[name];
  const fallbacks = { ...line.fallbacks, ...(process.stdout.isTTY ? line.atTerminal : {}) };
  const config = readConfig(process.env, COMMAND_LINES[name].settings, fallbacks);
  const log = createLog(config.LOG_LEVEL, name, process.stdout.isTTY ? await terminal() : undefined);
  // Other commands have their result on stdout. The notes of a child of `start` were logged by its parent.
  if (PROCESSES.has(name) && process.send === undefined)
    for (const { level, message, settings } of notesOn(process.env, name, line.settings))
      log[level]({ settings }, message);
  let stopped: Promise<StopSignal> | undefined;
  let last = () => {};
  const orphaned = new AbortController();
  process.once('disconnect', () => orphaned.abort());
  return {
    options,
    operands,
    env: process.env,
    config,
    version: VERSION,
    pid: process.pid,
    stdin: process.stdin,
    stdout: process.stdout,
    log,
    untilStopped() {
      stopped ??= firstSignal(() => last());
      return stopped;
    },
    beforeForcedExit(call) {
      last = call;
    },
    ready(message) {
      process.send?.({ ready: true, ...message });
    },
    channel: process.send && {
      // Errors are ignored: if the parent has died, this process is about to be stopped.
      send: (message) => void process.send?.(message, undefined, {}, () => {}),
      listen: (onMessage) => void process.on('message', onMessage),
    },
    orphaned: orphaned.signal,
    kill(pid, signal) {
      try {
        process.kill(pid, signal);
      } catch {
        // The process has ended.
      }
    },
  };
}

function firstSignal(last: () => void): Promise<StopSignal> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of SIGNALS) {
      process.on(signal, () => {
        if (asked) {
          last();
          process.exit(128 + constants.signals[signal]);
        }
        asked = true;
        resolve(signal);
      });
    }
  });
}

function checkNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_NODE;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  throw new StartupError(
    `Node ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.versions.node}.`,
  );
}

async function explain(error: unknown): Promise<number> {
  if (error instanceof UsageError) {
    process.stderr.write(`wishmeter: ${error.message}\n\n${usage()}`);
    return 2;
  }
  if (error instanceof StartupError) return await report(error.message);
  throw error;
}

async function report(sentence: string): Promise<number> {
  const name = process.argv[2] as CommandName;
  if (process.send)
    await new Promise<unknown>((sent) => process.send?.({ failed: sentence }, undefined, {}, sent));
  // Next to the log, which is JSON. A person at a terminal gets the bare sentence.
  else if (PROCESSES.has(name) && !process.stderr.isTTY) createLog('fatal', name, STDERR).fatal(sentence);
  else process.stderr.write(`wishmeter: ${sentence}\n`);
  return 1;
}

const STDERR = { write: (line: string) => void writeSync(2, line) };

// Node would print all properties of the error, as of a Redis command, which has a visitor's data.
process.on('uncaughtException', (error) => {
  createLog('fatal', 'wishmeter', STDERR).fatal({ err: error }, 'a bug; the process ends');
  process.exit(1);
});

/** Waits, because process.exit would drop output that waits for a full pipe. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.once('error', () => resolve()).write('', () => resolve());
  });
}

const code = await main(process.argv.slice(2)).catch(explain);
await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
process.exit(code);
