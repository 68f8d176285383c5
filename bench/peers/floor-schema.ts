// The schema of the floor's visits.

import { Ajv } from 'ajv';
import { fitsBytes, isPlainText, isVisitorId, MAX_ID_BYTES } from '../../src/identity-rules.js';

interface Body {
  readonly identity: { readonly sessionId: string };
  readonly productHandle: string;
}

const id = { type: ['string', 'null'], format: 'id' };
const text = { type: ['string', 'null'], format: 'text' };

export const isVisit = new Ajv({ allErrors: true, allowUnionTypes: true })
  .addFormat('id', isVisitorId)
  .addFormat(
    'handle',
    (handle: string) => handle !== '' && fitsBytes(handle, MAX_ID_BYTES) && isPlainText(handle),
  )
  .addFormat('text', (value: string) => fitsBytes(value, 64) && isPlainText(value))
  .compile<Body>({
    type: 'object',
    required: ['identity', 'productHandle'],
    properties: {
      identity: {
        type: 'object',
        required: ['sessionId'],
        properties: {
          ...{ customerId: { type: 'null' }, sessionId: { ...id, type: 'string' } },
          ...{ device: text, locale: text, email: text, firstName: text, lastName: text },
        },
      },
      productHandle: { type: 'string', format: 'handle' },
    },
  });
