// Reads an export for a visitor's page: the length and a bounded number of rows of each list.

import { StringDecoder } from 'node:string_decoder';
import { imageAddress } from '../../../http/html.js';
import type { ShopLinks } from '../../shop-links.js';
import { JsonSplitter, type Path, type Want } from './json-splitter.js';

/** The service answered something else than an export, or a value that is too large. */
export class NoExport extends Error {}

const MAX_VALUE = 4_194_304;
const MAX_ROWS = 100;
const MAX_ITEMS = 200;
const MAX_NAMES = 20;
const MAX_TEXT = 300;
const ROWS = ['events', 'visitLog', 'purchases', 'productAlerts'];

interface List<Row> {
  count: number;
  readonly rows: Row[];
}

type Fields = Readonly<Record<string, unknown>>;

interface Names {
  readonly customerIds: List<string>;
  readonly sessionIds: List<string>;
}

interface Other extends Partial<Names> {
  readonly profileId: string;
}

export class VisitorReader {
  #profileId = '';
  #names: Names = { customerIds: empty(), sessionIds: empty() };
  #profile: Fields = {};
  /** The first and the last time in the export: a profile without facts has no times of its own. */
  #firstAt = '';
  #lastAt = '';
  readonly #items = empty<Fields>();
  readonly #visits = empty<readonly [handle: string, count: number]>();
  #shares: List<Fields> = empty();
  /** Null if the service has no ClickHouse. */
  readonly #tables = new Map<string, List<Fields> | null>(ROWS.map((name) => [name, empty()]));
  /** At most 99: an address leads to 100 profiles. */
  readonly #others: Other[] = [];
  readonly #decoder = new StringDecoder('utf8');
  readonly #splitter = new JsonSplitter(wanted, (path, value) => this.#take(path, value), MAX_VALUE);

  /** @param onProfile called with the id of each visitor of the export, before `write` returns */
  constructor(
    private readonly links: ShopLinks,
    private readonly onProfile: (profileId: string) => void,
  ) {}

  /** @throws NoExport */
  write(bytes: Uint8Array): void {
    this.#split(() => this.#splitter.write(this.#decoder.write(Buffer.from(bytes))));
  }

  /** @throws NoExport */
  end(): object {
    this.#split(() => this.#splitter.end());
    if (this.#profileId === '') throw new NoExport();
    return {
      profileId: this.#profileId,
      ...this.#names,
      profile: this.#profile,
      firstAt: this.#firstAt,
      lastAt: this.#lastAt,
      items: this.#items,
      visits: this.#sortedVisits(),
      shares: this.#shares,
      ...Object.fromEntries(this.#tables),
      others: { count: this.#others.length, rows: this.#others },
    };
  }

  #split(act: () => void): void {
    try {
      act();
    } catch (error) {
      if (![SyntaxError, RangeError, TypeError, URIError].some((kind) => error instanceof kind)) throw error;
      throw new NoExport('', { cause: error });
    }
  }

  #take(path: Path, value: unknown): void {
    const [member, at, field] = path as [string, string | number | undefined, string | undefined];
    if (member === 'profileId') this.#begin(value);
    else if (member === 'identities') this.#names = namesOf(value);
    else if (member === 'profile') this.#setProfile(value as Fields);
    else if (member === 'shares') this.#shares = listOf(value, (code) => this.#shareOf(code));
    else if (member === 'items') this.#addItem(value as Fields);
    else if (member === 'visits') this.#addVisit(String(at), Number(value));
    else if (member === 'others' && field !== undefined) this.#addOther(Number(at), field, value);
    else if (ROWS.includes(member)) this.#addRow(member, value as Fields | null);
  }

  #begin(profileId: unknown): void {
    this.#profileId = String(profileId);
    this.onProfile(this.#profileId);
  }

  #setProfile(profile: Fields): void {
    this.#profile = profile;
    this.#sawAt(profile['createdAt']);
    this.#sawAt(profile['updatedAt']);
  }

