// The operations of /openapi.json, each with the example of its request.

import type { TestApp } from './app.js';
import type { Document } from './openapi.js';

export interface DocumentedOperation {
  /** `POST /item/add` */
  readonly name: string;
  readonly method: string;
  readonly path: string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON
  readonly body: any;
  readonly query: Readonly<Record<string, string>>;
  readonly takesKey: boolean;
  readonly ignoresKey: boolean;
}

export async function operationsOf(app: TestApp): Promise<readonly DocumentedOperation[]> {
  const { paths }: Document = (await app.get('/openapi.json')).json;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([lower, { parameters = [], requestBody, description }]) => {
      const method = lower.toUpperCase();
      const query = parameters.flatMap(({ name, in: where, example }) =>
        where === 'query' && example !== undefined ? [[name, String(example)]] : [],
      );
      const body = requestBody?.content['application/json'].example;
      const takesKey = parameters.some(({ name }) => name === 'Idempotency-Key');
      const ignoresKey = /`Idempotency-Key` is ignored/.test(description);
      const request = { method, path, body, query: Object.fromEntries(query) };
      return { name: `${method} ${path}`, ...request, takesKey, ignoresKey };
    }),
  );
}
