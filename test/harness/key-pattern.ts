// Which of the program's keys a key of a dump is, without spelling it: src/redis/keys.ts does that.

/** Matches every key of a kind: `keyPattern(keys.share('*'))`. A `*` stands for a part of an id. */
export function keyPattern(...spelled: readonly string[]): RegExp {
  const escaped = spelled.map((key) => key.replace(/[{}.+?^$()|[\]\\]/g, '\\$&').replaceAll('*', '[\\w.-]+'));
  return new RegExp(`^(${escaped.join('|')})$`);
}
