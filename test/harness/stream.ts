// The events in Redis, as the flusher finds them.

import { createKeys } from '../../src/redis/keys.js';
import { type Dump, dumpRedis } from './dump.js';
import type { Urls } from './redis.js';

export type Row = Readonly<Record<string, unknown>>;

function numbersIn(dump: Dump, kind: string): number[] {
  const tags = Object.keys(dump).flatMap((key) => new RegExp(`\\{([^}]*)\\}:${kind}$`).exec(key)?.[1] ?? []);
  return tags.map((tag) => (/^\d+$/.test(tag) ? Number(tag) : 0));
}

/** The rows of an app's streams by `XRANGE`, parsed, in order; the entries' counts must be right. */
export async function rowsOf(redis: Urls, app: { readonly prefix: string }): Promise<Row[]> {
  const dump = await dumpRedis(redis, app.prefix);
  const keys = createKeys(app.prefix);
  const entries = numbersIn(dump, 'events').flatMap(
    (stream) => dump[keys.events(stream)] as [string, string[]][],
  );
  const timeOf = ([id]: [string, string[]]) => id.split('-').map(Number) as [number, number];
  entries.sort((a, b) => timeOf(a)[0] - timeOf(b)[0] || timeOf(a)[1] - timeOf(b)[1]);
  return entries.flatMap(([, [n, rows, d, lines]]) => {
    if (n !== 'n' || d !== 'd' || !lines?.endsWith('\n')) throw new Error(`not an entry: ${n} ${d}`);
    const parsed = lines
      .slice(0, -1)
      .split('\n')
      .map((line) => JSON.parse(line) as Row);
    if (parsed.length !== Number(rows)) throw new Error(`${rows} rows announced, ${parsed.length} there`);
    return parsed;
  });
}

const NO_EVENTS = new Set<unknown>(['merge', 'order', 'product']);

export interface Ids {
  readonly sessionId?: string;
  readonly customerId?: string;
}

export async function eventsOf(redis: Urls, app: { readonly prefix: string }, who: Ids): Promise<Row[]> {
  const rows = await rowsOf(redis, app);
  return rows.filter(
    (row) =>
      row['customer_id'] === who.customerId &&
      row['session_id'] === who.sessionId &&
      !NO_EVENTS.has(row['origin']),
  );
}

export function gist({ type, origin, payload }: Row): object {
  return { type, origin, payload: JSON.parse(String(payload)) };
}

/** A visit in the stream: profile, product and device, escaped. */
export type LoggedVisit = readonly [profileId: string, handle: string, device: string];

/**
 * All visits that the flusher has not read, by stream and entry; the entries' counts and the figures must be
 * right.
 */
export async function loggedVisits(redis: Urls, app: { readonly prefix: string }): Promise<LoggedVisit[][]> {
  const dump = await dumpRedis(redis, app.prefix);
  const { visits } = createKeys(app.prefix);
  return numbersIn(dump, 'visits')
    .flatMap((stream) => {
      const entries = (dump[visits.events(stream)] ?? []) as [string, string[]][];
      const state = dump[visits.eventsState(stream)] as { events: string; bytes: string } | undefined;
      const texts = entries.map(([, [n, rows, t, time, v, lines = '']]) => {
        if (`${n}${t}${v}` !== 'ntv' || Number.isNaN(Number(time)) || !lines.endsWith('\n'))
          throw new Error(`not an entry: ${n} ${v}`);
        if (lines.split('\n').length !== Number(rows) + 1) throw new Error(`${rows} rows announced`);
        return lines;
      });
      const all = texts.join('');
      const found = [all.split('\n').length - 1, Buffer.byteLength(all)];
      if (state !== undefined && `${state.events} ${state.bytes}` !== found.join(' '))
        throw new Error(`figures ${JSON.stringify(state)}, but ${found}`);
      return texts.map((text) => text.slice(0, -1).split('\n'));
    })
    .map((lines) => lines.map((line) => line.split('\t').slice(-3) as unknown as LoggedVisit));
}
