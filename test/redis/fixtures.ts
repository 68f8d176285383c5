// Helpers for tests of batches: a format that appends lines by an existing script, and what a batcher needs
// to send them.

import type { Test } from 'tap';
import type { Batched, BatchFormat } from '../../src/redis/batch-calls.js';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { openDeployment } from '../../src/redis/deployment.js';
import { RedisHealth } from '../../src/redis/health.js';
import { createKeys } from '../../src/redis/keys.js';
import { loadScript } from '../../src/redis/scripts.js';

const PREFIX = 'b';

export interface Line extends Batched<unknown> {
  readonly line: string;
}

/** A line's first letter is the tag of its stream. */
export const LINES: BatchFormat<Line, unknown> = {
  script: loadScript('events/appendEvents'),
  tag: ({ line }) => line.slice(0, 1),
  mixesTags: false,
  writes: () => true,
  encode(ops, call) {
    const tag = ops[0]?.line.slice(0, 1);
    call.key(`b:{${tag}}:stream`);
    call.key(`b:{${tag}}:state`);
    for (const arg of [1_000_000, ops.length, ops.map(({ line }) => `${line}\n`).join('')]) call.arg(arg);
  },
  decode: (ops, reply) => ops.map(() => reply),
};

export async function linesOf(redis: RedisClient, tag: string) {
  const entries = await redis.xrange(`b:{${tag}}:stream`, '-', '+');
  return entries.flatMap(([, fields]) => fields[3]?.trim().split('\n'));
}

export async function openHealth(t: Test, url: string, timeoutMs: number) {
  const client = await connectRedis({ urls: [url], name: 'test', timeoutMs }, () => {});
  t.teardown(() => client.disconnect());
  const keys = createKeys(PREFIX);
  const { salt } = await openDeployment(client, keys, { buckets: 16 });
  const health = new RedisHealth({ client, keys, salt, timeoutMs, onError: () => {} });
  t.teardown(() => health.close());
  await health.opened();
  return { client, health, keys };
}
