// webdis (C, libevent): Redis commands as HTTP paths. It keeps as many connections to Redis as it likes, and answers
// each command with its reply as JSON.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startListening } from '../servers/listening.js';
import { freePort } from '../servers/ports.js';

// Debian's default; 1 and 4 were no faster on two cores, which it shares with Redis and the load.
const THREADS = 2;

export async function startWebdis(dir: string, redisUrl: string) {
  const port = await freePort();
  const redis = new URL(redisUrl);
  const file = join(dir, 'webdis.json');
  const settings = {
    redis_host: redis.hostname,
    redis_port: Number(redis.port),
    redis_auth: redis.password,
    http_host: '127.0.0.1',
    http_port: port,
    threads: THREADS,
    daemonize: false,
    database: 0,
    verbosity: 0,
    logfile: join(dir, 'webdis.log'),
  };
  await writeFile(file, JSON.stringify(settings));
  return await startListening('webdis', port, { file: 'webdis', args: [file], cwd: dir });
}
