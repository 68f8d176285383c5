// Runs in /wishlist.js once the options are read. If /beacon.js has already counted the visit, the kit replaces it
// without a second visit. A second kit does nothing, because it finds the first one's `visit`.
const before = window.wishmeter?.queue ? {} : Object(window.wishmeter);
const isCounted = before.visit && !before.has;
if (isCounted) {
  window.wishmeter = undefined;
  options.productHandle = '';
}
