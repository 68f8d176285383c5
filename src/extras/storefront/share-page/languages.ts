// The share page's texts, numbers and prices in each language.

type Tag = 'en' | 'de' | 'fr' | 'es';

export interface Texts {
  readonly title: string;
  /** `#` is the shop's name. */
  readonly titleOf: string;
  /** `#` is the number of items. */
  readonly count: { readonly one: string; readonly other: string };
  /** Shown if the quantity, `#`, is above 1. */
  readonly quantity: string;
  readonly price: string;
  readonly salePrice: string;
  readonly regularPrice: string;
  readonly soldOut: string;
  readonly toShop: string;
  readonly newer: string;
  readonly older: string;
  readonly page: string;
  readonly empty: Notice;
  readonly unknown: Notice;
  readonly unavailable: Notice;
}

export interface Notice {
  readonly title: string;
  readonly text: string;
}

const TEXTS: Readonly<Record<Tag, Texts>> = {
  en: {
    title: 'Shared wishlist',
    titleOf: 'Shared wishlist at #',
    count: { one: '# item', other: '# items' },
    quantity: 'Quantity: #',
    price: 'Price',
    salePrice: 'Sale price',
    regularPrice: 'Regular price',
    soldOut: 'Sold out',
    toShop: 'Visit the shop',
    newer: 'Newer items',
    older: 'More items',
    page: 'Page # of #',
    empty: { title: 'Nothing here yet', text: 'What is added to this wishlist will appear here.' },
    unknown: {
      title: 'This wishlist can’t be found',
      text: 'Please check that the link is complete. It may also have expired.',
    },
    unavailable: {
      title: 'This wishlist can’t be shown right now',
      text: 'Please try again in a moment.',
    },
  },
  de: {
    title: 'Geteilte Wunschliste',
    titleOf: 'Geteilte Wunschliste bei #',
    count: { one: '# Artikel', other: '# Artikel' },
    quantity: 'Menge: #',
    price: 'Preis',
    salePrice: 'Angebotspreis',
    regularPrice: 'Normaler Preis',
    soldOut: 'Ausverkauft',
    toShop: 'Zum Shop',
    newer: 'Neuere Artikel',
    older: 'Weitere Artikel',
    page: 'Seite # von #',
    empty: { title: 'Noch nichts hier', text: 'Was auf diese Wunschliste kommt, erscheint hier.' },
    unknown: {
      title: 'Diese Wunschliste gibt es nicht',
      text: 'Bitte prüfen, ob der Link vollständig ist. Vielleicht ist er auch abgelaufen.',
    },
    unavailable: {
      title: 'Diese Wunschliste lässt sich gerade nicht anzeigen',
      text: 'Bitte gleich noch einmal versuchen.',
    },
  },
  fr: {
    title: 'Liste d’envies partagée',
    titleOf: 'Liste d’envies partagée chez #',
    count: { one: '# article', other: '# articles' },
    quantity: 'Quantité\u00a0: #',
    price: 'Prix',
    salePrice: 'Prix soldé',
    regularPrice: 'Prix habituel',
    soldOut: 'Épuisé',
    toShop: 'Voir la boutique',
    newer: 'Articles précédents',
    older: 'Articles suivants',
    page: 'Page # sur #',
    empty: {
      title: 'Rien pour l’instant',
      text: 'Les articles ajoutés à cette liste d’envies apparaîtront ici.',
    },
    unknown: {
      title: 'Cette liste d’envies est introuvable',
      text: 'Vérifiez que le lien est complet. Il a peut-être expiré.',
    },
    unavailable: {
      title: 'Cette liste d’envies ne peut pas être affichée pour le moment',
      text: 'Veuillez réessayer dans un instant.',
    },
  },
  es: {
    title: 'Lista de deseos compartida',
    titleOf: 'Lista de deseos compartida en #',
    count: { one: '# artículo', other: '# artículos' },
    quantity: 'Cantidad: #',
    price: 'Precio',
    salePrice: 'Precio de oferta',
    regularPrice: 'Precio habitual',
    soldOut: 'Agotado',
    toShop: 'Ir a la tienda',
    newer: 'Artículos anteriores',
    older: 'Más artículos',
    page: 'Página # de #',
    empty: {
      title: 'Todavía no hay nada',
      text: 'Lo que se añada a esta lista de deseos aparecerá aquí.',
    },
    unknown: {
      title: 'No encontramos esta lista de deseos',
      text: 'Comprueba que el enlace esté completo. También puede que haya caducado.',
    },
    unavailable: {
      title: 'Ahora mismo no podemos mostrar esta lista de deseos',
      text: 'Vuelve a intentarlo en un momento.',
    },
  },
};

/** Intl can't format other codes, such as those of two letters. */
const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

export class Language {
  readonly tag: Tag;
  readonly texts: Texts;
  readonly #plurals: Intl.PluralRules;
  readonly #numbers: Intl.NumberFormat;
  readonly #prices = new Map<string, Intl.NumberFormat>();

  constructor(tag: Tag) {
    this.tag = tag;
    this.texts = TEXTS[tag];
    this.#plurals = new Intl.PluralRules(tag);
    this.#numbers = new Intl.NumberFormat(tag);
  }

  count(items: number): string {
    const { one, other } = this.texts.count;
    return (this.#plurals.select(items) === 'one' ? one : other).replace('#', this.#numbers.format(items));
  }

  page(number: number, pages: number): string {
    const [before = '', between = '', after = ''] = this.texts.page.split('#');
    return before + this.#numbers.format(number) + between + this.#numbers.format(pages) + after;
  }

  quantity(n: number): string {
    return this.texts.quantity.replace('#', this.#numbers.format(n));
  }

  price(amount: string, currency: string | null): string {
    const code = currency?.toUpperCase() ?? '';
    const known = CURRENCIES.has(code) ? code : '';
    let format = this.#prices.get(known);
    if (format === undefined) {
      format = new Intl.NumberFormat(
        this.tag,
        known === '' ? { minimumFractionDigits: 2 } : { style: 'currency', currency: known },
      );
      this.#prices.set(known, format);
    }
    // As a number, a large amount would lose digits.
    const price = format.format(amount as Intl.StringNumericLiteral);
    return known === code ? price : `${price}\u00a0${code}`;
  }
}

const languages = new Map<Tag, Language>();

export function chooseLanguage(accepted: string): Language {
  let chosen: Tag = 'en';
  let best = 0;
  for (const range of accepted.split(',')) {
    const [tag = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    const liking = weight === undefined ? 1 : Number(weight);
    const [base = ''] = tag.split('-');
    if (isTag(base) && liking > best) [chosen, best] = [base, liking];
  }
  const known = languages.get(chosen);
  if (known !== undefined) return known;
  const language = new Language(chosen);
  languages.set(chosen, language);
  return language;
}

function isTag(text: string): text is Tag {
  return Object.hasOwn(TEXTS, text);
}
