// A shop's tool as a receiver, which verifies each delivery with `standardwebhooks`; and deliverers in this process.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { Webhook } from 'standardwebhooks';
import { openIdentityOnly } from '../../../src/app/opening.js';
import { encodeEvent, type NewEvent } from '../../../src/events/row.js';
import type { AttemptSpec } from '../../../src/extras/receivers/attempt.js';
import { startDeliverer } from '../../../src/extras/receivers/deliverer.js';
import { openHandOver } from '../../../src/extras/receivers/hand-over.js';
import { receiverKeys } from '../../../src/extras/receivers/keys.js';
import type { NewReceiver } from '../../../src/extras/receivers/receiver.js';
import { Receivers } from '../../../src/extras/receivers/receivers.js';
import type { Resolve } from '../../../src/extras/receivers/resolver.js';
import { listen } from '../../harness/listen.js';
import type { Scope, TestRedis } from '../../harness/redis.js';
import { openStore } from '../../harness/store.js';
import { until } from '../../harness/until.js';

const HIGH_WATER = 1_000_000;

export interface Delivered {
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests compare it with what they expect
  readonly body: any;
  readonly headers: IncomingMessage['headers'];
}

type Answer = (res: ServerResponse, delivered: Delivered) => void;

export interface Tool {
  readonly url: string;
  readonly delivered: Delivered[];
  /** The receiver's secret. Nothing is verified until it is set. */
  secret: string | undefined;
  answer: Answer;
  readonly faults: string[];
}

export async function startTool(t: Scope): Promise<Tool> {
  const ok: Answer = (res) => void res.end('{}');
  const server = createServer(async (req, res) => {
    const raw = await text(req);
    const headers = req.headers as Record<string, string>;
    try {
      if (tool.secret !== undefined) new Webhook(tool.secret).verify(raw, headers);
    } catch (error) {
      tool.faults.push((error as Error).message);
      return void res.writeHead(401).end();
    }
    const delivered = { id: headers['webhook-id'] ?? '', body: JSON.parse(raw), headers };
    tool.delivered.push(delivered);
    tool.answer(res, delivered);
  });
  const url = `http://127.0.0.1:${await listen(t, server)}/hook`;
  const tool: Tool = { url, delivered: [], secret: undefined, answer: ok, faults: [] };
  return tool;
}

const NO_NAMES = { device: null, locale: null, email: null, firstName: null, lastName: null };
let events = 0;

/** Local addresses are allowed, and retries come soon. @param resolve replaces the system's name resolution */
export async function openDeliveries(t: Scope, redis: TestRedis, prefix: string, resolve?: Resolve) {
  const store = await openStore(t, redis, { keyPrefix: prefix });
  const log = pino({ level: 'silent' });
  const receivers = new Receivers(
    store,
    { RECEIVERS_PRIVATE: 'allow', RECEIVERS_HIGH_WATER: HIGH_WATER },
    log,
    resolve,
  );
  const handOver = openHandOver(store.client, store.keys, HIGH_WATER, log);
  const limits = { MAX_PRODUCTS: 100, MAX_ITEMS: 100, MAX_ITEMS_BYTES: 1_000_000 };
  const { locator } = openIdentityOnly(store, limits, (close) => t.teardown(close), []);
  return {
    store,
    receivers,
    handOver,
    async status(id?: string) {
      return receivers.statusOf(id ?? (await receivers.list())[0]?.id ?? '');
    },
    settled: () =>
      until('nothing waits', async () => {
        const all = await Promise.all((await receivers.list()).map(({ id }) => receivers.statusOf(id)));
        return all.every(({ pending }) => pending === 0);
      }),
    async makeDue(id: string) {
      const { due } = receiverKeys(store.keys).deliveries(id);
      const entries = await store.client.zrange(due, '0', '-1', 'WITHSCORES');
      for (let i = 0; i < entries.length; i += 2)
        await store.client.zadd(due, Number(entries[i + 1]) % 16, entries[i] as string);
    },
    async receiver(tool: Pick<Tool, 'url' | 'secret'>, changes: Partial<NewReceiver> = {}) {
      const asked = { url: tool.url, types: ['*'], includePersonal: false } as const;
      const made = await receivers.add({ ...asked, ...changes });
      tool.secret = made.secret;
      return made;
    },
    async send(...given: Partial<NewEvent>[]) {
      const lines = given.map((event) =>
        encodeEvent({
          ...{ type: 'add', origin: 'item', profileId: `1.sX${events++}`, payload: {} },
          identity: { customerId: null, sessionId: 's-1', ...NO_NAMES },
          ...event,
        }),
      );
      await handOver.handOver(Buffer.from(lines.join('')), []);
      return lines.map((line) => (JSON.parse(line) as { event_id: string }).event_id);
    },
    deliverer(changes: Partial<AttemptSpec> = {}) {
      const deliverer = startDeliverer({
        ...{ store, locator, receivers, log },
        ...{ retriesMs: [50, 50, 50], ...changes },
      });
      t.teardown(() => void deliverer.close());
      return deliverer;
    },
  };
}
