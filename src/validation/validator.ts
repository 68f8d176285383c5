// Compiles schemas, and turns ajv's errors into the `issues` of an answer: every fault, with its path and a sentence.

import { _, Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { type Issue, ServiceError } from '../errors.js';
import {
  fitsBytes,
  fitsCharacters,
  isBlank,
  isCustomerId,
  isId,
  isPlainText,
  isVisitorId,
  MAX_HANDLE_CHARACTERS,
  MAX_ID_BYTES,
  trimmed,
} from '../identity-rules.js';

const AN_ID = `must be an id: 1 to ${MAX_ID_BYTES} bytes of UTF-8 without control characters`;
const A_VISITOR = `${AN_ID}, and not a placeholder such as "null" or "0"`;
const NO_GID = 'and no gid of another type';

const PRICE = /^\d{1,16}\.\d{2}$/;

interface Format {
  readonly test: (text: string) => boolean;
  readonly sentence: string;
  readonly pattern?: RegExp;
}

const FORMATS: Record<string, Format> = {
  'session-id': { test: isVisitorId, sentence: A_VISITOR },
  'customer-id': { test: isCustomerId, sentence: `${A_VISITOR}; ${NO_GID} than Customer` },
  'product-id': { test: (text) => isId('Product', text), sentence: `${AN_ID}, ${NO_GID} than Product` },
  'variant-id': {
    test: (text) => isId('ProductVariant', text),
    sentence: `${AN_ID}, ${NO_GID} than ProductVariant`,
  },
  'order-id': { test: (text) => isId('Order', text), sentence: `${AN_ID}, ${NO_GID} than Order` },
  'product-handle': {
    test: (text) => isHandle(trimmed(text)),
    sentence: `must be 1 to ${MAX_HANDLE_CHARACTERS} characters of UTF-8 without control characters`,
  },
  price: {
    test: (text) => PRICE.test(text),
    pattern: PRICE,
    sentence: 'must be a decimal with two decimals, as text, like "19.90"',
  },
  'currency-code': { test: (text) => /^[A-Za-z]{2,3}$/.test(text), sentence: 'must be 2 or 3 letters' },
  'order-currency': { test: (text) => /^[A-Za-z]{3}$/.test(text), sentence: 'must be 3 letters' },
  amount: {
    test: (text) => /^\d{1,16}(\.\d{1,30})?$/.test(text),
    sentence: 'must be an amount of 0 or more with a decimal point, like "19.90"',
  },
  pieces: {
    test: (text) => /^\d{1,10}$/.test(text) && Number(text) <= 0xffff_ffff,
    sentence: 'must be a whole number from 0 to 4294967295',
  },
  'date-time': {
    test: (text) => /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text) && Date.parse(text) >= 0,
    sentence: 'must be a time of ISO 8601, like "2026-03-02T10:15:00Z"',
  },
  'country-code': { test: (text) => /^[A-Za-z]{2}$/.test(text), sentence: 'must be 2 letters' },
  title: {
    test: (text) => !isBlank(text) && text.isWellFormed(),
    sentence: 'must be UTF-8 and not blank; control characters become spaces',
  },
  'plain-text': { test: isPlainText, sentence: 'must be UTF-8 without control characters' },
  'e-mail': {
    test: (text) => text.includes('@') && isPlainText(text),
    sentence: 'must be an e-mail address',
  },
};

// `verbose` puts the schema into errors, for our sentences. Tests validate the schemas.
const ajv = new Ajv({
  allErrors: true,
  allowUnionTypes: true,
  messages: true,
  verbose: true,
  meta: false,
  validateSchema: false,
});

for (const [name, { test }] of Object.entries(FORMATS))
  ajv.addFormat(name, { type: 'string', validate: test });

// Keywords that every visit passes have `code`: with `validate`, ajv would make an object at each call.

// Themes render a guest's `"{{ customer.id }}"` as "".
ajv.addKeyword({
  keyword: 'blankIsNull',
  type: 'object',
  schemaType: 'boolean',
  before: 'properties',
  code({ gen, data, parentSchema }) {
    const isBlankText = gen.scopeValue('func', { ref: isBlank });
    for (const [name, field] of Object.entries(
      parentSchema['properties'] as Record<string, { type?: unknown }>,
    )) {
      if (!Array.isArray(field.type) || !field.type.includes('null')) continue;
      const value = _`${data}[${name}]`;
      gen.if(_`typeof ${value} === "string" && ${isBlankText}(${value})`, () => gen.assign(value, null));
    }
  },
});

ajv.addKeyword({
  keyword: 'maxBytes',
  type: 'string',
  schemaType: 'number',
  code(context) {
    const fits = context.gen.scopeValue('func', { ref: fitsBytes });
    context.pass(_`${fits}(${context.data}, ${context.schema})`);
  },
});

