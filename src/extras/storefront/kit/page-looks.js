// Texts and styles of the second script.
const PAGE_NAMES =
  'added|removed|failed|saved|undo|offer|yes|no|empty|empty-friend|friend|remove|cart|cart-all|share|copied|sold-out|unavailable|quantity|more|mine|was|in-cart|sort|newest|oldest|name|price';
const PAGE_TEXTS = {
  en: 'Added to the wishlist|Removed from the wishlist|Something went wrong|Saved|Undo|Add # to your wishlist?|Yes|No|Your wishlist is empty|This wishlist is empty|A friend’s wishlist|Remove|Add to cart|Add all to cart|Share|Link copied|Sold out|Not available any more|Quantity: #|Show more|Save to my wishlist|was|In the cart|Sort by|Newest|Oldest|Name|Price',
  de: 'Auf der Wunschliste|Von der Wunschliste entfernt|Das hat nicht geklappt|Gespeichert|Rückgängig|# auf die Wunschliste?|Ja|Nein|Deine Wunschliste ist leer|Diese Wunschliste ist leer|Eine geteilte Wunschliste|Entfernen|In den Warenkorb|Alles in den Warenkorb|Teilen|Link kopiert|Ausverkauft|Nicht mehr erhältlich|Anzahl: #|Mehr zeigen|Auf meine Wunschliste|zuvor|Im Warenkorb|Sortieren|Neueste|Älteste|Name|Preis',
  fr: 'Ajouté à la liste d’envies|Retiré de la liste d’envies|Une erreur est survenue|Enregistré|Annuler|Ajouter # à la liste d’envies ?|Oui|Non|Votre liste d’envies est vide|Cette liste d’envies est vide|La liste d’envies d’un proche|Retirer|Ajouter au panier|Tout ajouter au panier|Partager|Lien copié|Épuisé|N’est plus disponible|Quantité : #|Afficher plus|Ajouter à ma liste|avant|Dans le panier|Trier par|Plus récents|Plus anciens|Nom|Prix',
  es: 'Añadido a la lista de deseos|Quitado de la lista de deseos|Algo ha ido mal|Guardado|Deshacer|¿Añadir # a la lista de deseos?|Sí|No|Tu lista de deseos está vacía|Esta lista de deseos está vacía|La lista de deseos de otra persona|Quitar|Añadir al carrito|Añadir todo al carrito|Compartir|Enlace copiado|Agotado|Ya no está disponible|Cantidad: #|Mostrar más|Añadir a mi lista|antes|En el carrito|Ordenar por|Más recientes|Más antiguos|Nombre|Precio',
};

/** Isolates a right-to-left name, or a name in a right-to-left text, so that the words around it keep their order. */
const isolated = (value, around = '') =>
  /[\u0590-\u08ff]/.test(around + value) ? `\u2068${value}\u2069` : value;

const pageSheet = new CSSStyleSheet();
pageSheet.replaceSync(`
:host{display:block}
ul{list-style:none;margin:0 0 16px;padding:0;display:grid;gap:0 32px;grid-template-columns:repeat(auto-fill,minmax(min(100%,320px),1fr))}
li{display:grid;grid-template:auto auto 1fr/var(--wl-picture,80px) 1fr;align-items:start;gap:4px 16px;padding:16px 0;border-bottom:1px solid var(--l)}
.i{width:var(--wl-picture,80px);aspect-ratio:1;object-fit:cover;border-radius:var(--r);grid-row:span 3;background:var(--l)}
b{font-weight:600;overflow-wrap:anywhere}
a{color:inherit}
.p{display:flex;flex-wrap:wrap;gap:0 var(--g)}
.a{display:flex;flex-wrap:wrap;align-items:center;gap:var(--g)}
[part=heart]:first-child,[hidden]+[part=heart]{margin-inline-start:-10px}
.h{position:absolute;clip-path:inset(50%)}
input,select{font:inherit;color:inherit;background:none;border:1px solid var(--l);border-radius:var(--r);min-height:44px;padding:0 12px;min-width:0}
option{background:Canvas;color:CanvasText}
input{flex:1}`);
