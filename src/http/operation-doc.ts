// How an operation is documented: what /openapi.json is made of.

/** What an operation says about itself. Examples are sent by the tests, so they work. */
export interface OperationDoc {
  readonly summary: string;
  /** Schema and example of the JSON body. */
  readonly body?: { readonly schema: object; readonly example: unknown; readonly optional?: true };
  /** Schema of the query, an object with a property for each parameter, and an example of it. */
  readonly query?: { readonly schema: QuerySchema; readonly example: Readonly<Record<string, string>> };
  /** Schema of the answer to a success; absent where it is not JSON. */
  readonly answer?: object;
}

export interface QuerySchema {
  readonly required?: readonly string[];
  readonly properties: Readonly<Record<string, object>>;
}
