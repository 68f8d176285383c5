// Runs before the beacon's code in /wishlist.js. If /beacon.js has counted the page's visit, the kit takes its place and counts no
// second one. A second copy of the kit does nothing: it sees the first one's `visit`.
const before = window.wishmeter?.queue ? {} : Object(window.wishmeter);
const isCounted = before.visit && !before.has;
if (isCounted) {
  window.wishmeter = undefined;
  window.wishmeterOptions = { ...window.wishmeterOptions, productHandle: '' };
}
