// Imports the second script, /<SCRIPT_NAME>-page.js, once a page needs a list or a message.

/**
 * The second script's access to this one. A browser's cache may combine versions of the two, so a function that is added
 * here may be missing there.
 */
const kit = {
  options,
  // The visitor's list. `items()` is undefined until the service has sent it.
  items: () => items?.filter((item) => keyOf(item) in keys),
  isSaved: (item) => keyOf(item) in keys,
  keyOf,
  addItems,
  removeItems,
  settled,
  fromShopify,
  // Requests: `allowed()` resolves once they may be sent, `later(tries)` once it is time for the next try.
  allowed: () => allowed,
  later,
  urlOf,
  ask,
  randomId,
  whyOff,
  whyNoAnswer: () => off || rests.reads,
  toCart,
  shopRoot,
  // Elements.
  addTexts,
  button,
  decimal,
  fire,
  languageOf,
  make,
  show,
  text,
  warn,
};

/** Waits longer after each try, and until the page is shown. */
async function later(tries) {
  await new Promise((done) => setTimeout(done, backOff(tries + 1)));
  while (document.hidden)
    await new Promise((done) => document.addEventListener('visibilitychange', done, { once: true }));
}

async function loadSecond(tries = 0) {
  const url = urlOf('beacon-page.js');
  // Browsers remember a failed import by its address.
  if (tries) url.searchParams.set('try', tries);
  try {
    return (await import(url)).default(kit);
  } catch (error) {
    warn(`${error}`);
  }
  await later(tries);
  return loadSecond(tries + 1);
}

let second;
/** @returns the functions and classes of page-kit.js */
const secondScript = () => (second ||= loadSecond());

const bySecond =
  (name) =>
  async (...given) =>
    (await secondScript())[name](...given);
/** Messages; see page-toast.js. */
const toast = bySecond('toast');
const say = bySecond('say');

class Lazy extends Painted {
  static observedAttributes = ['code', 'sort', 'page-size', 'sortable', 'cart', 'top'];

  build() {
    shadow(this);
    secondScript().then((all) => {
      this.view = new all[this.localName](this);
      this.paint();
    });
  }

  paint() {
    if (this.view) this.view.paint();
    else show(this, ['loading']);
  }
}
