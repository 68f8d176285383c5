// A session's data while they are merged: frozen at the session, and applied to the customer in pages. Counts are sorted by
// product, items from the newest to the oldest. A page ends with a name, which the member's note keeps, so that any process
// can resume after the last page.

import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type LinkRef, targetText } from './link.js';

type Reply =
  | []
  | [
      facts: string[],
      members: string[],
      countCursor: string,
      counts: string[],
      itemCursor: string,
      items: string[],
    ];

const START_MERGE = loadScript<Reply>('profiles/startMerge');
/** How long frozen data are kept if the merge is never completed, ms. */
export const FROZEN_MS = 30 * 24 * 60 * 60 * 1_000;
const PAGE_SIZE = 500;
export const MERGED = 'merged';

type Pair = readonly [name: string, value: string];

export interface Frozen {
  /** Counts, then items, in the order in which they are applied. */
  readonly entries: readonly Entry[];
  readonly facts: readonly Pair[];
  readonly members: readonly string[];
}

interface Entry {
  /** As in a member's note. */
  readonly position: string;
  readonly kind: 'count' | 'item';
  readonly pair: Pair;
}

export interface Page {
  /** How far the merge has come before and after this page. */
  readonly before: string;
  readonly after: string;
  readonly counts: readonly Pair[];
  readonly items: readonly Pair[];
  readonly facts: readonly Pair[];
  readonly members: readonly string[];
}

/** Facts of the session that aren't the customer's. */
const OWN = new Set(['target', 'mergedAt', 'registered', 'itemBytes', 'name']);

/** @param begins true to freeze a guest's data @returns undefined unless the session's data are frozen under this link */
export async function freeze(
  store: Store,
  session: string,
  link: LinkRef,
  begins: boolean,
): Promise<Frozen | undefined> {
  const { keys } = store;
  const items = keys.items(session);
  const counts = keys.frozenCounts(session);
  const touched = [keys.counts(session), keys.profile(session), items, keys.members(session), counts];
  const args = [targetText(link), FROZEN_MS, PAGE_SIZE, begins ? 1 : ''];
  const reply = await store.change(START_MERGE, touched, args);
  if (reply.length === 0) return undefined;
  const [facts, members, countCursor, firstCounts, itemCursor, firstItems] = reply;
  const allCounts = await restOf(store, counts, countCursor, pairsOf(firstCounts));
  const allItems = await restOf(store, items, itemCursor, pairsOf(firstItems));
  const shares = pairsOf(facts).flatMap(([name, value]) => (name === 'share' ? [`share:${value}`] : []));
  return {
    entries: [
      ...[...allCounts].sort(([a], [b]) => (a < b ? -1 : 1)).map((pair) => entryOf('count', pair[0], pair)),
      ...[...allItems]
        .map((pair) => entryOf('item', itemPosition(pair[1]), pair))
        .sort((a, b) => (a.position > b.position ? -1 : 1)),
    ],
    facts: pairsOf(facts).filter(([name]) => !OWN.has(name)),
    members: [...pairsOf(members).map(([member]) => member), ...shares],
  };
}

/** The page after this position. */
export function pageAfter({ entries, facts, members }: Frozen, position: string): Page {
  const [kind, last = ''] = splitOnce(position);
  const rest = entries.filter((entry) => {
    if (position === '') return true;
    const [, name = ''] = splitOnce(entry.position);
    if (kind === 'count') return entry.kind === 'item' || name > last;
    return entry.kind === 'item' && name < last;
  });
  const page = rest.slice(0, PAGE_SIZE);
  const isLast = page.length === rest.length;
  const of = (wanted: Entry['kind']) => page.filter((one) => one.kind === wanted).map(({ pair }) => pair);
  return {
    before: position,
    after: isLast ? MERGED : (page.at(-1) as Entry).position,
    counts: of('count'),
    items: of('item'),
    facts: isLast ? facts : [],
    members: isLast ? members : [],
  };
}

function entryOf(kind: Entry['kind'], name: string, pair: Pair): Entry {
  return { kind, position: `${kind} ${name}`, pair };
}

/** @param item begins with `<item id> <added at>` */
function itemPosition(item: string): string {
  const [id = '', addedAt = ''] = item.split(/[ \n]/, 2);
  return `${addedAt} ${id}`;
}

function splitOnce(text: string): [string, string?] {
  const at = text.indexOf(' ');
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

async function restOf(
  store: Store,
  key: string,
  cursor: string,
  first: readonly Pair[],
): Promise<Map<string, string>> {
  const found = new Map(first);
  for (let from = cursor; from !== '0'; ) {
    const at = from;
    const [next, fields] = await store.call((client) => client.hscan(key, at, 'COUNT', PAGE_SIZE));
    for (const [name, value] of pairsOf(fields)) found.set(name, value);
    from = next;
  }
  return found;
}

function pairsOf(fields: readonly string[]): Pair[] {
  const pairs: Pair[] = [];
  for (let i = 0; i < fields.length; i += 2) pairs.push([fields[i] as string, fields[i + 1] as string]);
  return pairs;
}
