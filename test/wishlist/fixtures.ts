// Servers without HTTP that lose Redis after any step, or pause before it; their operations, and reads of the result.

import type { Test } from 'tap';
import { ServiceError } from '../../src/errors.js';
import { Products } from '../../src/extras/alerts/products.js';
import { stampFormat } from '../../src/extras/alerts/stamps.js';
import { Subscribers } from '../../src/extras/alerts/subscribers.js';
import type { Identity } from '../../src/identity-rules.js';
import type { Limits } from '../../src/profiles/merge.js';
import { createKeys } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { type KeyedOperation, RequestStore } from '../../src/redis/requests.js';
import type { Store } from '../../src/redis/store.js';
import type { BoughtLine } from '../../src/wishlist/purchases.js';
import { keyPattern } from '../harness/key-pattern.js';
import { eachKey } from '../harness/redis.js';
import { contentOf, identityOf } from '../harness/samples.js';
import { openParts, type Parts } from '../harness/server.js';
import { type Row, rowsOf } from '../harness/stream.js';

export interface Server extends Parts {
  readonly deliveries: RequestStore;
  /** Only with alerts. */
  readonly products: Products | undefined;
  onSubscriber: (profileId: string) => Promise<void>;
  /**
   * Redis is unreachable after this number of steps. @param lastIsDone true if the last step is done and only
   * its reply is lost
   */
  crashAfter(steps: number, lastIsDone: boolean): void;
  /** Runs `act` before this step, counted from now. */
  pauseBefore(step: number, act: () => Promise<unknown>): void;
  /** Errors of interrupted work that was resumed. */
  readonly failures: string[];
  /** Redis is back, and nothing pauses. @returns true if it was gone, or a step paused */
  recover(): boolean;
  /** From now on each script is called twice, as a client of a cluster may after a lost connection. */
  sendTwice(): void;
  onChange: () => Promise<void>;
  /** Called before each append to the stream that is a step of its own; on one server changes append, too. */
  onAppend: () => Promise<void>;
}

export interface Redis {
  readonly urls: readonly string[];
}

export interface Visitor {
  readonly guest: Identity;
  readonly customer: Identity;
  readonly both: Identity;
  readonly ids: { readonly customerId: string; readonly sessionId: string };
}

function visitorOf(sessionId: string, customerId: string): Visitor {
  return {
    guest: identityOf({ sessionId }),
    customer: identityOf({ customerId }),
    both: identityOf({ sessionId, customerId }),
    ids: { customerId, sessionId },
  };
}

const VISITOR = visitorOf('s', 'c');
export const { guest: GUEST, customer: CUSTOMER } = VISITOR;

export async function countOf(server: Server, who: Identity, handle: string): Promise<number> {
  return (await server.counter.readAll(who, [handle])).counts[0] as number;
}

let visitors = 0;

/** A visitor whom no server has in a cache, so that a reused server behaves like a new one. */
export function newVisitor(): Visitor {
  visitors++;
  return visitorOf(`s-${visitors}`, `c-${visitors}`);
}

