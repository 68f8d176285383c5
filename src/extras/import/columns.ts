// Maps a file's columns to fields by their names, whose case and separators are ignored. Ambiguous names (`name`,
// `customer`, `country`) are left out on purpose.

import type { ListedItem } from '../../item-fields.js';

export type ImportField = keyof ListedItem | 'customerId' | 'sessionId' | 'email' | 'productUrl' | 'addedAt';

export type Values<Field extends string> = { [F in Field]?: unknown };

/** Each field's column names, in lower case, without separators. If a file has several of them, the first counts. */
export type Names<Field extends string> = Readonly<Record<Field, readonly string[]>>;

// `empi`, `epi`, `dt`, `du`, `iu`, `pr`, `vi`, `cts` and `cby` are names in Swym's API.
export const IMPORT_NAMES: Names<ImportField> = {
  customerId: ['customerid', 'shopifycustomerid', 'userid'],
  sessionId: ['sessionid', 'guestid', 'visitorid', 'anonymousid'],
  email: ['email', 'customeremail', 'useremail', 'emailaddress', 'mediumvalue', 'cby'],
  productId: ['productid', 'shopifyproductid', 'empi'],
  variantId: ['variantid', 'productvariantid', 'shopifyvariantid', 'epi'],
  productHandle: ['producthandle', 'handle'],
  productUrl: ['producturl', 'productlink', 'url', 'link', 'du'],
  productTitle: ['producttitle', 'title', 'productname', 'dt'],
  variantTitle: ['varianttitle', 'variantname', 'variantinfo', 'productvariantinfo', 'vi'],
  image: ['image', 'imageurl', 'imagesrc', 'productimage', 'productimageurl', 'iu'],
  price: ['price', 'productprice', 'variantprice', 'pr'],
  compareAt: ['compareat', 'compareatprice'],
  inventoryAvailable: ['inventoryavailable', 'available', 'instock'],
  quantity: ['quantity', 'qty'],
  source: ['source'],
  currencyCode: ['currencycode', 'currency'],
  countryCode: ['countrycode'],
  properties: ['properties'],
  addedAt: [
    ...['addedat', 'added', 'dateadded', 'addeddate', 'addedon', 'createdat', 'created', 'datecreated'],
    ...['createddate', 'creationdate', 'eventtime', 'date', 'timestamp', 'cts'],
  ],
};

export const EMAIL_NAMES = {
  email: IMPORT_NAMES.email,
  customerId: [...IMPORT_NAMES.customerId, 'id'],
} as const satisfies Names<'email' | 'customerId'>;

export interface Columns<Field extends string> {
  readonly fields: readonly (Field | undefined)[];
  readonly found: ReadonlySet<Field>;
  readonly unused: readonly string[];
}

export function findColumns<Field extends string>(
  header: readonly string[],
  names: Names<Field>,
): Columns<Field> {
  const plain = header.map((name) => name.toLowerCase().replace(/[\s_.-]+/g, ''));
  const fields = new Array<Field | undefined>(header.length).fill(undefined);
  for (const [field, usual] of Object.entries(names) as [Field, readonly string[]][]) {
    const name = usual.find((one) => plain.includes(one));
    if (name !== undefined) fields[plain.indexOf(name)] = field;
  }
  return {
    fields,
    found: new Set(fields.filter((field) => field !== undefined)),
    unused: header.filter((name, at) => fields[at] === undefined && name.trim() !== ''),
  };
}
