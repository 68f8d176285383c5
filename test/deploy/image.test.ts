// The image: no Docker is here to build it, but its health check is run, and what it copies is what is made.

import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { freePort } from '../../bench/servers/ports.js';
import { programPart } from '../faults/service.js';
import { startTestClickHouse } from '../harness/clickhouse.js';
import { startTestRedis } from '../harness/redis.js';
import { DEPLOY } from './programs.js';

t.test("the image's health check sees serve and flush", async (t) => {
  const dockerfile = await readFile(join(DEPLOY, 'Dockerfile'), 'utf8');
  const [, json = ''] = /HEALTHCHECK (?:.*\\\n)*\s+CMD (\[.*\])$/m.exec(dockerfile) ?? [];
  const [program, ...args] = JSON.parse(json) as [string, ...string[]];
  t.equal(program, 'node');
  const healthy = (env: NodeJS.ProcessEnv) => spawnSync(process.execPath, args, { env }).status === 0;
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const clickhouse = await startTestClickHouse({ databases: ['wishmeter'] });
  t.teardown(() => clickhouse.stop());
  const [port, figures] = [String(await freePort()), String(await freePort())];
  const env = {
    HOST: '127.0.0.1',
    DRAIN_MS: '0',
    REDIS_TIMEOUT_MS: '900',
    REDIS_URL: redis.url,
    CLICKHOUSE_URL: clickhouse.url,
  };
  const parts = [
    programPart('serve', 'serve', { ...env, PORT: port }),
    programPart('flush', 'flush', { ...env, FLUSH_METRICS_PORT: figures }),
  ];
  t.teardown(() => Promise.all(parts.map((part) => part.stop())));
  t.notOk(healthy({ PORT: port }), 'no server listens');
  for (const part of parts) await part.start();
  t.ok(healthy({ PORT: port }), 'serve');
  t.ok(healthy({ FLUSH_METRICS_PORT: figures, PORT: '1' }), 'flush');
});

t.test(
  'the image is that of a version of Node and of glibc that the packed binary is for, and not of root',
  async (t) => {
    const dockerfile = await readFile(join(DEPLOY, 'Dockerfile'), 'utf8');
    const version = (await readFile(join(DEPLOY, '../.node-version'), 'utf8')).trim();
    t.match(dockerfile, `ARG NODE_IMAGE=node:${version}-trixie-slim\n`);
    const [, last = ''] = dockerfile.split(/^FROM .*$/m).slice(-2);
    t.match(last, '\nUSER node\n');
    // The folder that it is built from has nothing else in it for Docker.
    const ignored = (await readFile(join(DEPLOY, 'Dockerfile.dockerignore'), 'utf8')).split('\n');
    const [copied = ''] = /wishmeter-\S*tgz/.exec(dockerfile) ?? [];
    t.same(
      ignored.filter((line) => !line.startsWith('#') && line !== ''),
      ['*', `!${copied}`],
    );
  },
);
