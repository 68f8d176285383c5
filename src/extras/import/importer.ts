// Imports wishlists in two passes:
//
//   file ──▶ records ──▶ rows, or faults ──▶ spool      changes nothing
//   spool ──▶ a visitor's rows in sequence ──▶ lua/wishlist/changeItems.lua, item and event in one step
//
// Each imported item is marked, so that an import may be repeated after an abort.

import { setTimeout as sleep } from 'node:timers/promises';
import pLimit from 'p-limit';
import { backoffMs } from '../../backoff.js';
import { ERRORS, ServiceError, StartupError } from '../../errors.js';
import { readErasures } from '../../flush/erasures.js';
import { EVERY_PROFILE, namesIn } from '../../identity-rules.js';
import type { Visitors } from '../../profiles/visitors.js';
import { inWords } from '../../redis/failures.js';
import type { Store } from '../../redis/store.js';
import { itemField } from '../../wishlist/item.js';
import type { ImportOutcome, Items } from '../../wishlist/items.js';
import { type Columns, IMPORT_NAMES, type ImportField } from './columns.js';
import type { CustomerOf } from './emails.js';
import { type Input, readRecords } from './records.js';
import { type ImportRow, readRow } from './row.js';
import { Spool } from './spool.js';

/** Visitors imported concurrently. Their items fill about one script call. */
const MAX_CONCURRENT = 500;
/** Parts of the spool are imported together once they have this many rows. */
const ROWS_PER_PASS = 20_000;
const VISITORS_BETWEEN_LOOKS = 1_000;
/** Milliseconds to wait while Redis doesn't answer or the stream of events is full. */
const PATIENCE_MS = 300_000;
const WAITING_MS = 2_000;

export interface ImportSpec {
  readonly store: Store;
  readonly visitors: Visitors;
  readonly items: Items;
  readonly customerOf: CustomerOf;
  readonly isDry: boolean;
  readonly stop: AbortSignal;
  readonly onFault: (line: number, fault: string) => void;
  readonly onUnused: (columns: readonly string[]) => void;
  readonly onRow: (pass: 'read' | 'imported', rows: number, total?: number) => void;
  readonly onWait: (why: string) => void;
}

export interface ImportCounts extends Record<ImportOutcome, number> {
  rows: number;
  repeated: number;
  leftOut: number;
  visitors: number;
}

type StoredRow = ImportRow & { readonly visitor: string; readonly field: string };

/**
 * Returns the counts so far if it is aborted.
 * @throws StartupError: items imported so far stay, and another import skips them
 */
export async function importWishlists(input: Input, spec: ImportSpec): Promise<ImportCounts> {
  const counts: ImportCounts = {
    ...{ rows: 0, new: 0, there: 0, again: 0, gone: 0 },
    ...{ repeated: 0, leftOut: 0, visitors: 0 },
  };
  const spool = new Spool();
  try {
    await readFile(input, spec, spool, counts);
    const importer = new Importer(spec, counts);
    let rows: StoredRow[] = [];
    for await (const lines of spool.parts()) {
      if (spec.stop.aborted) break;
      for (const line of lines) rows.push(JSON.parse(line));
      if (rows.length < ROWS_PER_PASS) continue;
      await importer.bring(rows);
      rows = [];
    }
    await importer.bring(rows);
  } finally {
    await spool.close();
  }
  return counts;
}

async function readFile(input: Input, spec: ImportSpec, spool: Spool, counts: ImportCounts): Promise<void> {
  const { stop, onFault, onRow, customerOf } = spec;
  const accept = (columns: Columns<ImportField>) => {
    assertRequired(input.name, columns);
    if (columns.unused.length > 0) spec.onUnused(columns.unused);
  };
  for await (const { line, values, fault } of readRecords(input, IMPORT_NAMES, accept)) {
    if (stop.aborted) return;
    counts.rows++;
    const row = fault === undefined ? readRow(line, values, customerOf) : [fault];
    if ('content' in row) {
      const [visitor = ''] = namesIn(row.identity);
      const field = itemField(row.content.productId, row.content.variantId);
      await spool.add(visitor, JSON.stringify({ ...row, visitor, field } satisfies StoredRow));
    } else {
      counts.leftOut++;
      onFault(line, row.join('; '));
    }
    onRow('read', counts.rows);
  }
}

