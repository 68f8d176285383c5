// How an operation is documented: what /openapi.json is made of.

import type { ErrorCode } from '../errors.js';

/** The groups that operations are shown in. */
export const TAGS = {
  Visits: 'Counts of product page views',
  Wishlist: "A visitor's items",
  Sharing: 'Share links and what is behind them',
  Events: 'Wishlist events as a client tells them',
  Profiles: 'Who visitors are',
  Settings: 'What the shop has switched on',
  Webhooks: 'What Shopify delivers',
  Storefront: "For a shop's pages",
  Operating: 'Health, figures and documentation of the service',
} as const;

/** What an operation says about itself. Examples are sent by the tests, so they work. */
export interface OperationDoc {
  /** operationId: the name of its function in generated clients. */
  readonly id: string;
  readonly tag: keyof typeof TAGS;
  readonly summary: string;
  /** Errors beyond those that its subject, path, headers and body imply. */
  readonly refusals?: readonly ErrorCode[];
  /** Schema and example of the JSON body. */
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  /** Schema of the query, an object with a property for each parameter, and an example of it. */
  readonly query?: { readonly schema: QuerySchema; readonly example: Readonly<Record<string, string>> };
  /** Schema of the answer to a success; absent where it is not JSON. */
  readonly answer?: object;
  /** Answers that are not JSON, by status, with their media types. */
  readonly pages?: Readonly<Record<number, PageDoc>>;
}

interface PageDoc {
  readonly description: string;
  readonly types: readonly string[];
}

interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}
