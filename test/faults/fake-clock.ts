// A clock that can be set while processes live by it: libfaketime between them and the system, told by a file. Wall clocks
// only: a monotonic clock can't be set on a real machine either.

import { existsSync, readdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findRedis } from '../../src/embedded/redis.js';

const LIBRARY = 'faketime/libfaketimeMT.so.1';
/** Whole seconds for which libfaketime believes what it has read, and not a fraction less than the next one. */
const READ_EVERY_S = 1;
const SEEN_MS = (READ_EVERY_S + 1) * 1_000 + 200;

export interface FakeClock {
  /** For the processes that shall live by it. */
  readonly env: Readonly<Record<string, string>>;
  /** Sets it so many seconds off the system's; resolves when everybody has seen it. */
  set(offsetS: number): Promise<void>;
}

/** Path of libfaketime; undefined where it is not installed. */
export function findFaketime(): string | undefined {
  if (process.platform !== 'linux') return undefined;
  const folders = ['/usr/lib', ...readdirSync('/usr/lib').map((name) => join('/usr/lib', name))];
  return folders.map((folder) => join(folder, LIBRARY)).find((file) => existsSync(file));
}

/** A clock that is right at first. @param file where it is kept */
export async function createFakeClock(library: string, file: string): Promise<FakeClock> {
  const write = (offsetS: number) => writeFile(file, `${offsetS < 0 ? '' : '+'}${offsetS}`);
  await write(0);
  return {
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: String(READ_EVERY_S),
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    async set(offsetS) {
      await write(offsetS);
      await sleep(SEEN_MS);
    },
  };
}

/** A folder to put before the others in PATH: the redis-server in it lives by the clock. */
export async function redisByClock(dir: string, { env }: FakeClock): Promise<string> {
  const bin = join(dir, 'bin');
  await mkdir(bin);
  // jemalloc asks for the time before libfaketime is ready to answer; libc's allocator, put before it, does not.
  const settings = Object.entries({ ...env, LD_PRELOAD: `${env['LD_PRELOAD']}:libc.so.6` });
  const words = settings.map(([name, value]) => `'${name}=${value}'`).join(' ');
  await writeFile(join(bin, 'redis-server'), `#!/bin/sh\nexec env ${words} '${findRedis()}' "$@"\n`, {
    mode: 0o755,
  });
  return bin;
}
