// GET /openapi.json, made from the schemas that validate.

import { ERRORS, type ErrorCode } from '../errors.js';
import { VERSION } from '../version.js';
import { isGuarded } from './access.js';
import { errorAnswer } from './answer-schemas.js';
import { keyUseOf } from './idempotency.js';
import { publish, publishShared } from './openapi-schemas.js';
import { type Operation, TAGS } from './operation.js';
import { CACHED, FILE_HEADERS, fileUnchanged, staticFile } from './static-file.js';

const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'A secret key of a server' },
  metricsToken: { type: 'http', scheme: 'bearer', description: 'METRICS_TOKEN, if that is set' },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: 'A secret key, or a publishable one from an allowed origin',
  },
  publishableKey: { type: 'apiKey', in: 'query', name: 'key', description: 'A publishable key' },
  proxySignature: {
    type: 'apiKey',
    in: 'query',
    name: 'signature',
    description: "Shopify's app-proxy signature over the whole query",
  },
  webhookSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Shopify-Hmac-Sha256',
    description: "Shopify's webhook signature over the raw body",
  },
};

const SERVER = [{ bearer: [] }, { apiKey: [] }];
const SECURITY: Record<Operation['accessGroup'], object[]> = {
  open: [],
  metrics: [{ metricsToken: [] }, {}],
  visits: [...SERVER, { publishableKey: [] }, { proxySignature: [] }, {}],
  wishlist: [...SERVER, { publishableKey: [] }, { proxySignature: [] }],
  public: [],
  administration: SERVER,
  delivery: [...SERVER, { webhookSignature: [] }],
};

const CALLERS: Record<Operation['accessGroup'], string> = {
  open: 'Anyone may call it.',
  metrics: 'Anyone may call it; if `METRICS_TOKEN` is set, only callers with that.',
  visits:
    "Servers with a secret key may call it, Shopify's app proxy, browsers with a publishable key, and anyone as far as `VISIT_ACCESS` says.",
  wishlist:
    "Servers with a secret key may call it, Shopify's app proxy, and browsers with a publishable key.",
  public: "Anyone may call it, but for another shop's app proxy.",
  administration: 'Servers with a secret key may call it.',
  delivery: 'Shopify calls it with its signature. Servers with a secret key may call it, too.',
};

const KEY_PARAMETER = {
  name: 'Idempotency-Key',
  in: 'header',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
  description: 'The same key within 24 h answers as the first time and stores nothing',
};

const HEADERS = {
  'X-Request-Id': {
    required: true,
    description: "The caller's, if it sent a sane one",
    schema: { type: 'string' },
  },
  'Retry-After': {
    required: true,
    description: 'Seconds after which the same request may pass',
    schema: { type: 'integer', minimum: 1 },
  },
  'WWW-Authenticate': { required: true, schema: { type: 'string', enum: ['Bearer'] } },
  ETag: {
    required: true,
    description: 'Of this version, for `If-None-Match`',
    schema: { type: 'string' },
  },
  'Last-Modified': { description: 'When the list last changed', schema: { type: 'string' } },
  'Cache-Control': { required: true, schema: { type: 'string' } },
  Location: { required: true, schema: { type: 'string' } },
} as const;

const TEXT = { type: 'string' } as const;
const AS_TEXT = {
  ...TEXT,
  contentMediaType: 'application/json',
  description: 'The same JSON; the beacon sends it so, which needs no CORS preflight',
} as const;

const headersOf = (...names: readonly string[]) => ({
  headers: Object.fromEntries(
    ['X-Request-Id', ...names].map((name) => [name, { $ref: `#/components/headers/${name}` }]),
  ),
});

export interface Documented {
  readonly tags: Readonly<Record<string, string>>;
  readonly webhooks: Readonly<Record<string, object>>;
}

export function openApiOperation(
  basePath: string,
  operations: readonly Operation[],
  unprefixed: readonly Operation[],
  ofExtras: Documented,
): Operation {
  const operation: Operation = {
    method: 'get',
    path: '/openapi.json',
    accessGroup: 'open',
    maxBody: 0,
    headers: FILE_HEADERS,
    doc: {
      id: 'getDocument',
      tag: 'Operating',
      summary: 'This document',
      answer: { type: 'object', additionalProperties: true },
      answerHeaders: CACHED,
      pages: fileUnchanged,
    },
    handle: staticFile(
      'application/json',
      () => Buffer.from(openApi(basePath, [...operations, operation], unprefixed, ofExtras)),
      { 'cache-control': 'no-cache' },
    ),
  };
  return operation;
}

