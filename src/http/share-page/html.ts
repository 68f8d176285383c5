// HTML out of templates: what is put into one is escaped, unless it is such HTML itself. Braces are escaped, too,
// so that nothing in it is Liquid to a theme that renders it.

export class Html {
  readonly text: string;

  /** @param text is taken as it is: only what this program says itself */
  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | Html | readonly Html[];

const SPECIAL = /[&<>"'{}]/g;
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '{': '&#123;',
  '}': '&#125;',
};

/** Text as it stands in an element, or in an attribute in quotes. */
export function escapeHtml(text: string): string {
  return text.replace(SPECIAL, (character) => ENTITIES[character] as string);
}

/** A template of HTML. Values may stand in elements and, quoted, in attributes; nowhere else (no script, no style). */
export function html(literals: TemplateStringsArray, ...values: readonly Value[]): Html {
  let text = literals[0] as string;
  for (const [at, value] of values.entries()) text += textOf(value) + literals[at + 1];
  return new Html(text);
}

export const NOTHING = new Html('');

function textOf(value: Value): string {
  if (typeof value === 'string') return escapeHtml(value);
  return value instanceof Html ? value.text : value.map(({ text }) => text).join('');
}

/**
 * The address of an image that may be shown, in the URL standard's spelling: `https:`, at a host of the list.
 * @param shop whose address is the base of relative ones
 */
export function imageAddress(
  address: string | null,
  { url, imageHosts }: { readonly url: string; readonly imageHosts: readonly string[] },
): string | undefined {
  if (address === null || !URL.canParse(address, url)) return undefined;
  const { protocol, host, href, username, password } = new URL(address, url);
  if (protocol !== 'https:' || username !== '' || password !== '') return undefined;
  const isShown = imageHosts.some((one) =>
    one.startsWith('*.') ? host.endsWith(one.slice(1)) : host === one,
  );
  return isShown ? href : undefined;
}
