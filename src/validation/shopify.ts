// Parses JSON and ids of Shopify's webhooks. Long numbers are read as text, because JSON.parse would round 64-bit ids.

import { normaliseId } from '../identity-rules.js';
import { jsonText, parseJson } from './json.js';

export type Fields = Readonly<Record<string, unknown>>;

const LONG_INTEGER = /\d{16}/;
const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/gs;

export function parseExactly(bytes: Buffer): unknown {
  const parsed = parseJson(bytes);
  const json = jsonText(bytes);
  if (!LONG_INTEGER.test(json)) return parsed;
  return JSON.parse(
    json.replace(TEXT_OR_NUMBER, (token) => (/^\d{16,}$/.test(token) ? `"${token}"` : token)),
  );
}

export function idOf(value: unknown, isRight: (text: string) => boolean): string | null {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && isRight(text) ? normaliseId(text) : null;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
