// Imports wishlists in two passes:
//
//   file ──▶ records ──▶ rows, or faults ──▶ spool      changes nothing
//   spool ──▶ a visitor's rows in sequence ──▶ lua/extras/import/importItems.lua, item and event in one step
//
// Memory is bounded: a large part of the spool is divided again, by item, because one visitor may have any number of
// rows. Rows of an item stay together, so that the earliest date counts; a full list then takes them in any order.
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
import { type Columns, IMPORT_NAMES, type ImportField } from './columns.js';
import type { CustomerOf } from './emails.js';
import type { ImportedItems, ImportOutcome } from './imported-items.js';
import { type Input, readRecords } from './records.js';
import { type ImportRow, readRow } from './row.js';
import { Spool, type SpoolPart } from './spool.js';

/** Visitors imported concurrently. Their items fill about one script call. */
const MAX_CONCURRENT = 500;
/** Small parts of the spool are imported together once they have this many items. */
const ITEMS_PER_PASS = 20_000;
/** Characters of the largest part that is not divided: some 40,000 rows. */
const MAX_PART = 16 * 1024 * 1024;
const VISITORS_BETWEEN_LOOKS = 1_000;
/** Milliseconds to wait while Redis doesn't answer or the stream of events is full. */
const PATIENCE_MS = 300_000;
const WAITING_MS = 2_000;

export interface ImportSpec {
  readonly store: Store;
  readonly visitors: Visitors;
  readonly items: ImportedItems;
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
    rows: 0,
    new: 0,
    there: 0,
    again: 0,
    gone: 0,
    repeated: 0,
    leftOut: 0,
    visitors: 0,
  };
  const spool = new Spool();
  try {
    await readFile(input, spec, spool, counts);
    const importer = new Importer(spec, counts);
    let lists = new Lists();
    for await (const part of spool.parts()) {
      if (spec.stop.aborted) break;
      if (part.size > MAX_PART) {
        await importer.bringDivided(part);
        continue;
      }
      await lists.addAll(part);
      if (lists.items < ITEMS_PER_PASS) continue;
      await importer.bring(lists);
      lists = new Lists();
    }
    await importer.bring(lists);
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

  async bringDivided(part: SpoolPart): Promise<void> {
    const divided = new Spool();
    const tried = new Map<string, number>();
    try {
      for await (const line of part.lines()) {
        const { visitor, field }: StoredRow = JSON.parse(line);
        await divided.add(`${visitor} ${field}`, line);
      }
      for await (const ofItems of divided.parts()) {
        if (this.#spec.stop.aborted) return;
        const lists = new Lists();
        await lists.addAll(ofItems);
        await this.bring(lists, tried);
      }
    } finally {
      await divided.close();
    }
  }

  /** @param tried new items of a dry run, by visitor: visitors in it are counted, and have more rows than these */
  async bring({ all }: Lists, tried = new Map<string, number>()): Promise<void> {
    const lists = [...all.values()];
    for (let from = 0; from < lists.length; from += VISITORS_BETWEEN_LOOKS) {
      this.#erased = await this.#readErased();
      const next = lists.slice(from, from + VISITORS_BETWEEN_LOOKS);
      await Promise.all(next.map((list) => this.#limit(() => this.#bringList(list, tried))));
    }
  }

  async #bringList({ first, items, rows }: List, triedOf: Map<string, number>): Promise<void> {
    const { stop, isDry, onFault, onRow } = this.#spec;
    const counts = this.#counts;
    if (!triedOf.has(first.visitor)) counts.visitors++;
    let tried = triedOf.get(first.visitor) ?? 0;
    triedOf.set(first.visitor, tried);
    for (const row of items.values()) {
      if (stop.aborted) return;
      try {
        if (this.#erased.has(first.visitor) || this.#erased.has(EVERY_PROFILE)) throw BEING_ERASED;
        const outcome = await this.#persistently(() => this.#import(row, isDry ? tried : undefined));
        counts[outcome]++;
        if (outcome === 'new') triedOf.set(first.visitor, ++tried);
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
            items.add(location, identity, { content, at, isStockKnown }),
          )
        : await visitors.peek(identity, (location) =>
            items.add(location, identity, { content, at, isStockKnown, tried }),
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

/** Visitors' rows, of each item the earliest. */
class Lists {
  readonly all = new Map<string, List>();
  items = 0;

  async addAll(part: SpoolPart): Promise<void> {
    for await (const line of part.lines()) this.#add(JSON.parse(line));
  }

  #add(row: StoredRow): void {
    let list = this.all.get(row.visitor);
    if (list === undefined) {
      list = { first: row, items: new Map(), rows: 0 };
      this.all.set(row.visitor, list);
    }
    list.rows++;
    const before = list.items.get(row.field);
    if (before === undefined) this.items++;
    if (before === undefined || row.at < before.at) list.items.set(row.field, row);
  }
}
