// Products as a shop's server puts them, the alerts that they cause, and the index of subscribers as Redis has it.

import { ALERT_TYPES } from '../../../src/extras/alerts/alert.js';
import { alertKeys } from '../../../src/extras/alerts/keys.js';
import { createKeys } from '../../../src/redis/keys.js';
import { type TestApp, TRUSTED } from '../../harness/app.js';
import { type Dump, dumpRedis } from '../../harness/dump.js';
import { keyPattern } from '../../harness/key-pattern.js';
import { type Row, rowsOf } from '../../harness/stream.js';
import { until } from '../../harness/until.js';

export const ALERTS = { PRODUCT_ALERTS: 'on', SHOP_CURRENCY: 'EUR' };

export interface Redis {
  readonly urls: readonly string[];
}

export const product = (price: string, inventoryAvailable = true) => ({
  productId: '1',
  productHandle: 'p-1',
  productTitle: 'A product',
  isPublished: true,
  isWhole: true,
  image: null,
  variants: [{ variantId: null, price, currencyCode: null, inventoryAvailable }],
});

export const productOf = (productId: string, ...variants: object[]) => ({
  productId,
  productHandle: 'red-shoe',
  productTitle: 'Red shoe',
  variants: variants.map((one) => ({ inventoryAvailable: true, ...one })),
});

/** Waits until all alerts are sent. @returns numbers of alerts: price drops, restocks */
export const put = (app: TestApp, productId: string, ...variants: object[]) =>
  putProduct(app, productOf(productId, ...variants));

export async function putProduct(app: TestApp, body: object): Promise<[number, number]> {
  const figures = () => Promise.all(ALERT_TYPES.map((type) => app.figure(`alerts_total{type="${type}"}`)));
  const before = await figures();
  const answer = await app.send('PUT', '/products', body, TRUSTED);
  if (answer.status !== 200) throw new Error(`PUT /products: ${answer.status} ${answer.text}`);
  await until('all alerts are sent', async () => (await app.figure('products_open')) === 0);
  const [drops = 0, restocks = 0] = (await figures()).map((sum = 0, i) => sum - (before[i] ?? 0));
  return [drops, restocks];
}

export const putAt = (app: TestApp, productId: string, price: string, inventoryAvailable = true) =>
  put(app, productId, { price, inventoryAvailable });

export async function alertsOf(redis: Redis, app: Pick<TestApp, 'prefix'>): Promise<Row[]> {
  return (await rowsOf(redis, app)).filter(({ origin }) => origin === 'alert');
}

export function subscribersIn(dump: Dump, prefix: string): string[] {
  const isIndex = keyPattern(alertKeys(createKeys(prefix)).subscribers('*'));
  return Object.entries(dump)
    .filter(([key]) => isIndex.test(key))
    .flatMap(([, entries]) => Object.keys(entries ?? {}))
    .sort();
}

export const subscribersOf = async (redis: Redis, { prefix }: Pick<TestApp, 'prefix'>) =>
  subscribersIn(await dumpRedis(redis, prefix), prefix);
