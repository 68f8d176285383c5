// What is in the second script, /<SCRIPT_NAME>-page.js, which is imported once a page needs it: the list, and messages.

/**
 * All that the second script gets. A browser may have an older version of either script in its cache, so a function
 * that is added here may be missing there.
 */
const kit = {
  options,
  // The visitor's list. `items()` is undefined until it was read.
  items: () => items?.filter((item) => keyOf(item) in keys),
  isSaved: (item) => keyOf(item) in keys,
  keyOf,
  addItem,
  addItems,
  removeItem,
  shareLink,
  // Requests: `allowed()` resolves once they may be sent, `later(tries)` once it is time for the next try.
  allowed: () => allowed,
  later,
  urlOf,
  whyOff,
  whyNoAnswer: () => off,
  toCart,
  shopRoot,
  // Elements.
  addTexts,
  announce,
  button,
  decimal,
  fire,
  isolated,
  languageOf,
  make,
  show,
  text,
  warn,
};

/** Waits longer after each try, and until the page is shown. */
async function later(tries) {
  await new Promise((done) => setTimeout(done, 1000 * Math.min(2 ** tries, 60) * (1 + Math.random() / 2)));
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
    warn(`${url.pathname}: ${error.message}`);
  }
  await later(tries);
  return loadSecond(tries + 1);
}

let second;
/** @returns what page-kit.js returns */
const secondScript = () => (second ||= loadSecond());

/** Shows a message; see page-toast.js. */
const toast = async (...message) => (await secondScript()).toast(...message);

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

class Page extends Lazy {
  build() {
    const code = new URLSearchParams(location.search).get('code');
    // Other `code`s in addresses, such as discounts, are shorter.
    if (/^[\w-]{16,19}$/.test(code) && !this.hasAttribute('code')) this.setAttribute('code', code);
    super.build();
  }

  paint() {
    super.paint();
    if (!queued.length && needsList()) askSoon();
  }
}
