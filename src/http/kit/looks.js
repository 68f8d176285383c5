// Texts and styles. Constructed style sheets need no `style-src`; every colour has a variable.
const TEXTS = {
  en: 'Wishlist: #|Added to the wishlist|Removed from the wishlist|Undo|Your wishlist is empty|Remove|Add to cart|Share|Link copied|Sold out|Add # to your wishlist?|Yes|No|Show more|Save to my wishlist|was|Something went wrong|# items on the wishlist|In the cart',
  de: 'Wunschliste: #|Auf der Wunschliste|Von der Wunschliste entfernt|Rückgängig|Deine Wunschliste ist leer|Entfernen|In den Warenkorb|Teilen|Link kopiert|Ausverkauft|# auf die Wunschliste?|Ja|Nein|Mehr zeigen|Auf meine Wunschliste|zuvor|Das hat nicht geklappt|# Artikel auf der Wunschliste|Im Warenkorb',
  fr: 'Liste d’envies : #|Ajouté à la liste d’envies|Retiré de la liste d’envies|Annuler|Votre liste d’envies est vide|Retirer|Ajouter au panier|Partager|Lien copié|Épuisé|Ajouter # à la liste d’envies ?|Oui|Non|Afficher plus|Ajouter à ma liste|avant|Une erreur est survenue|# articles dans la liste d’envies|Dans le panier',
  es: 'Lista de deseos: #|Añadido a la lista de deseos|Quitado de la lista de deseos|Deshacer|Tu lista de deseos está vacía|Quitar|Añadir al carrito|Compartir|Enlace copiado|Agotado|¿Añadir # a la lista de deseos?|Sí|No|Mostrar más|Añadir a mi lista|antes|Algo ha ido mal|# artículos en la lista de deseos|En el carrito',
};
const NAMES =
  'label|added|removed|undo|empty|remove|cart|share|copied|sold-out|offer|yes|no|more|mine|was|failed|count|in-cart'.split(
    '|',
  );

/** A text in the page's language; the element's attribute `text-<name>` stands above it. `#` becomes `value`. */
function text(element, name, value = '') {
  const [language] = (document.documentElement.lang || navigator.language || 'en').split('-');
  const own = element.getAttribute(`text-${name}`);
  const texts = (TEXTS[language] || TEXTS.en).split('|');
  return (own === null ? texts[NAMES.indexOf(name)] : own).replace('#', () => value);
}

