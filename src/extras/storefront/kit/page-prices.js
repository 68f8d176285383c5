// Today's prices and stock: from `wishmeterOptions.products(items)`, or else from Shopify's product JSON.

/**
 * @returns by product: `price`, `compareAt`, `currency`, and `available`, which is null if the product isn't sold any
 *   more; no entry for a product whose request failed
 */
async function today(some) {
  const { options, warn } = kit;
  const now = {};
  const read = async (items, ask) => {
    try {
      const find = await ask();
      for (const item of items) now[kit.keyOf(item)] = find(item) || { available: null };
    } catch (error) {
      warn(
        `no prices of ${items.map(({ productHandle }) => productHandle)}: ${error.message || error.status}`,
      );
    }
  };
  if (options.products) await read(some, async () => finderIn(await options.products(some)));
  else if (window.Shopify)
    await Promise.all(
      [...new Set(some.map(({ productHandle }) => productHandle))].map((handle) =>
        read(
          some.filter(({ productHandle }) => productHandle === handle),
          () => askShopify(handle),
        ),
      ),
    );
  return now;
}

/** The callback may name the product alone, and an item may have no variant. */
function finderIn(answers) {
  return ({ productId, variantId, currencyCode }) => {
    const of = (id) => answers.find((one) => kit.keyOf(one) === kit.keyOf({ productId, variantId: id }));
    const isSame = (one) => kit.keyOf({ productId: one.productId }) === kit.keyOf({ productId });
    const found = of(variantId) || of('') || (!variantId && answers.find(isSame));
    if (!found) return undefined;
    const currency = found.currencyCode || found.currency || currencyCode;
    const [price, compareAt] = [found.price, found.compareAt].map((one) => kit.decimal(one, currency));
    return { price, compareAt, currency, available: found.available };
  };
}

/** @returns undefined if the shop doesn't sell the product any more */
async function shopifyProduct(handle) {
  const answer = await window.fetch(`${kit.shopRoot()}products/${encodeURIComponent(handle)}.js`);
  if (answer.status === 404) return undefined;
  if (!answer.ok) throw Error(answer.status);
  return answer.json();
}

async function askShopify(handle) {
  const product = await shopifyProduct(handle);
  return ({ variantId, currencyCode }) => {
    const found = variantId ? product?.variants.find(({ id }) => String(id) === String(variantId)) : product;
    return (
      found && {
        price: kit.decimal(found.price / 100),
        compareAt: found.compare_at_price ? kit.decimal(found.compare_at_price / 100) : null,
        currency: window.Shopify.currency?.active || currencyCode,
        available: found.available,
      }
    );
  };
}

/** @returns what to show. `was` is the higher of compare-at price and saved price, of the same currency */
function priceOf(item, now) {
  const isNow = Boolean(now?.price);
  const { price, compareAt, currency = '' } = isNow ? now : { ...item, currency: item.currencyCode ?? '' };
  const isSame = String(currency).toUpperCase() === String(item.currencyCode ?? '').toUpperCase();
  const was = Math.max(compareAt || 0, isSame ? item.price : 0);
  return { price, currency, was: was > price ? was : undefined };
}

function money(amount, currency, element) {
  const format = currency ? { style: 'currency', currency } : { minimumFractionDigits: 2 };
  for (const language of [kit.languageOf(element), undefined])
    try {
      return Number(amount).toLocaleString(language, format);
    } catch {}
  return `${amount} ${currency}`;
}
