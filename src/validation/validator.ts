// Compiles the schemas once and turns ajv's errors into the contract's issues: all of them, each with the
// path of its field and a sentence that says what is right.

import { Ajv, type ErrorObject } from 'ajv';
import { type Issue, ServiceError } from '../errors.js';
import { fitsBytes, isId, isPlainText, isVisitorId, MAX_ID_BYTES } from '../identity/rules.js';

/** Formats: rule and sentence. The rules of identities are told in src/identity/rules.ts. */
const FORMATS: Record<string, { test: (text: string) => boolean; sentence: string }> = {
  'visitor-id': {
    test: isVisitorId,
    sentence: `must be an id: 1 to ${MAX_ID_BYTES} bytes of UTF-8 without control characters, and not a placeholder such as "null" or "0"`,
  },
  'product-handle': {
    test: (text) => text !== '' && fitsBytes(text, MAX_ID_BYTES) && isPlainText(text),
    sentence: `must be 1 to ${MAX_ID_BYTES} bytes of UTF-8 without control characters`,
  },
  'shopify-id': {
    test: isId,
    sentence: `must be an id: 1 to ${MAX_ID_BYTES} bytes of UTF-8 without control characters`,
  },
  price: {
    test: (text) => /^\d{1,16}\.\d{2}$/.test(text),
    sentence: 'must be a decimal with two decimals, as text, like "19.90"',
  },
  'currency-code': { test: (text) => /^[A-Za-z]{2,3}$/.test(text), sentence: 'must be 2 or 3 letters' },
  'country-code': { test: (text) => /^[A-Za-z]{2}$/.test(text), sentence: 'must be 2 letters' },
  'plain-text': { test: isPlainText, sentence: 'must be UTF-8 without control characters' },
  'e-mail': {
    test: (text) => text.includes('@') && isPlainText(text),
    sentence: 'must be an e-mail address',
  },
};

// `verbose` is what puts the schema into the errors, where the sentences of our own keywords find their figures.
const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, messages: true, verbose: true });

for (const [name, { test }] of Object.entries(FORMATS))
  ajv.addFormat(name, { type: 'string', validate: test });

ajv.addKeyword({
  keyword: 'maxBytes',
  type: 'string',
  schemaType: 'number',
  validate: (max: number, text: string) => fitsBytes(text, max),
});

ajv.addKeyword({
  keyword: 'maxLevels',
  type: 'object',
  schemaType: 'number',
  validate: (max: number, data: object) => !isDeeper(data, max),
});

ajv.addKeyword({
  keyword: 'someNonNull',
  type: 'object',
  schemaType: 'array',
  validate: (names: string[], data: Record<string, unknown>) =>
    names.some((name) => data[name] !== undefined && data[name] !== null),
});

function isDeeper(data: unknown, levels: number): boolean {
  if (typeof data !== 'object' || data === null) return false;
  if (levels === 0) return true;
  for (const value of Object.values(data)) if (isDeeper(value, levels - 1)) return true;
  return false;
}

function toIssue({ keyword, instancePath, params, schema, message }: ErrorObject): Issue {
  switch (keyword) {
    case 'required':
      return { path: `${instancePath}/${params['missingProperty'] as string}`, message: 'is required' };
    case 'type':
      return {
        path: instancePath,
        message: `must be ${[params['type'] as string | string[]].flat().join(' or ')}`,
      };
    case 'enum':
      return {
        path: instancePath,
        message: `must be one of ${(params['allowedValues'] as unknown[]).map(String).join(', ')}`,
      };
    case 'format':
      return { path: instancePath, message: FORMATS[params['format'] as string]?.sentence ?? 'is wrong' };
    case 'maxBytes':
      return { path: instancePath, message: `must have at most ${schema as number} bytes` };
    case 'maxLevels':
      return { path: instancePath, message: `must have at most ${schema as number} levels` };
    case 'someNonNull':
      return { path: instancePath, message: `must have ${(schema as string[]).join(' or ')}` };
    default:
      return { path: instancePath, message: message ?? 'is wrong' };
  }
}

/** A check that passes what the schema allows as T, and throws `invalid_request` with every fault otherwise. */
export function compile<T>(schema: object): (data: unknown) => T {
  const validate = ajv.compile({ ...schema, $async: false });
  return (data) => {
    if (validate(data)) return data as T;
    throw new ServiceError('invalid_request', undefined, (validate.errors ?? []).map(toIssue));
  };
}
