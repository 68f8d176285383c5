// JSON Schemas of single fields. `format` names a rule of src/validation/validator.ts.

/** Has a maximum, because JSON.parse rounds larger integers. */
export const shopifyId = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
export const productId = { type: ['string', 'integer'], format: 'product-id', ...shopifyId } as const;
export const variantId = { type: ['string', 'integer', 'null'], format: 'variant-id', ...shopifyId } as const;
export const productHandle = { type: 'string', format: 'product-handle' } as const;
export const title = { type: 'string', format: 'title', maxBytes: 1_024 } as const;
export const titleOrNull = { ...title, type: ['string', 'null'] } as const;
export const price = { type: 'string', format: 'price' } as const;
export const priceOrNull = { ...price, type: ['string', 'null'] } as const;
export const quantity = { type: 'integer', minimum: 1, maximum: 0xffff_ffff } as const;
export const currencyCode = { type: ['string', 'null'], format: 'currency-code' } as const;
export const countryCode = { type: ['string', 'null'], format: 'country-code' } as const;
export const freeForm = {
  type: ['object', 'null'],
  // JSON.stringify recurses and throws at some 5,000 levels.
  maxLevels: 1_000,
  additionalProperties: true,
  description: 'Free-form, at most 16 KiB; numbers of more than 15 digits lose some: send them as text',
} as const;

export const plainText = (maxBytes: number) =>
  ({ type: ['string', 'null'], format: 'plain-text', maxBytes }) as const;

export const MAX_IMAGE_BYTES = 2_048;
export const image = plainText(MAX_IMAGE_BYTES);

export const oneOf = <const T extends string>(allowed: readonly T[], absent: T) =>
  ({ type: ['string', 'null'], enum: [...allowed, null], default: absent }) as const;

export const text = { type: 'string' } as const;
export const word = (allowed: readonly string[]) => ({ type: 'string', enum: allowed }) as const;
export const decimalText = { type: 'string', pattern: '^-?\\d+\\.\\d{2}$' } as const;
export const decimalTextOrNull = { ...decimalText, type: ['string', 'null'] } as const;
export const time = { type: 'string', format: 'date-time', description: 'ISO 8601, UTC' } as const;
export const timeOrNull = { ...time, type: ['string', 'null'] } as const;
export const textOrNull = { type: ['string', 'null'] } as const;
export const id = { type: 'string', description: 'Digits, where it is one of Shopify' } as const;
export const idOrNull = { ...id, type: ['string', 'null'] } as const;
export const boolean = { type: 'boolean' } as const;
export const count = { type: 'integer', minimum: 1 } as const;
export const objectOrNull = { type: ['object', 'null'], additionalProperties: true } as const;

/** The schema of an answer, which may get more fields at any time. */
export const answerOf = (properties: Record<string, object>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

interface ValueOfType {
  readonly string: string;
  readonly integer: number;
  readonly boolean: boolean;
  readonly object: Readonly<Record<string, unknown>>;
  readonly null: null;
}
type TypeName = keyof ValueOfType;

export interface FieldSchema {
  readonly type: TypeName | readonly TypeName[];
}

export type ValueOf<Schema extends FieldSchema> = ValueOfType[Extract<
  Schema['type'] extends readonly (infer Name)[] ? Name : Schema['type'],
  TypeName
>];
