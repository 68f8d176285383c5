// `wishmeter dead` on a real Redis: what it shows, what it puts back, what it throws away.

import { Redis } from 'ioredis';
import t from 'tap';
import { openDeployment } from '../../src/redis/deployment.js';
import { createKeys } from '../../src/redis/keys.js';
import { startTestRedis } from '../harness/redis.js';
import { spawnWishmeter, wishmeter } from './wishmeter.js';

const keys = createKeys('wm');

t.test(
  'dead letters of all shards ever used are listed, put back or dropped, by their ids or all',
  async (t) => {
    const server = await startTestRedis();
    t.teardown(() => server.stop());
    const redis = new Redis(`${server.dir}/redis.sock`);
    t.teardown(() => redis.disconnect());
    const dead = (...args: string[]) =>
      wishmeter({ args: ['dead', ...args], env: { REDIS_URL: server.url } });
    const refuse = (shard: number, line: string) =>
      redis.xadd(
        keys.eventsDead(shard),
        '*',
        'code',
        '117',
        'reason',
        'r',
        'time',
        '1700000000000',
        'line',
        line,
      );

    t.match(await dead(), { code: 0, stdout: '', stderr: '' }, 'where nothing ever ran');
    // Shards of a time when EVENT_SHARDS was 2; now it is 1.
    await openDeployment(redis, keys, { buckets: 16, eventShards: 2 });
    t.match(await dead(), { code: 0, stdout: '', stderr: '' });
    const a = await refuse(0, '{"a":1}');
    const b = await refuse(1, '{"b":1}');
    const c = await refuse(1, '{"c":1}');
    const { stdout } = await dead('list');
    t.same(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
      [
        [`0/${a}`, '{"a":1}'],
        [`1/${b}`, '{"b":1}'],
        [`1/${c}`, '{"c":1}'],
      ].map(([id, line]) => ({ id, time: '2023-11-14T22:13:20.000Z', code: 117, reason: 'r', line })),
    );

    t.match(await dead('drop', `1/${b}`), { code: 0, stdout: '1 dropped\n' });
    t.match(await dead('drop', `1/${b}`), { code: 0, stdout: '0 dropped\n' });
    t.match(await dead('retry', '--all'), { code: 0, stdout: '2 put back\n' });
    t.equal((await dead('list')).stdout, '');
    t.equal(await redis.xlen(keys.events(0)), 1);
    t.equal(await redis.xlen(keys.events(1)), 1);
  },
);

t.test('a reader that closes the pipe early is no error', async (t) => {
  const server = await startTestRedis();
  t.teardown(() => server.stop());
  const redis = new Redis(`${server.dir}/redis.sock`);
  t.teardown(() => redis.disconnect());
  await openDeployment(redis, keys, { buckets: 16, eventShards: 1 });
  const line = JSON.stringify({ payload: 'x'.repeat(16_384) });
  for (let i = 0; i < 64; i++) await redis.xadd(keys.eventsDead(0), '*', 'time', '0', 'line', line);
  const { child, ended } = spawnWishmeter({ args: ['dead', 'list'], env: { REDIS_URL: server.url } });
  child.stdout?.once('data', () => child.stdout?.destroy());
  t.match(await ended, { code: 0, signal: null, stderr: '' });
});

t.test('ids that are none, and neither ids nor --all, are refused before anything is done', async (t) => {
  const server = await startTestRedis();
  t.teardown(() => server.stop());
  for (const args of [['retry'], ['drop'], ['drop', '--all', '0/1-1'], ['drop', '0/1-1', 'x'], ['bury']]) {
    const { code, stderr } = await wishmeter({ args: ['dead', ...args], env: { REDIS_URL: server.url } });
    t.equal(code, 2, args.join(' '));
    t.match(stderr, /^wishmeter: .+\n\nUsage/);
  }
});