export async function startServer(
  t: Test,
  redis: Redis,
  keyPrefix: string,
  {
    alerts = false,
    highWater = 1e9,
    limits = {},
    onLeftOut,
    ...options
  }: {
    buckets?: number;
    guestsS?: number;
    alerts?: boolean;
    highWater?: number;
    limits?: Partial<Limits>;
    onLeftOut?: (kind: 'product' | 'item', fields: number) => void;
  } = {},
): Promise<Server> {
  let wasGone = false;
  const parts = await openParts(
    { urls: redis.urls, timeoutMs: 20_000, keyPrefix, buckets: 16, ...options },
    highWater,
    // Without a grace period: an entry without an item is removed at once.
    (store) => (alerts ? new Subscribers(store, undefined, 0) : undefined),
    limits,
    {
      ...(onLeftOut && { mergeLeftOut: onLeftOut }),
      failed: (task, { message }) => server.failures.push(`${task}: ${message}`),
    },
  );
  const { store, visits, appends, recordings, wishlists, itemIndex: subscribers, presentOf } = parts;
  let left = Number.POSITIVE_INFINITY;
  let lastIsDone = false;
  let pause: { left: number; readonly act: () => Promise<unknown> } | undefined;
  const step = async <T>(act: () => Promise<T>): Promise<T> => {
    if (pause !== undefined && --pause.left === 0) {
      wasGone = true;
      await pause.act();
    }
    if (left > 1) {
      left--;
      return act();
    }
    wasGone = true;
    const isDone = left === 1 && lastIsDone;
    left = 0;
    if (isDone) await act();
    throw new ServiceError('unavailable');
  };
  /** @param before runs between the step before and this one */
  const stepOf = <Args extends unknown[], Reply>(
    act: (...args: Args) => Promise<Reply>,
    before = async () => {},
  ) => {
    return (...args: Args) =>
      step(async () => {
        await before();
        return act(...args);
      });
  };
  let sendsTwice = false;
  const isStep = (method: Store['run']): Store['run'] => {
    const act = method.bind(store);
    return stepOf(async (...call) => {
      const [first, second] = [act(...call), sendsTwice ? act(...call) : undefined];
      return second === undefined ? first : (await Promise.all([first, second]))[1];
    });
  };
  store.run = isStep(store.run);
  store.change = isStep(store.change);
  store.call = stepOf(store.call.bind(store)) as never;
  const run = visits.run.bind(visits);
  visits.run = (op) => (op.recordId === undefined ? run(op) : step(() => run(op)));
  appends.run = stepOf(appends.run.bind(appends), () => server.onAppend());
  recordings.run = stepOf(recordings.run.bind(recordings));
  wishlists.make = stepOf(wishlists.make.bind(wishlists), () => server.onChange());
  const stamps = store.batcher(stampFormat(store, highWater));
  stamps.run = stepOf(stamps.run.bind(stamps), () => server.onChange());
  if (subscribers !== undefined) subscribers.add = stepOf(subscribers.add.bind(subscribers));
  const products =
    subscribers &&
    new Products({
      ...{ store, stamps, subscribers, presentOf, shopCurrency: 'EUR' },
      onSubscriber: (profileId) => server.onSubscriber(profileId),
      record: async () => {},
      onError: (error) => t.fail(error.message),
      onFuture: () => {},
      onAlert: () => {},
    });
  const server: Server = {
    ...parts,
    products,
    failures: [],
    onSubscriber: async () => {},
    // A try that ended is taken over after 20 ms.
    deliveries: new RequestStore(store, 20),
    onChange: async () => {},
    onAppend: async () => {},
    crashAfter(steps, isDone) {
      [left, lastIsDone, wasGone] = [steps, isDone, false];
    },
    pauseBefore(steps, act) {
      [pause, wasGone] = [{ left: steps, act }, false];
    },
    sendTwice() {
      sendsTwice = true;
    },
    recover() {
      left = Number.POSITIVE_INFINITY;
      pause = undefined;
      const was = wasGone;
      wasGone = false;
      return was;
    },
  };
  t.teardown(async () => {
    await subscribers?.close();
    await stamps.close();
    await parts.close();
  });
  return server;
}

export async function startTwo(...of: Parameters<typeof startServer>): Promise<[Server, Server]> {
  return [await startServer(...of), await startServer(...of)];
}

/** More steps than any operation takes. */
const MAX_STEPS = 60;

interface Round {
  readonly server: Server;
  readonly act: () => Promise<unknown>;
  readonly check: (hasEnded: boolean) => Promise<unknown>;
}

/** Ends a process after each step, until there are no more. @param round prepares, and returns what to do and check */
export async function atEachStep(round: (step: number) => Promise<Round>): Promise<number> {
  for (let step = 1; step <= MAX_STEPS; step++) {
    const { server, act, check } = await round(step);
    server.crashAfter(step, true);
    await act().catch(() => {});
    const hasEnded = server.recover();
    await check(hasEnded);
    if (!hasEnded) return step - 1;
  }
  throw new Error('it never ends');
}

/** Does `between` before each step of `act`, until there are no more. */
export async function betweenSteps(
  round: (step: number) => Promise<Round & { readonly between: () => Promise<unknown> }>,
): Promise<number> {
  for (let step = 1; step <= MAX_STEPS; step++) {
    const { server, act, check, between } = await round(step);
    server.pauseBefore(step, between);
    await act();
    const hasPaused = server.recover();
    await check(hasPaused);
    if (!hasPaused) return step - 1;
  }
  throw new Error('it never ends');
}

/** Ends a process after its first call of a script. */
export async function endAfter(server: Server, script: string, act: () => Promise<unknown>): Promise<void> {
  const change = server.store.change.bind(server.store);
  server.store.change = async (called, ...call) => {
    const reply = await change(called, ...call);
    if (called.name === script) server.crashAfter(1, false);
    return reply;
  };
  await act().catch(() => {});
  server.store.change = change;
  if (!server.recover()) throw new Error(`${script} was not called`);
}

/** @returns true if this call has merged the session */
export function login(server: Server, ids: Visitor['ids']): Promise<boolean> {
  return server.visitors.login(identityOf(ids), true);
}

/** Completes interrupted work, as every process does once it is due. */
export async function resume(server: Server): Promise<void> {
  const { client, keys } = server.store;
  for (let scan = 0; scan < 2; scan++) {
    for (const stream of await streamsOf(client, keys)) {
      const key = keys.pending(stream);
      for (const work of await client.zrange(key, '0', '-1')) await client.zadd(key, 'XX', 0, work);
    }
    await server.resume.run();
    if (server.failures.length > 0) throw new Error(server.failures.join());
  }
}

