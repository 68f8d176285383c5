// GET /popular.

import { type Issue, ServiceError } from '../../errors.js';
import { answerOf, id } from '../../field-schemas.js';
import { type Operation, operation, type Request } from '../../http/operation.js';
import { isBlank } from '../../identity-rules.js';
import { readId } from '../../validation/requests.js';
import { compile } from '../../validation/validator.js';
import { MAX_TOP } from './look.js';
import { MAX_AGE_S, type Popular } from './popular.js';

const MAX_ASKED = 100;

const popularQuery = {
  type: 'object',
  properties: {
    productId: {
      type: 'array',
      minItems: 1,
      maxItems: MAX_ASKED,
      items: { type: 'string', format: 'product-id' },
      description: 'Once for each product; without `top`',
    },
    top: {
      type: 'integer',
      minimum: 1,
      maximum: MAX_TOP,
      description: 'So many of the most saved products; without `productId`',
    },
  },
} as const;

const popularAnswer = answerOf({
  products: {
    type: 'array',
    description: 'In the order asked for, or the most saved first',
    items: answerOf({
      productId: id,
      productHandle: { type: 'string', description: 'Empty if the product is unknown' },
      wishers: {
        type: 'integer',
        minimum: 0,
        description: 'Visitors who saved the product; 0 if they are fewer than `POPULAR_FROM`',
      },
    }),
  },
});

type Wanted = { readonly productIds: readonly string[] } | { readonly top: number };

const checkQuery = compile<{ productId: string[] } | { top: number }>(popularQuery, 'query');

export function popularOperation(popular: Popular): Operation {
  return operation<Wanted>({
    method: 'get',
    doc: {
      id: 'listPopularProducts',
      tag: 'Storefront',
      summary: 'How many visitors saved each of up to 100 products, or the most saved ones',
      query: { schema: popularQuery, example: { top: 12 } },
      refusals: ['not_found'],
      answer: popularAnswer,
      answerHeaders: ['Cache-Control'],
    },
    path: '/popular',
    accessGroup: 'public',
    maxBody: 0,
    read: (_, request) => readWanted(request.query()),
    handle(wanted) {
      if (!popular.hasClickHouse) throw new ServiceError('not_found', 'There is no ClickHouse to ask.');
      const { byId, top } = popular.products;
      const found =
        'top' in wanted
          ? top.slice(0, wanted.top)
          : wanted.productIds.map((productId) => byId.get(productId) ?? unknown(productId));
      return {
        type: 'application/json',
        headers: { 'cache-control': `public, max-age=${MAX_AGE_S}` },
        body: `{"products":[${found.join(',')}]}`,
      };
    },
  });
}

function unknown(productId: string): string {
  return JSON.stringify({ productId, productHandle: '', wishers: 0 });
}

function readWanted(query: ReturnType<Request['query']>): Wanted {
  const productIds = given(query.get('productId'));
  const tops = given(query.get('top'));
  const faults: Issue[] = [];
  const fault = (path: string, message: string) => faults.push({ in: 'query', path, message });
  if ((productIds === undefined) === (tops === undefined)) fault('', 'must have either productId or top');
  if (tops !== undefined && tops.length > 1) fault('/top', 'must be given once');
  const checked = checkQuery(
    {
      ...(productIds && { productId: productIds }),
      ...(tops && { top: numberOf(tops[0] as string) }),
    },
    faults,
  );
  return 'top' in checked ? checked : { productIds: checked.productId.map(readId) };
}

/** A blank parameter counts as absent. */
function given(value: string | readonly string[] | undefined): readonly string[] | undefined {
  const texts = [value ?? []].flat();
  return texts.every(isBlank) ? undefined : texts;
}

/** @returns the text itself if it is no whole number, which the schema refuses */
function numberOf(text: string): number | string {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : text;
}
