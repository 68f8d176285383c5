// The real nginx with deploy/nginx.conf, on a port and a folder of its own.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Test } from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { ask } from '../harness/client.js';
import { needs } from '../harness/needs.js';
import { tempDir, until } from './wishmeter.js';

const CONF = 'deploy/nginx.conf';
/** Debian installs nginx into /usr/sbin, which not every user's PATH has. */
const ENV = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };

export const needsNginx = () =>
  needs(spawnSync('nginx', ['-v'], { env: ENV }).error ? 'no nginx here' : undefined);

/** @param ports of the service, in place of 8080 @param change to deploy/nginx.conf @returns nginx's port, when it answers */
export async function startNginx(
  t: Test,
  ports: number | readonly number[],
  change = (conf: string) => conf,
): Promise<number> {
  const dir = await tempDir(t);
  const own = await freePort();
  const conf = change(await readFile(CONF, 'utf8'))
    .replaceAll('listen 80;', `listen 127.0.0.1:${own};`)
    .replace(/server 127\.0\.0\.1:8080 (.*);/g, (_, options) =>
      [ports]
        .flat()
        .map((port) => `server 127.0.0.1:${port} ${options};`)
        .join(' '),
    );
  await writeFile(join(dir, 'wishmeter.conf'), conf);
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${dir}/${name};`,
  );
  const main = `daemon off; worker_processes 1; pid ${dir}/pid; error_log stderr;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 512; }
    http { access_log off; ${paths.join(' ')} include ${dir}/wishmeter.conf; }`;
  await writeFile(join(dir, 'nginx.conf'), main);
  const child = spawn('nginx', ['-p', dir, '-e', 'stderr', '-c', join(dir, 'nginx.conf')], {
    env: ENV,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = once(child, 'exit');
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  await until('nginx answers', async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${stderr}`);
    return await ask(own, 'GET', '/healthz').catch(() => false as const);
  });
  return own;
}