  /** @param time as ISO 8601 in UTC, which sorts as text */
  #sawAt(time: unknown): void {
    if (typeof time !== 'string') return;
    if (this.#firstAt === '' || time < this.#firstAt) this.#firstAt = time;
    if (time > this.#lastAt) this.#lastAt = time;
  }

  #addOther(at: number, field: string, value: unknown): void {
    if (field === 'profileId') {
      this.#others[at] = { profileId: String(value) };
      this.onProfile(String(value));
    } else if (field === 'identities') Object.assign(this.#others[at] as Other, namesOf(value));
  }

  /** Items come newest first. */
  #addItem(item: Fields): void {
    this.#items.count++;
    this.#sawAt(item['addedAt']);
    if (this.#items.rows.length === MAX_ITEMS) return;
    const { image, productHandle, variantId } = item as Record<string, string | null>;
    const { properties: _, ...shown } = item;
    this.#items.rows.push({
      ...shown,
      image: imageAddress(image ?? null, this.links.imageRule) ?? null,
      link: this.links.product(String(productHandle), variantId ?? null),
    });
  }

  #addVisit(handle: string, count: number): void {
    this.#visits.count++;
    this.#visits.rows.push([handle, count]);
    if (this.#visits.rows.length >= 2 * MAX_ROWS) this.#sortedVisits();
  }

  #sortedVisits(): List<readonly [string, number]> {
    this.#visits.rows.sort(([, a], [, b]) => b - a).splice(MAX_ROWS);
    return this.#visits;
  }

  /** Rows come oldest first; the last ones are kept. */
  #addRow(table: string, row: Fields | null): void {
    const list = row === null ? null : this.#tables.get(table);
    if (row === null || !list) return void this.#tables.set(table, null);
    list.count++;
    if (table !== 'productAlerts') this.#sawAt(row['occurred_at']);
    list.rows.push(shownOf(row));
    if (list.rows.length > MAX_ROWS) list.rows.shift();
  }

  #shareOf(code: string): Fields {
    return { code, link: this.links.share(code) };
  }
}

function wanted([member, at, field]: Path): Want {
  if (member === undefined) return 'split';
  const isList = ['items', 'visits', 'others', ...ROWS].includes(String(member));
  if (at === undefined)
    return isList
      ? 'split'
      : ['profileId', 'identities', 'profile', 'shares'].includes(String(member))
        ? 'whole'
        : 'skip';
  if (member !== 'others') return 'whole';
  if (field === undefined) return 'split';
  return ['profileId', 'identities'].includes(String(field)) ? 'whole' : 'skip';
}

function empty<Row>(): List<Row> {
  return { count: 0, rows: [] };
}

function listOf<Row>(value: unknown, show: (text: string) => Row): List<Row> {
  const texts = value as readonly string[];
  return { count: texts.length, rows: texts.slice(0, MAX_NAMES).map(show) };
}

function namesOf(value: unknown): Names {
  const { customerIds, sessionIds } = value as Fields;
  const same = (text: string) => text;
  return { customerIds: listOf(customerIds, same), sessionIds: listOf(sessionIds, same) };
}

/** Payloads may be free-form and long. */
function shownOf({ payload, profile_id: _, ...row }: Fields): Fields {
  const { productTitle, orderId } = fieldsOf(payload);
  const texts = { ...row, title: productTitle, paid_by: orderId };
  return Object.fromEntries(
    Object.entries(texts).map(([name, value]) => [
      name,
      typeof value === 'string' ? value.slice(0, MAX_TEXT) : scalar(value),
    ]),
  );
}

function scalar(value: unknown): unknown {
  return typeof value === 'object' ? null : value;
}

function fieldsOf(payload: unknown): Fields {
  try {
    const fields = JSON.parse(String(payload));
    return typeof fields === 'object' && fields !== null ? fields : {};
  } catch {
    return {};
  }
}
