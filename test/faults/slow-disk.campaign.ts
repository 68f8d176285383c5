// What `appendfsync everysec` loses at a kill -9 where the disk is slow: while an fsync runs, Redis keeps what it has
// acknowledged in its own memory, for up to two seconds (flushAppendOnlyFile in redis's aof.c), and that goes with the
// process. docs/architecture.md says so; this prints the figures. The disk is slowed by a library between Redis and fdatasync.
// FAULTS=full: ten kills.

import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import { findRedis } from '../../src/embedded/redis.js';
import { tempDir } from '../cli/wishmeter.js';
import { openRedis, startTestRedis } from '../harness/redis.js';
import { FULL } from './service.js';

const KILLS = FULL ? 10 : 1;
const FSYNC_MS = 1_500;
const WRITING_MS = 4_000;
/** Redis's own bound, and what a busy machine adds. */
const LOST_MS = 2_000 + 1_000;

const SLOW_SYNC = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
static int slow(const char *name, int fd) {
  int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  usleep(${FSYNC_MS} * 1000);
  return sync(fd);
}
int fsync(int fd) { return slow("fsync", fd); }
int fdatasync(int fd) { return slow("fdatasync", fd); }
`;

const exec = promisify(execFile);

/** A folder with a redis-server whose disk is slow; undefined where there is no C compiler. */
async function slowRedis(dir: string): Promise<string | undefined> {
  const [source, library, bin] = ['slow.c', 'slow.so', 'bin'].map((name) => join(dir, name)) as [
    string,
    string,
    string,
  ];
  await writeFile(source, SLOW_SYNC);
  try {
    await exec('cc', ['-shared', '-fPIC', '-o', library, source, '-ldl']);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  await mkdir(bin);
  const script = `#!/bin/sh\nLD_PRELOAD='${library}' exec '${findRedis()}' "$@"\n`;
  await writeFile(join(bin, 'redis-server'), script, { mode: 0o755 });
  return bin;
}

t.test('everysec on a slow disk', { timeout: 300_000 }, async (t) => {
  const dir = await tempDir(t);
  const bin = await slowRedis(dir);
  if (bin === undefined) {
    const missing = 'there is no C compiler (cc): the disk is not slowed';
    if (process.env['CI'] === 'true') t.fail(missing);
    else t.pass(missing, { skip: missing });
    return;
  }
  const path = process.env['PATH'];
  t.teardown(() => {
    process.env['PATH'] = path;
  });
  let all = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const data = join(dir, `data${kill}`);
    process.env['PATH'] = `${bin}${delimiter}${path}`;
    const redis = await startTestRedis(t, { dir: data, restart: false });
    const client = openRedis(redis.url);
    client.on('error', () => {});
    /** When each write was acknowledged. */
    const acknowledged: number[] = [];
    const writing = (async () => {
      try {
        for (;;) {
          await client.incr('n');
          acknowledged.push(performance.now());
          if (acknowledged.length % 8 === 0) await sleep(1);
        }
      } catch {
        // killed
      }
    })();
    const observer = openRedis(redis.url);
    observer.on('error', () => {});
    const began = performance.now();
    for (;;) {
      const info = await observer.info('persistence');
      const waiting = Number(/^aof_buffer_length:(\d+)/m.exec(info)?.[1]);
      if (waiting > 2_000 && performance.now() - began > WRITING_MS) break;
      await sleep(5);
    }
    const killed = performance.now();
    process.kill(redis.pids[0] as number, 'SIGKILL');
    client.disconnect();
    observer.disconnect();
    await writing;
    await redis.stop();

    process.env['PATH'] = path;
    const again = await startTestRedis(t, { dir: data, restart: false });
    const reader = openRedis(again.url);
    const kept = Number(await reader.get('n'));
    reader.disconnect();
    await again.stop();
    const lost = acknowledged.length - kept;
    const since = killed - (acknowledged[kept] ?? killed);
    t.comment(
      `fsync of ${FSYNC_MS} ms: ${lost} of ${acknowledged.length} lost, of the last ${Math.round(since)} ms`,
    );
    t.ok(since < LOST_MS, 'no older ones');
    all += lost;
  }
  t.ok(all > 0, 'it does lose what was acknowledged');
});
