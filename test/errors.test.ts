// The table of errors agrees with the contract, and a log line has none of the visitors' data or secrets that
// an error carries.

import { ClickHouseError } from '@clickhouse/client';
import t, { type Test } from 'tap';
import { ERRORS, type ErrorCode, ServiceError } from '../src/errors.js';
import { createLog } from '../src/log.js';
import { connectTo, startTestRedis } from './harness/redis.js';

t.test(
  'each error code has the status of the contract, and only those that may pass are retryable',
  async (t) => {
    const statuses: Record<ErrorCode, number> = {
      ...{ invalid_json: 400, invalid_request: 400, unauthorized: 401 },
      ...{
        forbidden: 403,
        session_belongs_to_customer: 403,
        session_retired: 403,
        not_found: 404,
        method_not_allowed: 405,
      },
      ...{ request_timeout: 408, too_many_items: 409, too_many_products: 409, payload_too_large: 413 },
      ...{ unsupported_media_type: 415, idempotency_key_reused: 422, rate_limited: 429 },
      ...{ internal: 500, unavailable: 503, overloaded: 503 },
    };
    const rows = Object.entries(ERRORS);
    t.same(Object.fromEntries(rows.map(([code, { status }]) => [code, status])), statuses);
    const retryable = rows.filter((row) => row[1].retryable).map(([code]) => code);
    t.same(retryable.sort(), ['overloaded', 'rate_limited', 'unavailable']);
  },
);

t.test('an error is one sentence for people, with its code and its issues', async (t) => {
  for (const { sentence } of Object.values(ERRORS)) t.match(sentence, /^[A-Z][^\n]*\w\.$/);
  const { sentence } = ERRORS.not_found;
  t.match(new ServiceError('not_found'), { code: 'not_found', message: sentence, issues: undefined });
  const issues = [{ in: 'body', path: '/a', message: 'is wrong' }] as const;
  t.match(new ServiceError('invalid_request', 'So it is.', issues), { message: 'So it is.', issues });
  t.match(new Error('a fault of ours').stack, /\n {4}at /, 'errors after it still say where they are from');
});

const SECRET = 'ada@shop.example';

function logged(t: Test, error: unknown): Record<string, unknown> {
  const lines: string[] = [];
  createLog('info', 'test', { write: (line) => lines.push(line) }).error({ err: error }, 'failed');
  t.equal(lines.length, 1);
  t.notMatch(lines[0], SECRET);
  return JSON.parse(lines[0] as string).err;
}

t.test('an error of Redis is logged without its command', async (t) => {
  const redis = await startTestRedis(t);
  const client = connectTo(t, redis.url);
  await client.set('text', '1');
  const wrong = await client.hset('text', 'email', SECRET).catch((error: Error) => error);
  t.match(JSON.stringify(wrong), SECRET, 'it does bring it along');
  t.match(logged(t, wrong), { message: /^WRONGTYPE/, stack: /^ {4}at / });
  const unknown = await client.call('NOSUCH', SECRET).catch((error: Error) => error);
  t.match((unknown as Error).message, SECRET, 'it does quote it');
  t.match(logged(t, unknown), { message: "ERR unknown command 'NOSUCH'" });
  logged(t, new Error('outer', { cause: wrong }));
});

t.test('an error that quotes data is logged by its code alone', async (t) => {
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

t.test('an error of the network is logged whole, with its causes', (t) => {
  const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
  t.match(logged(t, new AggregateError([cause], 'all failed', { cause })), {
    type: 'AggregateError',
    message: 'all failed',
    causes: [{ code: 'ECONNREFUSED' }, { message: 'connect ECONNREFUSED 127.0.0.1:1' }],
  });
  t.end();
});
