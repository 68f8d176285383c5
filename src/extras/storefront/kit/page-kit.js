// The second script, /<SCRIPT_NAME>-page.js, for the few pages with a list or a message. /wishlist.js imports it, and
// gives it `kit` (lazy.js). ../scripts.ts joins its files.
let kit;

/** @returns functions, and by an element's name the class that builds and paints it */
export default (given) => {
  kit = given;
  kit.addTexts(PAGE_NAMES, PAGE_TEXTS);
  kit.addTexts(POPULAR_NAMES, POPULAR_TEXTS);
  return { say, shareLink, toast, popular, 'wishlist-page': ListPage, 'wishlist-popular': PopularList };
};
