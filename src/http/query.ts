// A query -> its parameters, decoded. Most have nothing to decode and name nothing twice: those are cut here, at a
// third of what node:querystring takes. All others are its.

import { parse } from 'node:querystring';

export type Query = Readonly<Record<string, string | string[] | undefined>>;

const NONE: Query = Object.freeze({});
const ENCODED = /[%+]/;
const DECODING = { decodeURIComponent: decodeText };

/**
 * @param raw without the question mark
 * @returns the parameters; one that was repeated has all its values
 */
export function parseQuery(raw: string): Query {
  if (raw === '') return NONE;
  return (ENCODED.test(raw) ? undefined : cut(raw)) ?? parse(raw, '&', '=', DECODING);
}

/** Undefined where a name is there twice, or stands for something in JavaScript. */
function cut(raw: string): Query | undefined {
  const found: Record<string, string> = {};
  for (let at = 0; at < raw.length; ) {
    let end = raw.indexOf('&', at);
    if (end < 0) end = raw.length;
    if (end > at) {
      let equals = raw.indexOf('=', at);
      if (equals < 0 || equals > end) equals = end;
      const name = raw.slice(at, equals);
      if (name in found) return undefined;
      found[name] = raw.slice(equals + 1, end);
    }
    at = end + 1;
  }
  return found;
}

/** What is not percent-encoded UTF-8 becomes a lone surrogate, which the rule of every field refuses. */
function decodeText(encoded: string): string {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return '\ud800';
  }
}
