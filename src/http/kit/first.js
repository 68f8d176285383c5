// Runs before the beacon's code in /wishlist.js. Where /beacon.js has counted the page's visit, the kit takes its place and
// counts no second one; a second copy of the kit does nothing, since it has no tag then.
const before = Object(window.wishmeter).queue ? {} : Object(window.wishmeter);
const isCounted = Boolean(before.visit && !before.has);
if (isCounted) {
  window.wishmeter = undefined;
  window.wishmeterOptions = Object.assign({}, window.wishmeterOptions, { productHandle: '' });
}
