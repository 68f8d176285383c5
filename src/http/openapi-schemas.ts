// Converts our schemas for /openapi.json into standard keywords.

import { item } from '../item-fields.js';
import { identity, visitBody } from '../validation/schemas.js';
import { isOurFormat, patternOf, sentenceOf } from '../validation/validator.js';
import { errorAnswer } from './answer-schemas.js';

const SHARED = new Map<unknown, string>([
  [identity, 'Identity'],
  [visitBody, 'Visit'],
  [item, 'Item'],
  [errorAnswer, 'Error'],
]);

export function publishShared(): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Array.from(SHARED, ([schema, name]) => [name, publishFields(schema as Record<string, unknown>)]),
  );
}

export function publish(schema: unknown): unknown {
  const name = SHARED.get(schema);
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  if (Array.isArray(schema)) return schema.map(publish);
  return typeof schema === 'object' && schema !== null
    ? publishFields(schema as Record<string, unknown>)
    : schema;
}

/** Describes rules in words if there is no standard keyword for them. */
function publishFields({ description, ...schema }: Readonly<Record<string, unknown>>): object {
  const published: Record<string, unknown> = {};
  const sentences = description === undefined ? [] : [description];
  for (const [keyword, value] of Object.entries(schema)) {
    if (keyword === 'properties') {
      published[keyword] = Object.fromEntries(
        Object.entries(value as object).map(([name, field]) => [name, publish(field)]),
      );
    } else if (keyword === 'format' && isOurFormat(value as string)) {
      sentences.push(sentenceOf(value as string));
      const pattern = patternOf(value as string);
      if (pattern !== undefined && schema['type'] === 'string') published['pattern'] = pattern;
    } else if (keyword === 'maxBytes') {
      published['maxLength'] = value;
      sentences.push(`at most ${value} bytes of UTF-8`);
    } else if (keyword === 'maxLevels') sentences.push(`at most ${value} levels`);
    else if (keyword === 'blankIsNull') sentences.push('in nullable fields, a blank text counts as null');
    else if (keyword === 'someNonNull') sentences.push(`must have ${(value as string[]).join(' or ')}`);
    // The keyword `default` is left out, because type generators would make the field required.
    else if (keyword === 'default') sentences.push(`by default ${value}`);
    else published[keyword] = publish(value);
  }
  return sentences.length === 0 ? published : { ...published, description: sentences.join('; ') };
}