/** From now on the server's clock is ahead. */
export function passTime({ store }: Server, ms: number): void {
  const timeAt = store.timeAt.bind(store);
  store.timeAt = (address, time) => timeAt(address, time) + ms;
}

/** The events as ClickHouse shows them: each id once. A repeat must be the same to the byte. @param visitor only this one's */
export async function shownEvents(redis: Redis, prefix: string, visitor?: Visitor): Promise<Row[]> {
  const events = (await rowsById(redis, prefix)).filter(({ origin }) => origin !== 'merge');
  if (visitor === undefined) return events;
  const { customerId, sessionId } = visitor.ids;
  return events.filter((row) => row['session_id'] === sessionId || row['customer_id'] === customerId);
}

/** Merges as analysts see them: profile -> target, one for each event id. */
export async function shownMerges(redis: Redis, prefix: string): Promise<[from: string, target: string][]> {
  const rows = (await rowsById(redis, prefix)).filter(({ origin }) => origin === 'merge');
  return rows.map((row) => [String(row['profile_id']), JSON.parse(String(row['payload'])).into]);
}

async function rowsById(redis: Redis, prefix: string): Promise<Row[]> {
  const shown = new Map<unknown, Row>();
  for (const row of await rowsOf(redis, { prefix })) {
    const before = shown.get(row['event_id']);
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(row))
      throw new Error(`two rows of one id: ${JSON.stringify([before, row])}`);
    shown.set(row['event_id'], row);
  }
  return [...shown.values()];
}

export async function add(
  server: Server,
  who = GUEST,
  product = '1',
  quantity = 1,
  operation?: KeyedOperation,
) {
  const { answer } = await server.visitors.change(who, true, (location) =>
    server.items.add(location, who, contentOf(product, quantity), { operation }),
  );
  return answer;
}

export async function remove(
  server: Server,
  who = GUEST,
  product = '1',
  type: 'remove' | 'moveToCart' = 'remove',
  operation?: KeyedOperation,
) {
  const { answer } = await server.visitors.changeExisting(who, true, (location) =>
    server.items.remove(location, who, { productId: product, variantId: null, type }, operation),
  );
  return answer.removed;
}

export async function share(server: Server, who = GUEST, operation?: KeyedOperation) {
  const { answer } = await server.visitors.change(who, true, (location) =>
    server.shares.share(location, who, 'Link', operation),
  );
  return answer.code;
}

/** Under a key, as a request does: done once, however often it is sent. */
export async function keyed<T>(
  server: Server,
  key: string,
  act: (operation: KeyedOperation) => Promise<T>,
): Promise<T> {
  const answer = await server.deliveries.run({ scope: 'test', key, fingerprint: '' }, '', async (operation) =>
    JSON.stringify([await act(operation)]),
  );
  return (JSON.parse(answer) as [T])[0];
}

/** The list that a code leads to, for comparisons: each run draws new codes. */
export async function followShare(server: Server, code: unknown) {
  const shared = await server.shares.read(String(code), (location) => server.items.list(location));
  return shared?.answer.map(({ productId }) => productId) ?? [];
}

export async function buy(server: Server, who = GUEST) {
  const lines = ['1', '2', '3'].map((productId) => ({
    productId,
    variantId: null,
    quantity: 1,
    price: '1.00',
  }));
  await deliver(server, who, lines);
}

export async function deliver(server: Server, who: Identity, lines: readonly BoughtLine[]) {
  const { profileId } = await server.visitors.find(who);
  const { answer } = await server.visitors.peek(who, (location) =>
    server.purchases.find(location, lines, Date.now()),
  );
  if (typeof answer === 'string') throw new Error('a redirect that was not followed');
  await server.purchases.remove({
    change: (ask) => server.visitors.changeExisting(who, false, ask),
    ...{ items: answer, buyer: profileId, identity: who },
    orderId: '1',
  });
}

export async function listOf(server: Server, who = GUEST) {
  const { profileId, answer } = await server.visitors.peek(who, (location) => server.items.list(location));
  return { profileId, items: answer };
}

export async function products(server: Server, who = GUEST): Promise<string[]> {
  return (await listOf(server, who)).items.map(({ productId }) => productId);
}

/** Removes the visitors' keys, so that the same servers can serve other visitors. */
export async function clear(redis: Redis, prefix: string): Promise<void> {
  const { meta, senderChannel } = createKeys(prefix);
  const stays = keyPattern(meta, `${prefix}:{*}:marker`, senderChannel('*', '*'));
  await eachKey(redis, `${prefix}:*`, async (client, key) => stays.test(key) || client.del(key));
}
