// Removes share codes and index entries (addresses, items) that lead to expired guests. They are in other slots, so
// they can't expire with the guest's keys.
//
// One process at a time SCANs all keys; an interrupted sweep starts anew.

import { pause } from '../backoff.js';
import { mastersOf } from '../redis/client.js';
import type { Store } from '../redis/store.js';
import { repeat } from '../repeat.js';

/** An entry is swept within a day (docs/privacy.md), even if one sweep skips it because of GRACE_MS. */
const EVERY_MS = 6 * 60 * 60 * 1_000;
/** With this page and pause, a sweep takes a few percent of a core, in Redis and in `serve`. */
const PAGE = 200;
const PAUSE_MS = 20;
/** Newer entries stay: an entry is written before its profile's data. */
const GRACE_MS = 60 * 60 * 1_000;
const TAGGED = /^\{([a-z]+):([^}]+)\}$/;

/** One kind of keys, `{<tag>:<name>}`. */
export interface Sweepable {
  readonly tag: string;
  /** @returns the number of removed entries */
  sweep(name: string, graceMs: number): Promise<number>;
}

export interface SweeperParts {
  readonly store: Store;
  readonly kinds: readonly Sweepable[];
  readonly onSwept: (tag: string, entries: number) => void;
  readonly onFailed: (error: Error) => void;
  readonly everyMs?: number | undefined;
  readonly graceMs?: number | undefined;
}

/** @returns a function that ends the sweeps */
export function watchSweeps(parts: SweeperParts): () => Promise<void> {
  const { store, onFailed, everyMs = EVERY_MS } = parts;
  return repeat(everyMs / 4, async (signal) => {
    try {
      const taken = await store.call((client) => client.set(store.keys.sweep, '1', 'PX', everyMs, 'NX'));
      if (taken !== null) await sweep(parts, signal);
    } catch (error) {
      onFailed(error as Error);
    }
  });
}

async function sweep(parts: SweeperParts, signal: AbortSignal): Promise<void> {
  const { store, kinds, onFailed, onSwept, graceMs = GRACE_MS } = parts;
  const { prefix } = store.keys;
  const byTag = new Map(kinds.map((kind) => [kind.tag, kind]));
  const initials = kinds.map(({ tag }) => tag.charAt(0)).join('');
  const sweepKey = async (key: string) => {
    const [, tag = '', name = ''] = TAGGED.exec(key) ?? [];
    const removed = (await byTag.get(tag)?.sweep(name, graceMs)) ?? 0;
    if (removed > 0) onSwept(tag, removed);
  };
  const nodes = await store.call(async (client) => mastersOf(client));
  for (const node of nodes) {
    let cursor = '0';
    do {
      const from = cursor;
      const [after, found] = await store.call(() =>
        node.scan(from, 'MATCH', `${prefix}{[${initials}]*`, 'COUNT', PAGE),
      );
      cursor = after;
      for (const key of found) {
        await sweepKey(key.slice(prefix.length)).catch(onFailed);
        if (signal.aborted) return;
      }
      await pause(PAUSE_MS, signal);
    } while (cursor !== '0' && !signal.aborted);
  }
}
