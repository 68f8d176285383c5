// What the tests of wishlists do with a server, in a visitor's name, and what there is to see of it afterwards.

import { connectTo, dumpRedis } from '../harness/dump.js';
import { contentOf, identityOf, type Redis, type Server } from './world.js';

export const GUEST = identityOf({ sessionId: 's' });
export const CUSTOMER = identityOf({ customerId: 'c' });
export const BOTH = identityOf({ sessionId: 's', customerId: 'c' });

export async function add(server: Server, who = GUEST, product = '1', quantity = 1) {
  const { profileId } = await server.visitors.enter('resolve', who, true);
  return server.items.add(profileId, who, contentOf(product, quantity));
}

export async function remove(
  server: Server,
  who = GUEST,
  product = '1',
  type: 'remove' | 'moveToCart' = 'remove',
) {
  const { profileId } = await server.visitors.resolveKnown(who, true);
  return (await server.items.remove(profileId, who, product, null, type)).removed;
}

export async function share(server: Server, who = GUEST) {
  const { profileId } = await server.visitors.enter('resolve', who, true);
  return (await server.shares.share(profileId, who, 'Link')).code;
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
  const { profileId } = await server.visitors.find(who, false);
  const request = { orderId: '1', identity: who, lines };
  await server.purchases.remove(profileId, who, { id: 'delivery-1', at: 1_700_000_000_000, request });
}

export async function products(server: Server, who = GUEST): Promise<string[]> {
  const { profileId } = await server.visitors.find(who, true);
  return (await server.items.list(profileId)).items.map(({ productId }) => productId);
}

export async function outboxes(redis: Redis, prefix: string): Promise<Record<string, string>> {
  const dump = await dumpRedis(redis, prefix);
  return Object.fromEntries(
    Object.entries(dump)
      .filter(([key]) => /:(o|jo):/.test(key))
      .flatMap(([, hash]) => Object.entries((hash ?? {}) as Record<string, string>)),
  );
}

/** Makes pending events older. */
export async function age(redis: Redis, prefix: string, ms: number): Promise<void> {
  for (const url of redis.urls) {
    const client = connectTo(url);
    for (const key of await client.keys(`${prefix}:*:o:*`)) {
      for (const [id, entry] of Object.entries(await client.hgetall(key))) {
        const [since, ...rest] = entry.split('\n');
        await client.hset(key, id, [Number(since) - ms, ...rest].join('\n'));
      }
    }
    client.disconnect();
  }
}
