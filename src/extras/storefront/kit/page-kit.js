// The second script, /<SCRIPT_NAME>-page.js: what few pages need. /wishlist.js imports it, and gives it `kit` (lazy.js).
// Its files are put together as those of /wishlist.js are.
let kit;

/** @returns functions, and by the names of elements the classes behind them: made with an element, painted with it */
export default (given) => {
  kit = given;
  kit.addTexts(PAGE_NAMES, PAGE_TEXTS);
  kit.addTexts(POPULAR_NAMES, POPULAR_TEXTS);
  return { say, shareLink, toast, popular, 'wishlist-page': ListPage, 'wishlist-popular': PopularList };
};
