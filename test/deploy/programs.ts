// Programs that read what is in deploy/, as an operator's machine would.

import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { COMMAND_LINES } from '../../src/commands/command-line.js';
import { startChild } from '../../src/extras/embedded/child.js';
import { findRedis, untilLoaded } from '../../src/extras/embedded/redis.js';

export const DEPLOY = fileURLToPath(new URL('../../../deploy/', import.meta.url));

export const UNITS = {
  serve: 'wishmeter-serve@.service',
  flush: 'wishmeter-flush.service',
  deliver: 'wishmeter-deliver.service',
  dashboard: 'wishmeter-dashboard.service',
};

/** Lines of deploy/redis/users.acl as ACL SETUSER takes them, with one password and KEY_PREFIX. */
export const redisUsers = (names: RegExp, password: string, prefix = 'wm'): string[][] =>
  readFileSync(join(DEPLOY, 'redis/users.acl'), 'utf8')
    .replace(/\$\w+_PASSWORD/g, password)
    .replaceAll('$KEY_PREFIX', prefix)
    .split('\n')
    .map((line) => line.split(' ').slice(1))
    .filter(([name = '']) => names.test(name));

export const unit = (name: string) => readFileSync(join(DEPLOY, 'systemd', name), 'utf8');

export const settingsOf = (command = ''): readonly string[] =>
  COMMAND_LINES[command as keyof typeof COMMAND_LINES].settings;

export interface Verdict {
  readonly ok: boolean;
  readonly output: string;
}

/** Runs a program to its end. @param options `env` is the whole environment */
export async function check(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<Verdict> {
  return await promisify(execFile)(program, args, options).then(
    ({ stdout, stderr }) => ({ ok: true, output: stdout + stderr }),
    (error) => ({ ok: false, output: `${error.stdout}${error.stderr}` }),
  );
}

/** YAML as plain data, read by Debian's Python. @throws if the text is no YAML */
// biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
export function parseYaml(text: string): any {
  const program = 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)';
  const options = { input: text, encoding: 'utf8' } as const;
  const { status, stdout, stderr } = spawnSync('/usr/bin/python3', ['-c', program], options);
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
}

/**
 * Redis on a port of loopback, in `dir`. It is not started again. @param auth AUTH's arguments, if PING needs
 * them
 */
export function startRedisServer(dir: string, port: number, args: readonly string[], auth = '') {
  const own = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--loglevel', 'warning'];
  return startChild({
    name: 'Redis',
    command: () => ({ file: findRedis(), args: [...args, ...own] }),
    ready: (_child, ended) => untilLoaded({ port, host: '127.0.0.1', password: auth }, ended),
    output: 'tail',
    restart: false,
  });
}
