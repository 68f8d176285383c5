// HTML templates. Values are escaped, also their braces, because themes run those as Liquid.

export class Html {
  /** @param text trusted HTML */
  constructor(readonly text: string) {}
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

export function escapeHtml(text: string): string {
  return text.replace(SPECIAL, (character) => ENTITIES[character] as string);
}

/** Values must be in elements or quoted attributes, not in scripts or styles. */
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

export interface ImageRule {
  /** Address of the shop, without a trailing slash, for relative addresses. */
  readonly url: string;
  /** Hosts of images; `*.` stands for all subdomains. */
  readonly imageHosts: readonly string[];
}

/** Normalises an image's address. @returns undefined unless it is `https:` at a listed host, without a user */
export function imageAddress(address: string | null, { url, imageHosts }: ImageRule): string | undefined {
  if (address === null || !URL.canParse(address, url)) return undefined;
  const { protocol, host, href, username, password } = new URL(address, url);
  if (protocol !== 'https:' || username !== '' || password !== '') return undefined;
  const isShown = imageHosts.some((one) =>
    one.startsWith('*.') ? host.endsWith(one.slice(1)) : host === one,
  );
  return isShown ? href : undefined;
}
