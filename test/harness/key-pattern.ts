// Recognizes the kinds of keys in a dump by the spelling of src/redis/keys.ts.

/** Matches every key of a kind: `keyPattern(keys.share('*'))`. A `*` matches a part of an id. */
export function keyPattern(...spelled: readonly string[]): RegExp {
  const escaped = spelled.map((key) => key.replace(/[{}.+?^$()|[\]\\]/g, '\\$&').replaceAll('*', '[\\w.-]+'));
  return new RegExp(`^(${escaped.join('|')})$`);
}
