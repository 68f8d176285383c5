// The JSON Schemas of what the service answers, for /openapi.json. Fields may be added at any time, so none
// of them is closed.

const text = { type: 'string' } as const;

export const answerOf = (properties: Record<string, object>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

export const profileAnswer = answerOf({ profileId: text });

export const visitAnswer = {
  type: 'object',
  required: ['profileId', 'productHandle'],
  properties: {
    profileId: text,
    productHandle: text,
    count: { type: 'integer', minimum: 1, description: 'After this visit; only with ?count=true' },
  },
} as const;

export const resetAnswer = answerOf({ profileId: text, productHandle: text });

export const countAnswer = answerOf({
  profileId: text,
  productHandle: text,
  count: { type: 'integer', minimum: 0 },
});

export const statusAnswer = answerOf({ status: text });

export const errorAnswer = {
  type: 'object',
  required: ['error', 'code'],
  properties: {
    error: { type: 'string', description: 'One sentence' },
    code: text,
    issues: {
      type: 'array',
      description: 'Every field at fault',
      items: answerOf({ path: text, message: text }),
    },
  },
} as const;
