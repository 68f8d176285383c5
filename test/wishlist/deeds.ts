// What the tests of wishlists do with a server, in a visitor's name, and what there is to see of it afterwards.

import { setTimeout as sleep } from 'node:timers/promises';
import type { OrderLine } from '../../src/events/row.js';
import type { Identity } from '../../src/identity-rules.js';
import type { Operation } from '../../src/redis/requests.js';
import { dumpRedis } from '../harness/dump.js';
import { openRedis } from '../harness/redis.js';
import { contentOf, identityOf } from '../harness/samples.js';
import type { Redis, Server } from './world.js';

/** Far longer than events wait for anything but a lost server. */
const PATIENCE_MS = 15_000;

export const GUEST = identityOf({ sessionId: 's' });
export const CUSTOMER = identityOf({ customerId: 'c' });
export const BOTH = identityOf({ sessionId: 's', customerId: 'c' });

export async function add(server: Server, who = GUEST, product = '1', quantity = 1, operation?: Operation) {
  const { answer } = await server.visitors.change(who, true, (place) =>
    server.items.add(place, who, contentOf(product, quantity), operation),
  );
  return answer;
}

export async function remove(
  server: Server,
  who = GUEST,
  product = '1',
  type: 'remove' | 'moveToCart' = 'remove',
  operation?: Operation,
) {
  const { answer } = await server.visitors.changeKnown(who, true, (place) =>
    server.items.remove(place, who, product, null, type, operation),
  );
  return answer.removed;
}

export async function share(server: Server, who = GUEST, operation?: Operation) {
  const { answer } = await server.visitors.change(who, true, (place) =>
    server.shares.share(place, who, 'Link', operation),
  );
  return answer.code;
}

/** Under a key, as a request does: once, however often it is asked for. */
export async function keyed<T>(
  server: Server,
  key: string,
  act: (operation: Operation) => Promise<T>,
): Promise<T> {
  const answer = await server.deliveries.run({ scope: 'test', key, fingerprint: '' }, '', async (operation) =>
    JSON.stringify([await act(operation)]),
  );
  return (JSON.parse(answer) as [T])[0];
}

/** Codes are drawn anew in each run, so it is what they lead to that is compared. */
export async function followShare(server: Server, code: unknown) {
  const found = await server.shares.find(String(code));
  return (await server.items.list(found ?? 'nobody')).items.map(({ productId }) => productId);
}

export async function buy(server: Server, who = GUEST) {
  const lines = ['1', '2', '3'].map((productId) => ({
    productId,
    variantId: null,
    quantity: 1,
    price: '1.00',
  }));
  await deliver(server, who, 'delivery-1', lines);
}

/** As the webhook does: under a request record, that a crash leaves without an answer. */
export async function deliver(
  server: Server,
  who: Identity,
  key: string,
  lines: readonly Omit<OrderLine, 'discounts'>[],
) {
  const purchase = {
    orderId: '1',
    identity: who,
    currency: 'EUR',
    isTest: false,
    lines: lines.map((line) => ({ ...line, discounts: [] })),
  };
  return server.deliveries.run({ scope: 'order', key, fingerprint: '' }, '', async () => {
    const { profileId } = await server.visitors.find(who, false);
    const removal = await server.deliveries.part('removal', key);
    await server.purchases.remove(profileId, profileId, who, purchase, removal);
    return '{}';
  });
}

export async function products(server: Server, who = GUEST): Promise<string[]> {
  const { profileId } = await server.visitors.find(who, true);
  return (await server.items.list(profileId)).items.map(({ productId }) => productId);
}

/** Events in outboxes, and in journals of merges that are not done (those that are done keep theirs). */
export async function outboxes(redis: Redis, prefix: string): Promise<Record<string, string>> {
  const dump = (await dumpRedis(redis, prefix)) as Record<string, Record<string, string>>;
  const isPending = (key: string) =>
    /:o:/.test(key) ||
    (/:jo:/.test(key) && dump[key.replace(':jo:', ':p:')]?.['heir']?.startsWith('!') === true);
  const pending = Object.keys(dump).filter(isPending);
  return Object.fromEntries(pending.flatMap((key) => Object.entries(dump[key] ?? {})));
}

/** No event is left behind, but for those of merges where these are left out. @throws where one is after some seconds */
export async function untilSent(redis: Redis, prefix: string, besides?: 'merge'): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const left = Object.values(await outboxes(redis, prefix)).filter(
      (entry) => entry.split(/[\n ]/, 2)[1] !== besides,
    );
    if (left.length === 0) return;
    if (performance.now() > deadline) throw new Error(`left behind: ${left.join()}`);
    await sleep(5);
  }
}

/** In one step: one that was sent meanwhile must not come back. */
const REPLACE =
  "if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end";

/** Makes pending events older. */
export async function age(redis: Redis, prefix: string, ms: number): Promise<void> {
  for (const url of redis.urls) {
    const client = openRedis(url);
    for (const key of await client.keys(`${prefix}:*:o:*`)) {
      for (const [id, entry] of Object.entries(await client.hgetall(key))) {
        const [since, ...rest] = entry.split('\n');
        await client.eval(REPLACE, 1, key, id, entry, [Number(since) - ms, ...rest].join('\n'));
      }
    }
    client.disconnect();
  }
}
