// A session's data while they are merged: frozen at the session, and applied to the customer in pages. Counts are sorted by
// product, items from the newest to the oldest. A page ends with a name, which the member's note keeps, so that any process
// can resume after the last page.

import { type HashPage, pairsOf, readHash } from '../redis/hash.js';
import type { Keys } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { type LinkRef, targetText } from './link.js';

type Reply = [] | [facts: string[], members: string[], counts: HashPage, items: HashPage];

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

/** A session's keys, in the order of the scripts that freeze, end and undo its merge. */
export function mergedKeys(keys: Keys, session: string): string[] {
  return [
    keys.counts(session),
    keys.profile(session),
    keys.items(session),
    keys.members(session),
    keys.frozenCounts(session),
  ];
}

/** @param begins true to freeze a guest's data @returns undefined unless the session's data are frozen under this link */
export async function freeze(
  store: Store,
  session: string,
  link: LinkRef,
  begins: boolean,
): Promise<Frozen | undefined> {
  const { keys } = store;
  const args = [targetText(link), FROZEN_MS, PAGE_SIZE, begins ? 1 : ''];
  const reply = await store.change(START_MERGE, mergedKeys(keys, session), args);
  if (reply.length === 0) return undefined;
  const [facts, members, firstCounts, firstItems] = reply;
  const counts = await readHash(store, keys.frozenCounts(session), firstCounts);
  const items = await readHash(store, keys.items(session), firstItems);
  const shares = pairsOf(facts).flatMap(([name, value]) => (name === 'share' ? [`share:${value}`] : []));
  return {
    entries: [
      ...[...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map((pair) => entryOf('count', pair[0], pair)),
      ...[...items]
        .map((pair) => entryOf('item', itemPosition(pair[1]), pair))
        .sort((a, b) => (a.position > b.position ? -1 : 1)),
    ],
    facts: pairsOf(facts).filter(([name]) => !OWN.has(name)),
    members: [...pairsOf(members).map(([member]) => member), ...shares],
  };
}

/** The page after this position. */
export function pageAfter({ entries, facts, members }: Frozen, position: string): Page {
  const rest = position === '' ? entries : entries.filter((entry) => isAfter(entry, position));
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

/** Counts ascend, then items descend. */
function isAfter({ kind, position }: Entry, last: string): boolean {
  if (last.startsWith('count ')) return kind === 'item' || position > last;
  return kind === 'item' && position < last;
}

function entryOf(kind: Entry['kind'], name: string, pair: Pair): Entry {
  return { kind, position: `${kind} ${name}`, pair };
}

/** @param item begins with `<item id> <added at>` */
function itemPosition(item: string): string {
  const [id = '', addedAt = ''] = item.split(/[ \n]/, 2);
  return `${addedAt} ${id}`;
}
