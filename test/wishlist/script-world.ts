// Operations as lua/wishlist.lua gets them, and a Redis on which it runs as on one server or as on a cluster.

import type { Test } from 'tap';
import { startLuaRedis } from '../harness/lua.js';

const LANE = '{a}:lane';
export const [EVENTS, STATE] = ['{a}:events', '{a}:state'];
export const [PROFILE, OUTBOX, ITEMS, RECORD] = ['{a}:p:1', '{a}:o:1', '{a}:i:1', '{a}:k:1'];
export const SHARE = '{a}:share';
/** The door of a session. */
export const doorOf = (name: string) => `{a}:v:${name}`;
export const LEFT_BEHIND_MS = 60_000;
export const CODE = 'AAAA-BBBB-CCCC-_';

/** The line of an event; its id is where the script looks for it. */
export const lineOf = (id: string, more = '') => `{"event_id":"${id.padEnd(36, '.')}"${more}}`;
export const idOf = (id: string) => id.padEnd(36, '.');

export interface Op {
  readonly keys: readonly string[];
  readonly lines: string;
  readonly event?: string;
  readonly content?: string;
}

interface At {
  /** Where its door is checked: whose, and what it is expected to say; empty: at home. */
  readonly name?: string;
  readonly field?: string;
  /** Whether it is done under RECORD. */
  readonly isOnce?: boolean;
}

function opOf(letter: string, third: string, rest: string, { name = '', field = '', isOnce }: At): Op {
  const door = name === '' ? '' : `${field}\n`;
  return {
    keys: [PROFILE, third, ...(isOnce ? [RECORD] : []), ...(name === '' ? [] : [doorOf(name)])],
    lines: `${letter}${name}\n${door}${isOnce ? 60 : ''}\n${rest}`,
  };
}

/** Adds; an item is born as `id day`. */
export const add = (field: string, content: string, event: string, at: At = {}, born = 'id day'): Op => ({
  ...opOf('a', ITEMS, `${field}\n${born}\n`, at),
  event: lineOf(event),
  content: `later\n${content}`,
});

export const remove = (field: string, line: string, payload = '', at: At = {}): Op =>
  opOf('r', ITEMS, `1\n${field}\n${line}\n${payload}\n`, at);

export const share = (event: string, isWritten = 0, at: At = {}): Op => ({
  ...opOf('c', SHARE, `${CODE}\n${isWritten}\na.1\n`, at),
  event: lineOf(event, `,"code":"${CODE}"`),
});

export interface Caps {
  readonly seq?: number;
  readonly deadline?: number;
  readonly highWater?: number;
  readonly maxItems?: number;
  readonly maxBytes?: number;
}

/** Where a profile has an owner and nothing else, before each test. */
export async function openScriptWorld(t: Test, isCluster: boolean) {
  const { client, call, clock } = await startLuaRedis(t);
  t.beforeEach(async () => {
    await client.flushall();
    await client.hset(PROFILE, 'owner', 'c:1');
  });
  let seq = 0;

  const batch = async (ops: readonly Op[], caps: Caps = {}) => {
    const { highWater = 1e9, maxItems = 0, maxBytes = 0, deadline = await clock(10_000) } = caps;
    const keys = ops.flatMap(({ keys }): readonly string[] =>
      isCluster && keys.length > 1 && keys[1] !== OUTBOX ? [PROFILE, ITEMS, OUTBOX, ...keys.slice(2)] : keys,
    );
    return call(
      'wishlist',
      [LANE, ...(isCluster ? [] : [EVENTS, STATE]), ...keys],
      [
        ...[caps.seq ?? ++seq, deadline, 60, isCluster ? '' : highWater, maxItems, maxBytes],
        'productId=product_id quantity=quantity compareAt=compare_at ',
        0,
        ops.map(({ lines }) => lines).join(''),
        ops.map(({ event }) => (event === undefined ? '' : `${event}\n`)).join(''),
        ...ops.flatMap(({ content }) => content ?? []),
      ],
    ) as Promise<unknown[]>;
  };
  /** The answer of one operation; undefined: done as asked, with its event in the stream. */
  const one = async (op: Op, caps?: Caps) => (await batch([op], caps))[1];
  /** How it is said that an operation was done, with these events. */
  const done = (value: string, ...events: string[]) =>
    isCluster ? `=${value}\n${events.map((line) => `${line}\n`).join('')}` : value && `=${value}`;
  const isDone = (answer: unknown, value: string, ...events: string[]) =>
    t.equal(answer ?? '', done(value, ...events));
  const lines = async (): Promise<string> => {
    if (!isCluster) return (await client.xrange(EVENTS, '-', '+')).map(([, fields]) => fields[3]).join('');
    return Object.values(await client.hgetall(OUTBOX))
      .map((entry) => entry.split('\n')[2])
      .join('\n');
  };
  /** An event of the outbox is in the stream. */
  const acknowledge = async (event: string) => {
    if (isCluster) await batch([{ keys: [PROFILE, OUTBOX], lines: `s\n${idOf(event)}\n` }]);
  };
  /** Makes an event of the outbox old. */
  const age = async (event: string, ms: number) => {
    const entry = await client.hget(OUTBOX, idOf(event));
    if (entry !== null)
      await client.hset(OUTBOX, idOf(event), entry.replace(/^\d+/, String(await clock(-ms))));
  };
  const data = async () =>
    (await client.keys('*')).filter((key) => ![LANE, STATE, PROFILE].includes(key)).sort();
  return { client, call, clock, batch, one, done, isDone, lines, acknowledge, age, data };
}
