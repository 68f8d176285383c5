// Log lines: what an error brings along of visitors or secrets is not in them, what helps to find it is.

import { ClickHouseError } from '@clickhouse/client';
import t, { type Test } from 'tap';
import { createLog } from '../src/log.js';
import { connectTo } from './harness/dump.js';
import { startTestRedis } from './harness/redis.js';

const SECRET = 'ada@shop.example';

/** The line that an error makes, parsed. */
function logged(t: Test, error: unknown): Record<string, unknown> {
  const lines: string[] = [];
  createLog('info', 'test', { write: (line) => lines.push(line) }).error({ err: error }, 'failed');
  t.equal(lines.length, 1);
  t.notMatch(lines[0], SECRET);
  return JSON.parse(lines[0] as string).err;
}

t.test('an error of Redis is told without the command that it was for', async (t) => {
  const redis = await startTestRedis();
  t.teardown(() => redis.stop());
  const client = connectTo(redis.url);
  t.teardown(() => client.disconnect());
  await client.set('text', '1');
  const wrong = await client.hset('text', 'email', SECRET).catch((error: Error) => error);
  t.match(JSON.stringify(wrong), SECRET, 'it does bring it along');
  t.match(logged(t, wrong), { message: /^WRONGTYPE/, stack: /^ {4}at / });
  const unknown = await client.call('NOSUCH', SECRET).catch((error: Error) => error);
  t.match((unknown as Error).message, SECRET, 'it does quote it');
  t.match(logged(t, unknown), { message: "ERR unknown command 'NOSUCH'" });
  logged(t, new Error('outer', { cause: wrong }));
});

t.test('what quotes data is told by its code', async (t) => {
  const refused = new ClickHouseError({ message: `Cannot parse '${SECRET}'`, code: '27', type: 'X' });
  t.match(logged(t, refused), { type: 'ClickHouseError', code: '27' });
  try {
    JSON.parse(SECRET);
  } catch (error) {
    t.match((error as Error).message, 'ada', 'it does quote it');
    t.match(logged(t, error), { type: 'SyntaxError' });
  }
  logged(t, SECRET);
  logged(t, { email: SECRET });
});

t.test('errors of the network, and their causes, are told whole', (t) => {
  const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
  t.match(logged(t, new AggregateError([cause], 'all failed', { cause })), {
    type: 'AggregateError',
    message: 'all failed',
    causes: [{ code: 'ECONNREFUSED' }, { message: 'connect ECONNREFUSED 127.0.0.1:1' }],
  });
  t.end();
});
