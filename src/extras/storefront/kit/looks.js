// Texts and styles. Style sheets are constructed, because a page's `style-src` doesn't forbid those.

// Language → name → text. A page's language may be any text, even `constructor`.
const texts = Object.create(null);
const shopTexts = Object.create(null);

/** @param names separated by `|`, like the texts of each language */
function addTexts(names, languages) {
  for (const language in languages) {
    const all = languages[language].split('|');
    texts[language] ||= {};
    for (const [i, name] of names.split('|').entries()) texts[language][name] = all[i];
  }
}
addTexts('label', {
  en: 'Wishlist: #',
  de: 'Wunschliste: #',
  fr: 'Liste d’envies : #',
  es: 'Lista de deseos: #',
});

const plainLanguage = (language) => language.replace(/_/g, '-').toLowerCase();
for (const language in options.texts) shopTexts[plainLanguage(language)] = options.texts[language];

const languageOf = (element) =>
  plainLanguage((element.closest('[lang]') || document.documentElement).lang || navigator.language);

/** @returns attribute `text-<name>`, the shop's text or ours, in the page's language; `#` is `value` */
function text(element, name, value) {
  const language = languageOf(element);
  const languages = [language, language.split('-')[0], '*', 'en'];
  const [found] = [shopTexts, texts]
    .flatMap((table) => languages.map((one) => table[one]?.[name]))
    .filter((one) => one !== undefined);
  const template = String(element.getAttribute(`text-${name}`) ?? found ?? name);
  return template.replace('#', () => value);
}

// A heart's halo is the inverse of its colour, so that it is seen on any photo.
const STYLE = `
:host{display:inline-block;--c:var(--wl-color,light-dark(#c81e3a,#ff6f86));--r:var(--wl-radius,8px);--g:var(--wl-gap,8px);--h:var(--wl-halo,Canvas);--l:color-mix(in srgb,currentcolor 25%,transparent)}
:host(wishlist-page),:host(wishlist-popular){display:block}
:host([popular]){min-width:calc(var(--wl-size,44px) + 5ch)}
:host([popular]) button{justify-content:start;padding-inline-start:10px}
:host([hidden]),[hidden]{display:none!important}
button{font:inherit;color:inherit;background:none;border:1px solid var(--l);border-radius:var(--r);min-height:44px;padding:0 12px;cursor:pointer}
svg{width:24px;height:24px;fill:color-mix(in srgb,var(--h) 40%,transparent);stroke:currentcolor;stroke-width:1.8;transition:fill .15s;filter:drop-shadow(0 0 1px var(--h)) drop-shadow(0 0 2px var(--h))}
:host(wishlist-heart){min-width:var(--wl-size,44px);height:var(--wl-size,44px);vertical-align:middle}
[aria-pressed]{display:flex;place-content:center;align-items:center;gap:var(--g);width:100%;height:100%;min-height:0;padding:0;border-color:#0000}
[aria-pressed=true] svg{fill:var(--c);stroke:var(--c)}
[aria-disabled=true]{opacity:.4}
:host(wishlist-count){min-width:2ch;text-align:center}
:host([zero]) span{visibility:hidden}
@supports(color:rgb(from currentcolor r g b)){:host{--h:var(--wl-halo,rgb(from currentcolor calc(255 - r) calc(255 - g) calc(255 - b)))}}
@media(forced-colors:active){:host{--c:Highlight}}`;

let sheet;
function shadow(element, ...children) {
  if (!sheet) {
    sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
  }
  const root = element.attachShadow({ mode: 'open' });
  root.adoptedStyleSheets = [sheet];
  root.append(...children);
}

function make(name, attributes, ...children) {
  const element = document.createElementNS(attributes.xmlns || 'http://www.w3.org/1999/xhtml', name);
  for (const attribute in attributes)
    if (attributes[attribute] != null) element.setAttribute(attribute, attributes[attribute]);
  element.append(...children);
  return element;
}

function button(part, label, onClick) {
  const element = make('button', { type: 'button', part }, label);
  element.addEventListener('click', onClick);
  return element;
}

function icon() {
  const xmlns = 'http://www.w3.org/2000/svg';
  const d = 'M12 20.5 4.2 12.9a5 5 0 0 1 7.1-7.1l.7.7.7-.7a5 5 0 0 1 7.1 7.1z';
  return make(
    'svg',
    { xmlns, viewBox: '0 0 24 24', 'aria-hidden': true, part: 'icon' },
    make('path', { xmlns, d }),
  );
}
