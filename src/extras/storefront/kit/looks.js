// Texts and styles. Style sheets are constructed, because a page's `style-src` doesn't forbid those.
const TEXTS = {
  en: 'Wishlist: #|Added to the wishlist|Removed from the wishlist|Undo|Your wishlist is empty|Remove|Add to cart|Share|Link copied|Sold out|Add # to your wishlist?|Yes|No|Show more|Save to my wishlist|was|Something went wrong|In the cart',
  de: 'Wunschliste: #|Auf der Wunschliste|Von der Wunschliste entfernt|Rückgängig|Deine Wunschliste ist leer|Entfernen|In den Warenkorb|Teilen|Link kopiert|Ausverkauft|# auf die Wunschliste?|Ja|Nein|Mehr zeigen|Auf meine Wunschliste|zuvor|Das hat nicht geklappt|Im Warenkorb',
  fr: 'Liste d’envies : #|Ajouté à la liste d’envies|Retiré de la liste d’envies|Annuler|Votre liste d’envies est vide|Retirer|Ajouter au panier|Partager|Lien copié|Épuisé|Ajouter # à la liste d’envies ?|Oui|Non|Afficher plus|Ajouter à ma liste|avant|Une erreur est survenue|Dans le panier',
  es: 'Lista de deseos: #|Añadido a la lista de deseos|Quitado de la lista de deseos|Deshacer|Tu lista de deseos está vacía|Quitar|Añadir al carrito|Compartir|Enlace copiado|Agotado|¿Añadir # a la lista de deseos?|Sí|No|Mostrar más|Añadir a mi lista|antes|Algo ha ido mal|En el carrito',
};
const NAMES =
  'label|added|removed|undo|empty|remove|cart|share|copied|sold-out|offer|yes|no|more|mine|was|failed|in-cart'.split(
    '|',
  );

/** @returns attribute `text-<name>`, or else the text in the page's language. `#` is replaced by `value`. */
function text(element, name, value) {
  const [language] = (document.documentElement.lang || navigator.language).split('-');
  const texts = (TEXTS[language] || TEXTS.en).split('|');
  return (element.getAttribute(`text-${name}`) ?? texts[NAMES.indexOf(name)]).replace('#', () => value);
}

const STYLE = `
:host{display:inline-block;--c:var(--wl-color,light-dark(#c81e3a,#ff6f86));--r:var(--wl-radius,8px);--g:var(--wl-gap,8px);--l:color-mix(in srgb,currentcolor 25%,transparent)}
:host([hidden]){display:none}
button,input{font:inherit;color:inherit;background:none;border:1px solid var(--l);border-radius:var(--r);min-height:44px;padding:0 12px}
button{cursor:pointer}
svg{width:24px;height:24px;fill:none;stroke:currentcolor;stroke-width:1.8;transition:fill .15s}
:host(wishlist-heart){min-width:var(--wl-size,44px);height:var(--wl-size,44px);vertical-align:middle}
[aria-pressed]{display:flex;place-content:center;align-items:center;gap:var(--g);width:100%;height:100%;min-height:0;padding:0;border-color:#0000}
[aria-pressed=true] svg{fill:var(--c);stroke:var(--c)}
[aria-disabled=true]{opacity:.4}
:host(wishlist-count){min-width:2ch;text-align:center}
:host([zero]) span{visibility:hidden}
:host(wishlist-page){display:block}
ul{list-style:none;margin:0 0 16px;padding:0;display:grid;gap:0 32px;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr))}
li{display:grid;grid-template:auto auto 1fr/80px 1fr;align-items:start;gap:4px 16px;padding:16px 0;border-bottom:1px solid var(--l)}
.i{width:80px;height:80px;object-fit:cover;border-radius:var(--r);grid-row:span 3;background:var(--l)}
a{color:inherit;font-weight:600;overflow-wrap:anywhere}
.a{display:flex;flex-wrap:wrap;align-items:center;gap:var(--g)}
.t{position:fixed;z-index:999;inset:auto 16px 16px;margin:auto;width:fit-content;flex-wrap:nowrap;padding:8px 16px;border:1px solid;border-radius:var(--r);background:CanvasText;color:Canvas}
input{flex:1;min-width:0}
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
  for (const attribute in attributes) element.setAttribute(attribute, attributes[attribute]);
  element.append(...children);
  return element;
}

function button(part, label, onClick) {
  const element = make('button', { type: 'button', part }, label);
  element.addEventListener('click', onClick);
  return element;
}

let live;
function announce(message) {
  if (!live) {
    live = make('div', { role: 'status' });
    live.style.cssText = 'position:fixed;clip-path:inset(50%)';
    document.body.append(live);
  }
  live.textContent = '';
  setTimeout(() => {
    live.textContent = message;
  }, 50);
}

/** Shows a message with buttons for ten seconds, longer while the pointer or the focus is in it. */
function toast(element, message, actions = {}) {
  element.shadowRoot.querySelector('.t')?.remove();
  const box = make('div', { part: 'toast', class: 'a t' }, message);
  for (const name in actions)
    box.append(
      button('button', text(element, name), () => {
        box.remove();
        actions[name]();
      }),
    );
  element.shadowRoot.append(box);
  announce(message);
  const end = () => (box.matches(':hover,:focus-within') ? setTimeout(end, 2000) : box.remove());
  setTimeout(end, 10000);
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
