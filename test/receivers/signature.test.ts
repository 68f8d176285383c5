// Deliveries are signed as Standard Webhooks says: the vector of its specification's reference libraries, and `standardwebhooks`
// verifies what is signed here.

import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { changeReceiver, createReceiver, signedHeaders, takesType } from '../../src/receivers/receiver.js';

const DAY = 24 * 60 * 60_000;
const NEW = { url: 'https://shop.example/hook', types: ['add'], includePersonal: false } as const;

t.test('the vector of the reference libraries', async (t) => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const headers = signedHeaders(
    { secret, previous: [] },
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    '{"test": 2432232314}',
    1_614_265_330_000,
  );
  t.same(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

t.test('standardwebhooks verifies it, and with another secret or body it does not', async (t) => {
  const receiver = createReceiver(NEW);
  t.match(receiver.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const body = '{"type":"add","title":"Schuh ü"}';
  const headers = signedHeaders(receiver, 'id-1', body);
  t.same(new Webhook(receiver.secret).verify(body, headers), JSON.parse(body));
  t.throws(() => new Webhook(receiver.secret).verify(`${body} `, headers));
  t.throws(() => new Webhook(createReceiver(NEW).secret).verify(body, headers));
});

t.test('after a rotation the old secret signs beside the new one for a day', async (t) => {
  const before = createReceiver(NEW);
  const now = Date.now();
  const after = changeReceiver(before, { rotateSecret: true }, now);
  t.not(after.secret, before.secret);
  const headers = signedHeaders(after, 'id-1', '{}', now);
  for (const { secret } of [before, after]) t.same(new Webhook(secret).verify('{}', headers), {});
  const signaturesAt = (at: number) =>
    signedHeaders(after, 'id-1', '{}', at)['webhook-signature']?.split(' ');
  t.equal(signaturesAt(now + DAY - 1)?.length, 2);
  t.equal(signaturesAt(now + DAY)?.length, 1);
});

t.test('a rotation that is repeated, as its answer was lost, leaves the first secret its day', async (t) => {
  const now = Date.now();
  const first = createReceiver(NEW);
  let receiver = first;
  for (let i = 0; i < 2; i++) receiver = changeReceiver(receiver, { rotateSecret: true }, now + i);
  t.same(new Webhook(first.secret).verify('{}', signedHeaders(receiver, 'id-1', '{}', now + 2)), {});
  for (let i = 0; i < 99; i++) receiver = changeReceiver(receiver, { rotateSecret: true }, now + 2);
  t.equal(receiver.previous.length, 4, 'no more than a header has room for');
  const later = changeReceiver(receiver, { rotateSecret: true }, now + 2 * DAY);
  t.same(later.previous, [{ secret: receiver.secret, until: now + 3 * DAY }]);
});

t.test('what a receiver takes: the types it names, and `*` all but what is no event', async (t) => {
  t.ok(takesType({ types: ['add'] }, 'add'));
  t.notOk(takesType({ types: ['add'] }, 'remove'));
  t.ok(takesType({ types: ['*'] }, 'purchase'));
  t.notOk(takesType({ types: ['*'] }, 'profileMerge'));
});