function assertRequired(name: string, { found, unused }: Columns<ImportField>): void {
  const needed: readonly (readonly ImportField[])[] = [
    ['customerId', 'sessionId', 'email'],
    ['productId'],
    ['productHandle', 'productUrl'],
    ['productTitle'],
    ['price'],
    ['addedAt'],
  ];
  const missing = needed.filter((fields) => !fields.some((field) => found.has(field)));
  if (missing.length === 0) return;
  const columns = missing.map((fields) => fields.join(' or ')).join(', ');
  const others = unused.length === 0 ? '' : ` It also has: ${unused.join(', ')}.`;
  throw new StartupError(`${name} lacks columns: ${columns}.${others} docs/import.md names what is found.`);
}

class Importer {
  readonly #spec: ImportSpec;
  readonly #counts: ImportCounts;
  readonly #limit = pLimit(MAX_CONCURRENT);
  #erased: ReadonlySet<string> = new Set();
  #total: number;
  #done = 0;

  constructor(spec: ImportSpec, counts: ImportCounts) {
    this.#spec = spec;
    this.#counts = counts;
    this.#total = counts.rows - counts.leftOut;
  }

  async bring(rows: readonly StoredRow[]): Promise<void> {
    const lists = [...listsOf(rows).values()];
    this.#counts.visitors += lists.length;
    for (let from = 0; from < lists.length; from += VISITORS_BETWEEN_LOOKS) {
      this.#erased = await this.#readErased();
      const next = lists.slice(from, from + VISITORS_BETWEEN_LOOKS);
      await Promise.all(next.map((list) => this.#limit(() => this.#bringList(list))));
    }
  }

  async #bringList({ first, items, rows }: List): Promise<void> {
    const { stop, isDry, onFault, onRow } = this.#spec;
    const counts = this.#counts;
    let tried = 0;
    for (const row of items.values()) {
      if (stop.aborted) return;
      try {
        if (this.#erased.has(first.visitor) || this.#erased.has(EVERY_PROFILE)) throw BEING_ERASED;
        const outcome = await this.#persistently(() => this.#import(row, isDry ? tried : undefined));
        counts[outcome]++;
        if (outcome === 'new') tried++;
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        counts.leftOut++;
        const isFull = error.code === 'too_many_items';
        onFault(row.line, isFull ? 'the list is full: see MAX_ITEMS and MAX_ITEMS_BYTES' : error.message);
      }
      onRow('imported', ++this.#done, this.#total);
    }
    counts.repeated += rows - items.size;
    this.#done += rows - items.size;
  }

  async #import({ identity, content, at, isStockKnown }: StoredRow, tried?: number): Promise<ImportOutcome> {
    const { visitors, items } = this.#spec;
    const { answer } =
      tried === undefined
        ? await visitors.change(identity, false, (location) =>
            items.import(location, identity, { content, at, isStockKnown }),
          )
        : await visitors.peek(identity, false, (location) =>
            items.import(location, identity, { content, at, isStockKnown, tried }),
          );
    return answer.outcome;
  }

  async #readErased(): Promise<ReadonlySet<string>> {
    const { client, keys } = this.#spec.store;
    return new Set((await readErasures(client, keys)).keys());
  }

  /** Retries while Redis is down or the stream of events is full. @throws ServiceError, StartupError */
  async #persistently<T>(act: () => Promise<T>): Promise<T> {
    const { onWait, stop } = this.#spec;
    const began = performance.now();
    for (let failures = 1; ; failures++) {
      try {
        return await act();
      } catch (error) {
        if (!(error instanceof ServiceError) || !ERRORS[error.code].retryable) throw error;
        const ms = performance.now() - began;
        const why =
          error.overload === 'stream'
            ? 'As many events wait for `flush` as may (STREAM_HIGH_WATER)'
            : inWords(error);
        if (ms > PATIENCE_MS || stop.aborted)
          throw new StartupError(`${why}. What is imported stays; run the same import again.`);
        if (ms > WAITING_MS) onWait(why);
        await sleep(backoffMs(failures));
      }
    }
  }
}

const BEING_ERASED = new ServiceError(
  'forbidden',
  'its visitor is being erased: take it out of the file, or import it later as a new visitor',
);

interface List {
  readonly first: StoredRow;
  readonly items: Map<string, StoredRow>;
  rows: number;
}

function listsOf(rows: readonly StoredRow[]): Map<string, List> {
  const lists = new Map<string, List>();
  for (const row of rows) {
    let list = lists.get(row.visitor);
    if (list === undefined) {
      list = { first: row, items: new Map(), rows: 0 };
      lists.set(row.visitor, list);
    }
    list.rows++;
    const before = list.items.get(row.field);
    if (before === undefined || row.at < before.at) list.items.set(row.field, row);
  }
  return lists;
}