function openApi(
  basePath: string,
  operations: readonly Operation[],
  unprefixed: readonly Operation[],
  ofExtras: Documented,
): string {
  const paths: Record<string, Record<string, object>> = {};
  const add = (prefix: string, operation: Operation) => {
    const path = prefix + operation.path.replace(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [operation.method]: describe(operation) };
  };
  for (const operation of operations) add(basePath, operation);
  for (const operation of unprefixed) add('', operation);
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: 'wishmeter',
      version: VERSION,
      description:
        'Counts product visits and records wishlist events for shop storefronts. Every path with GET takes HEAD, too. Operations without a parameter `Idempotency-Key` refuse that header (400), except webhooks and batches, which ignore it.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries({ ...TAGS, ...ofExtras.tags }).map(([name, description]) => ({ name, description })),
    paths,
    webhooks: ofExtras.webhooks,
    components: {
      securitySchemes: SECURITY_SCHEMES,
      schemas: publishShared(),
      headers: HEADERS,
    },
  });
}

function describe(operation: Operation): object {
  const { doc, path, accessGroup } = operation;
  const keyUse = keyUseOf(operation);
  const parameters = [
    ...Array.from(path.matchAll(/:(\w+)/g), ([, name]) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...Object.entries(doc.query?.schema.properties ?? {}).map(([name, schema]) => ({
      name,
      in: 'query',
      required: doc.query?.schema.required?.includes(name) ?? false,
      schema: publish(schema),
      ...(doc.query?.example[name] === undefined ? {} : { example: doc.query.example[name] }),
    })),
    ...(keyUse === 'taken' ? [KEY_PARAMETER] : []),
  ];
  return {
    operationId: doc.id,
    tags: [doc.tag],
    summary: doc.summary,
    description: `${CALLERS[accessGroup]}${keyUse === 'ignored' ? ' An `Idempotency-Key` is ignored.' : ''}`,
    security: SECURITY[accessGroup],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(doc.body === undefined
      ? {}
      : {
          requestBody: {
            required: doc.body.optional !== true,
            content: {
              'application/json': { schema: publish(doc.body.schema), example: doc.body.example },
              ...(operation.takesText && { 'text/plain': { schema: AS_TEXT } }),
            },
          },
        }),
    responses: {
      200: {
        description: 'Done',
        ...headersOf(...(doc.answerHeaders ?? [])),
        ...(doc.answer === undefined
          ? {}
          : { content: { 'application/json': { schema: publish(doc.answer) } } }),
      },
      ...refusals(operation),
      ...Object.fromEntries(
        Object.entries(doc.pages ?? {}).map(([status, { description, types, headers = [] }]) => [
          status,
          {
            description,
            ...headersOf(...headers),
            ...(types.length === 0
              ? {}
              : { content: Object.fromEntries(types.map((type) => [type, { schema: TEXT }])) }),
          },
        ]),
      ),
    },
  };
}

function refusals(operation: Operation): Record<string, object> {
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of codesOf(operation)) {
    const { status } = ERRORS[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const json = { 'application/json': { schema: publish(errorAnswer) } };
  // JSON is possible, too, because error answers of other types come only after authentication.
  const own = Object.fromEntries((operation.errorTypes ?? []).map((type) => [type, { schema: TEXT }]));
  return Object.fromEntries(
    Array.from(byStatus, ([status, codes]) => [
      status,
      {
        description: codes.map((code) => `\`${code}\`: ${ERRORS[code].sentence}`).join(' '),
        ...headersOf(
          ...(status === 401 ? ['WWW-Authenticate'] : []),
          ...(codes.every((code) => ERRORS[code].retryable) ? ['Retry-After'] : []),
        ),
        content: { ...json, ...own },
      },
    ]),
  );
}

function codesOf(operation: Operation): ErrorCode[] {
  const { accessGroup, maxBody, path, doc } = operation;
  const codes: ErrorCode[] = ['invalid_request', 'internal'];
  if (maxBody > 0)
    codes.push('invalid_json', 'request_timeout', 'payload_too_large', 'unsupported_media_type');
  if (isGuarded(accessGroup)) codes.push('rate_limited', 'unavailable', 'overloaded');
  if (SECURITY[accessGroup].length > 0) codes.push('unauthorized');
  if (SECURITY[accessGroup].length > 0 && isGuarded(accessGroup)) codes.push('forbidden');
  if (accessGroup === 'public') codes.push('forbidden');
  if (accessGroup === 'wishlist') codes.push('session_belongs_to_customer');
  if (path.includes(':')) codes.push('not_found');
  if (keyUseOf(operation) === 'taken') codes.push('idempotency_key_reused');
  return [...codes, ...(doc.refusals ?? [])];
}
