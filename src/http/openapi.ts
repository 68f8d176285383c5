// GET /openapi.json: the OpenAPI 3.1 document, made from the very schemas that validate.

import { ERRORS } from '../errors.js';
import { errorAnswer } from '../validation/answers.js';
import type { Operation } from './operation.js';

/** Raised with the contract: semantic versioning. */
const VERSION = '1.0.0';

const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', description: 'A secret key of a server' },
  metricsToken: { type: 'http', scheme: 'bearer', description: 'METRICS_TOKEN, where that is set' },
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
const SECURITY: Record<Operation['subject'], object[]> = {
  open: [],
  metrics: [{ metricsToken: [] }, {}],
  visits: [...SERVER, { publishableKey: [] }, { proxySignature: [] }, {}],
  wishlist: [...SERVER, { proxySignature: [] }],
  administration: SERVER,
  delivery: [...SERVER, { webhookSignature: [] }],
};

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
  description: 'The same key within 24 h answers as the first time and stores nothing',
};

/** @param basePath stands before the paths of `operations`, not of `unprefixed` */
export function openApiOperation(
  basePath: string,
  operations: readonly Operation[],
  unprefixed: readonly Operation[],
): Operation {
  const operation: Operation = {
    method: 'get',
    path: '/openapi.json',
    subject: 'open',
    maxBody: 0,
    doc: { summary: 'This document', answer: { type: 'object' } },
    handle: () => document,
  };
  const document = openApi(basePath, [...operations, operation], unprefixed);
  return operation;
}

function openApi(
  basePath: string,
  operations: readonly Operation[],
  unprefixed: readonly Operation[],
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
      description: 'Counts product visits and records wishlist events for shop storefronts.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    paths,
    components: { securitySchemes: SECURITY_SCHEMES, schemas: { Error: errorAnswer } },
  });
}

function describe({ doc, headers, path, subject }: Operation): object {
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
    ...(headers?.includes('idempotency-key') ? [IDEMPOTENCY_KEY] : []),
  ];
  return {
    summary: doc.summary,
    security: SECURITY[subject],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(doc.body === undefined
      ? {}
      : {
          requestBody: {
            required: doc.body.optional !== true,
            content: { 'application/json': { schema: publish(doc.body.schema), example: doc.body.example } },
          },
        }),
    responses: {
      200: {
        description: 'Done',
        ...(doc.answer === undefined ? {} : { content: { 'application/json': { schema: doc.answer } } }),
      },
      default: {
        description: `One of ${Object.entries(ERRORS)
          .map(([code, { status }]) => `${code} (${status})`)
          .join(', ')}`,
        content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
      },
    },
  };
}

/** Our schemas with the rules that are our own said in standard words, as far as there are any. */
function publish(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(publish);
  if (typeof schema !== 'object' || schema === null) return schema;
  const published: Record<string, unknown> = {};
  for (const [keyword, value] of Object.entries(schema)) {
    // Bytes of UTF-8 are at least as many as characters.
    if (keyword === 'maxBytes') published['maxLength'] = value;
    else if (keyword === 'someNonNull') published['anyOf'] = (value as string[]).map(isGiven);
    else published[keyword] = publish(value);
  }
  return published;
}

function isGiven(name: string): object {
  return { required: [name], properties: { [name]: { type: 'string' } } };
}
