#!/usr/bin/env node
// The command line, and the only file that touches `process`: arguments, environment, signals, exit codes.
//
// 0 went well · 1 could not (one sentence on stderr) · 2 the command line makes no sense · 128+n the second signal.
//
// A command is imported when it is asked for: `sql` should not wait for a web server to load.

import { readFileSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import { type CommandLine, help, usage } from './commands/help.js';
import { type Command, type Program, type StopSignal, UsageError } from './commands/program.js';
import { readConfig } from './config.js';
import { StartupError } from './errors.js';
import { createLog } from './log.js';

interface Entry extends CommandLine {
  readonly load: () => Promise<Command>;
}

const COMMANDS: Readonly<Record<string, Entry>> = {
  start: {
    usage: 'start',
    about: 'everything on this machine: HTTP, flusher, and a Redis and a ClickHouse where none is given',
    load: async () => (await import('./commands/start/start.js')).start,
  },
  serve: {
    usage: 'serve',
    about: 'one HTTP worker on REDIS_URL',
    load: async () => (await import('./commands/serve.js')).serve,
  },
  flush: {
    usage: 'flush',
    about: 'moves events from REDIS_URL to CLICKHOUSE_URL',
    load: async () => (await import('./commands/flush.js')).flush,
  },
  migrate: {
    usage: 'migrate',
    about: 'brings CLICKHOUSE_URL to the schema of this version',
    load: async () => (await import('./commands/migrate.js')).migrate,
  },
  sql: {
    usage: 'sql [--format F] "<query>"',
    about: 'asks ClickHouse; without a query reads it from stdin',
    load: async () => (await import('./commands/sql.js')).sql,
  },
  dead: {
    usage: 'dead [list | retry | drop]',
    about: 'the events that ClickHouse refused: as JSON lines, back into the stream, or away (ids or --all)',
    load: async () => (await import('./commands/dead.js')).dead,
  },
};
const HELP: CommandLine = { usage: 'help', about: 'this, and every setting' };
const LINES = [...Object.values(COMMANDS), HELP];

const OLDEST_NODE = [20, 12] as const;
const SIGNALS: readonly StopSignal[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

async function main([name, ...args]: readonly string[]): Promise<number> {
  if (name === 'help' || name === '--help' || name === '-h') {
    process.stdout.write(help(LINES));
    return 0;
  }
  if (name === '--version' || name === '-v') {
    process.stdout.write(`${version()}\n`);
    return 0;
  }
  if (name === undefined) throw new UsageError('A command is missing.');
  const entry = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (!entry) throw new UsageError(`There is no command ${JSON.stringify(name)}.`);

  process.title = `wishmeter ${name}`;
  checkNode();
  const program = createProgram(name, args);
  const command = await entry.load();
  return await command(program);
}

function createProgram(name: string, args: readonly string[]): Program {
  const config = readConfig(process.env);
  let stopped: Promise<StopSignal> | undefined;
  let last = () => {};
  return {
    args,
    env: process.env,
    config,
    version: version(),
    pid: process.pid,
    stdin: process.stdin,
    stdout: process.stdout,
    log: createLog(config.LOG_LEVEL, name),
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
      // Without `start` there is nobody to send to, and this process is about to be stopped.
      send: (message) => void process.send?.(message, undefined, {}, () => {}),
      listen: (onMessage) => void process.on('message', onMessage),
    },
    kill(pid, signal) {
      try {
        process.kill(pid, signal);
      } catch {
        // it is gone
      }
    },
  };
}

/** From now on the first signal resolves this, and the second one ends the process after `last`. */
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

function version(): string {
  const file = new URL('../../package.json', import.meta.url);
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
}

/** @throws StartupError where this Node is too old for us. */
function checkNode(): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_NODE;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  throw new StartupError(
    `Node ${OLDEST_NODE.join('.')} or newer is needed; this is ${process.versions.node}.`,
  );
}

/** Tells why it ended, to the parent where there is one that listens, and gives the exit code. */
async function explain(error: unknown): Promise<number> {
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? '';
  if (error instanceof UsageError || code.startsWith('ERR_PARSE_ARGS')) {
    process.stderr.write(`wishmeter: ${(error as Error).message}\n\n${usage(LINES)}`);
    return 2;
  }
  if (error instanceof StartupError) return await tell(error.message);
  throw error;
}

async function tell(sentence: string): Promise<number> {
  if (process.send)
    await new Promise<unknown>((sent) => process.send?.({ failed: sentence }, undefined, {}, sent));
  else process.stderr.write(`wishmeter: ${sentence}\n`);
  return 1;
}

// Node would print the error with all that hangs on it: of a Redis command, what a visitor sent.
process.on('uncaughtException', (error) => {
  const stderr = { write: (line: string) => void writeSync(2, line) };
  createLog('fatal', 'wishmeter', stderr).fatal({ err: error }, 'a bug; the process ends');
  process.exit(1);
});

process.exit(await main(process.argv.slice(2)).catch(explain));
