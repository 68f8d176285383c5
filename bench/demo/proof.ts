// What has to be true after the afternoon, and whether it is.

import type { Product } from './catalogue.js';
import type { Acknowledged } from './http-shop.js';
import type { CheckCount } from './visitor.js';

/** One promise, and where it was broken. */
export interface Finding {
  readonly sentence: string;
  readonly wrong: readonly string[];
}

/** Counts that were read, and those of them that were not what the visitor knew them to be. */
export class CountCheck {
  checked = 0;
  readonly wrong: string[] = [];

  readonly check: CheckCount = (who, product: Product, expected, got) => {
    this.checked += 1;
    if (got !== expected) this.wrong.push(`${who.sessionId} ${product.handle}: ${got}, not ${expected}`);
  };
}

/** Events of one number, as ClickHouse has them. */
export interface Stored {
  readonly number: string;
  readonly type: string;
  readonly profile_id: string;
  readonly rows: number;
}

/** Every acknowledged event is stored once, as what it was; nothing else is stored. What is not so, one sentence each. */
export function compareEvents(
  acknowledged: ReadonlyMap<string, Acknowledged>,
  stored: readonly Stored[],
): string[] {
  const found = new Map(stored.map((row) => [row.number, row]));
  const wrong: string[] = [];
  for (const [number, { type, profileId }] of acknowledged) {
    const row = found.get(number);
    if (!row) wrong.push(`${number} (${type}) is missing`);
    else if (row.rows !== 1) wrong.push(`${number} (${type}) is there ${row.rows} times`);
    else if (row.type !== type || row.profile_id !== profileId)
      wrong.push(`${number} (${type}) is another event`);
  }
  for (const { number } of stored)
    if (!acknowledged.has(number)) wrong.push(`${number} was never acknowledged`);
  return wrong;
}
