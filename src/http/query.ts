// A query -> its parameters, decoded. Most have nothing to decode and name nothing twice: those are cut here, at a
// third of what node:querystring takes. All others are its.

import { parse } from 'node:querystring';

/** The parameters of a query. Their names are compared and never looked up: an object of them would be another one each time. */
export class Query {
  readonly #names: readonly string[];
  readonly #values: readonly (string | string[])[];

  /** @param names each once */
  constructor(names: readonly string[], values: readonly (string | string[])[]) {
    this.#names = names;
    this.#values = values;
  }

  /** @returns all its values where it was repeated; undefined where it is absent */
  get(name: string): string | string[] | undefined {
    const at = this.#names.indexOf(name);
    return at < 0 ? undefined : this.#values[at];
  }
}

const NONE = new Query([], []);
const ENCODED = /[%+]/;
const DECODING = { decodeURIComponent: decodeText };

/** @param raw without the question mark */
export function parseQuery(raw: string): Query {
  if (raw === '') return NONE;
  const found = ENCODED.test(raw) ? undefined : cut(raw);
  if (found !== undefined) return found;
  const parsed = parse(raw, '&', '=', DECODING);
  return new Query(Object.keys(parsed), Object.values(parsed) as (string | string[])[]);
}

/** Undefined where a name is there twice. */
function cut(raw: string): Query | undefined {
  const names: string[] = [];
  const values: string[] = [];
  for (let at = 0; at < raw.length; ) {
    let end = raw.indexOf('&', at);
    if (end < 0) end = raw.length;
    if (end > at) {
      let equals = raw.indexOf('=', at);
      if (equals < 0 || equals > end) equals = end;
      const name = raw.slice(at, equals);
      if (names.includes(name)) return undefined;
      names.push(name);
      values.push(raw.slice(equals + 1, end));
    }
    at = end + 1;
  }
  return new Query(names, values);
}

/** What is not percent-encoded UTF-8 becomes a lone surrogate, which the rule of every field refuses. */
function decodeText(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return '\ud800';
  }
}
