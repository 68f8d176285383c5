// The error table is the contract's.

import t from 'tap';
import { ERRORS, type ErrorCode, ServiceError } from '../src/errors.js';
import { LUA } from '../src/redis/lua-codes.js';

t.test('each code has the status of the contract, and only those that may pass say so', async (t) => {
  const contract: Record<ErrorCode, [status: number, retryable: boolean]> = {
    invalid_json: [400, false],
    invalid_request: [400, false],
    unauthorized: [401, false],
    forbidden: [403, false],
    session_belongs_to_customer: [403, false],
    not_found: [404, false],
    method_not_allowed: [405, false],
    too_many_items: [409, false],
    too_many_products: [409, false],
    idempotency_key_reused: [422, false],
    request_timeout: [408, false],
    payload_too_large: [413, false],
    unsupported_media_type: [415, false],
    rate_limited: [429, true],
    internal: [500, false],
    unavailable: [503, true],
    overloaded: [503, true],
  };
  t.same(
    Object.fromEntries(Object.entries(ERRORS).map(([code, row]) => [code, [row.status, row.retryable]])),
    contract,
  );
});

t.test('each sentence is one, for people', async (t) => {
  for (const { sentence } of Object.values(ERRORS)) t.match(sentence, /^[A-Z][^\n]*\w\.$/);
});

t.test('an error carries its code, its sentence and its issues', async (t) => {
  t.match(new ServiceError('not_found'), {
    code: 'not_found',
    message: ERRORS.not_found.sentence,
    issues: undefined,
  });
  const issues = [{ path: '/a', message: 'is wrong' }];
  t.match(new ServiceError('invalid_request', 'So it is.', issues), { message: 'So it is.', issues });
});

t.test('codes of the scripts are negative and differ', async (t) => {
  const codes = Object.values(LUA);
  t.ok(codes.every((code) => Number.isInteger(code) && code < 0));
  t.equal(new Set(codes).size, codes.length);
});