const STYLE = `
:host{display:inline-block;font:inherit;color:inherit;--c:var(--wl-color,#c81e3a)}
:host([hidden]){display:none}
@media(prefers-color-scheme:dark){:host{--c:var(--wl-color,#ff6f86)}}
button{font:inherit;color:inherit;background:none;border:1px solid transparent;border-radius:var(--wl-radius,8px);min-width:44px;min-height:44px;padding:0 .6em;cursor:pointer;touch-action:manipulation}
button:focus-visible{outline:2px solid;outline-offset:2px}
button[aria-disabled=true]{opacity:.4;cursor:default}
.t{position:fixed;z-index:2147483000;inset-inline:16px;bottom:16px;margin:auto;width:fit-content;max-width:calc(100vw - 32px);display:flex;flex-wrap:wrap;align-items:center;gap:var(--wl-gap,8px);padding:8px 16px;border-radius:var(--wl-radius,8px);background:#222;color:#fff;border:1px solid #777;box-shadow:0 2px 12px #0006;box-sizing:border-box}
.t button{font-weight:600;text-decoration:underline}
.v{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
svg{display:block;width:24px;height:24px;fill:none;stroke:currentcolor;stroke-width:1.75;transition:fill .15s,transform .15s}
@media(prefers-reduced-motion:reduce){*{transition:none!important}}
@media(forced-colors:active){.t,button{border:1px solid ButtonText}}`;
const HEART_STYLE = `
:host{width:var(--wl-size,44px);height:var(--wl-size,44px);vertical-align:middle}
:host([with-label]){width:auto}
.h{display:inline-flex;align-items:center;justify-content:center;gap:var(--wl-gap,8px);width:100%;height:100%;min-width:0;min-height:0;padding:0}
:host([with-label]) .h{padding:0 .75em}
[aria-pressed=true] svg{fill:var(--c);stroke:var(--c)}
.h:active svg{transform:scale(.9)}
@media(forced-colors:active){[aria-pressed=true] svg{fill:Highlight;stroke:Highlight}}`;
const COUNT_STYLE = `
:host{min-width:3ch;text-align:center;font-variant-numeric:tabular-nums}
:host([zero]) span{visibility:hidden}`;
const PAGE_STYLE = `
:host{display:block}
ul{list-style:none;margin:0;padding:0;display:grid;gap:var(--wl-gap,16px)}
li{display:grid;grid-template-columns:80px 1fr;gap:4px 16px;align-items:start;padding-block:12px;border-block-end:1px solid color-mix(in srgb,currentcolor 20%,transparent)}
@media(min-width:700px){ul{grid-template-columns:repeat(auto-fill,minmax(320px,1fr))}}
img,.i{width:80px;height:80px;object-fit:cover;border-radius:var(--wl-radius,8px);grid-row:span 3;background:color-mix(in srgb,currentcolor 8%,transparent)}
a{color:inherit;font-weight:600;display:inline-block;min-height:24px;overflow-wrap:anywhere}
.a{display:flex;flex-wrap:wrap;gap:var(--wl-gap,8px)}
.a button,.b button,input{border:1px solid color-mix(in srgb,currentcolor 55%,transparent)}
.b{display:flex;flex-wrap:wrap;gap:8px;margin-block:16px}
input{font:inherit;color:inherit;background:none;min-height:44px;flex:1;min-width:0;padding:0 8px}
s{margin-inline-start:.5em}`;

const sheets = {};
/** An open shadow root with these styles. */
function shadow(element, more) {
  const root = element.attachShadow({ mode: 'open' });
  root.adoptedStyleSheets = [STYLE, more].map((css) => {
    if (!sheets[css]) {
      sheets[css] = new CSSStyleSheet();
      sheets[css].replaceSync(css);
    }
    return sheets[css];
  });
  return root;
}

/** An element with attributes and children; a function is a listener of clicks. */
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener('click', value);
    else if (value !== undefined && value !== null) element.setAttribute(attribute, value);
  }
  element.append(...children);
  return element;
}

const button = (part, label, onClick) => make('button', { type: 'button', part, onClick }, label);

let live;
/** Says it to screen readers, politely, in one region of the page. */
function announce(message) {
  if (!live) {
    live = make('div', { role: 'status', class: 'v' });
    const host = make('div', {});
    shadow(host, ':host{position:absolute}').append(live);
    document.body.append(host);
  }
  live.textContent = '';
  setTimeout(() => {
    live.textContent = message;
  }, 50);
}

/** A note with buttons, for some seconds, or until it is left by the keyboard. @param actions pairs of label and what it does */
function toast(element, message, actions) {
  const { shadowRoot } = element;
  const old = shadowRoot.querySelector('.t');
  if (old) old.remove();
  const box = make('div', { part: 'toast', class: 't' }, make('span', {}, message));
  for (const [label, act] of actions)
    box.append(
      button('button', label, () => {
        box.remove();
        act();
      }),
    );
  box.addEventListener('keydown', (event) => event.key === 'Escape' && box.remove());
  shadowRoot.append(box);
  announce(message);
  const end = () => (box.matches(':hover,:focus-within') ? setTimeout(end, 2000) : box.remove());
  setTimeout(end, 10000);
}

const ICON = 'M12 20.5 4.2 12.9a5 5 0 0 1 7.1-7.1l.7.7.7-.7a5 5 0 0 1 7.1 7.1z';
function icon() {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('part', 'icon');
  path.setAttribute('d', ICON);
  svg.append(path);
  return svg;
}