ajv.addKeyword({
  keyword: 'someNonNull',
  type: 'object',
  schemaType: 'array',
  code(context) {
    const fields = context.schema as readonly string[];
    const isThere = fields.map((name) => _`${context.data}[${name}] != null`);
    context.pass(isThere.reduce((one, other) => _`${one} || ${other}`));
  },
});

ajv.addKeyword({
  keyword: 'maxLevels',
  type: 'object',
  schemaType: 'number',
  validate: (max: number, data: object) => !isDeeper(data, max),
});

/** False for a format that standard tools know. */
export function isOurFormat(format: string): boolean {
  return FORMATS[format] !== undefined && format !== 'date-time';
}

export function patternOf(format: string): string | undefined {
  return FORMATS[format]?.pattern?.source;
}

export function sentenceOf(format: string): string {
  return FORMATS[format]?.sentence ?? 'is wrong';
}

function isHandle(text: string): boolean {
  return text !== '' && fitsCharacters(text, MAX_HANDLE_CHARACTERS) && isPlainText(text);
}

function isDeeper(data: unknown, levels: number): boolean {
  if (typeof data !== 'object' || data === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(data)) return data.some((value) => isDeeper(value, levels - 1));
  // `for in` allocates no list of values.
  for (const name in data) if (isDeeper(data[name as keyof typeof data], levels - 1)) return true;
  return false;
}

function toFault({ keyword, instancePath, params, schema, message }: ErrorObject): Omit<Issue, 'in'> {
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
      return { path: instancePath, message: sentenceOf(params['format'] as string) };
    case 'maximum':
      return {
        path: instancePath,
        message:
          schema === Number.MAX_SAFE_INTEGER
            ? `must be at most ${schema}: send a larger one as text`
            : (message ?? 'is wrong'),
      };
    case 'minItems':
      return { path: instancePath, message: `must have at least ${schema as number}` };
    case 'maxItems':
      return { path: instancePath, message: `must have at most ${schema as number}` };
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

/** Keeps one issue per fault, because a value of the wrong type also fails an enum and a maximum. */
function toIssues(errors: readonly ErrorObject[], where: Issue['in']): Issue[] {
  const pathsOf = (keyword: string) =>
    new Set(errors.filter((error) => error.keyword === keyword).map(({ instancePath }) => instancePath));
  const [untyped, unlisted] = [pathsOf('type'), pathsOf('enum')];
  return errors
    .filter(({ keyword, instancePath: path }) => {
      if (unlisted.has(path)) return keyword === 'enum';
      return keyword === 'type' || !untyped.has(path);
    })
    .map((error) => ({ in: where, ...toFault(error) }));
}

/** Compiles at the first call: all schemas together take 230 ms of CPU. */
export function issueFinder(
  schema: object,
  where: Issue['in'] = 'body',
): (data: unknown) => readonly Issue[] {
  let validate: ValidateFunction | undefined;
  const maxima = listMaxima(schema);
  return (data) => {
    validate ??= ajv.compile({ ...schema, $async: false });
    const isValid = validate(maxima.length === 0 ? data : shortened(data, maxima));
    return isValid ? NO_FAULTS : toIssues(validate.errors ?? [], where);
  };
}

/**
 * @returns a function that throws `invalid_request` with every fault. Its `data` is undefined if there was no body; its
 *   `faults` were found without the schema
 */
export function compile<T>(
  schema: object,
  where: Issue['in'] = 'body',
): (data: unknown, faults?: readonly Issue[]) => T {
  const find = issueFinder(schema, where);
  return (data, faults = NO_FAULTS) => {
    const found = find(data);
    if (found.length === 0 && faults.length === 0) return data as T;
    const sentence = data === undefined ? EMPTY_BODY : undefined;
    const others = found.filter(({ path }) => !faults.some((fault) => fault.path === path));
    throw new ServiceError('invalid_request', sentence, [...faults, ...others]);
  };
}

export const EMPTY_BODY = 'The body is empty: it must be a JSON object.';
const NO_FAULTS: readonly Issue[] = [];

function listMaxima(schema: { readonly properties?: object }): readonly (readonly [string, number])[] {
  return Object.entries(schema.properties ?? {})
    .map(([name, { maxItems }]: [string, { maxItems?: number }]) => [name, maxItems] as const)
    .filter((row): row is readonly [string, number] => row[1] !== undefined);
}

/** Cuts lists after one entry too many, since ajv checks every entry: a body of faulty ones would take a second. */
function shortened(body: unknown, maxima: readonly (readonly [string, number])[]): unknown {
  if (typeof body !== 'object' || body === null) return body;
  const cut: Record<string, unknown> = {};
  for (const [name, max] of maxima) {
    const list = (body as Readonly<Record<string, unknown>>)[name];
    if (Array.isArray(list) && list.length > max) cut[name] = list.slice(0, max + 1);
  }
  return Object.keys(cut).length === 0 ? body : { ...body, ...cut };
}
