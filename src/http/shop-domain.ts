// Recognises signed requests of another shop. Every shop that installed the app signs with the same secret, so a
// signature alone doesn't show the shop.

/** @param named as sent @param own SHOP_DOMAIN @returns true if `named` is a shop, and not ours */
export function isOtherShop(named: unknown, own: string): boolean {
  if (named === undefined || named === null || named === '') return false;
  return typeof named !== 'string' || named.toLowerCase() !== own;
}
