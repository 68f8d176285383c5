// The report as Markdown to post, and as HTML to mail. Titles come from storefronts, so both escape them: in Markdown
// also what chat programs read as a mention.

import { html } from '../../../http/html.js';
import { productLink } from '../../shop-links.js';
import type { Figure, Product, Report } from './figures.js';

export interface Shop {
  readonly name: string;
  /** A product page's address, with `{handle}`. */
  readonly productUrl: string;
}

const number = new Intl.NumberFormat('en');
const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

function amount({ currency }: Figure, n: number): string {
  if (currency === undefined) return number.format(n);
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(n);
  } catch {
    return `${number.format(n)} ${currency || 'without a currency'}`;
  }
}

function changeOf({ now, before }: Figure): string {
  if (before === 0) return now === 0 ? '' : 'none before';
  if (now === before) return 'as before';
  const rate = now / before - 1;
  return `${rate > 0 ? '▲' : '▼'} ${percent.format(Math.abs(rate))}`;
}

const signed = (n: number) => (n === 0 ? '±0' : `${n > 0 ? '+' : '−'}${number.format(Math.abs(n))}`);

interface Section {
  readonly title: string;
  readonly none: string;
  readonly products: readonly Product[];
  readonly unit: string;
}

function sectionsOf({ mostWished, rising, backInStock, neverBought, days, wishDays }: Report): Section[] {
  const ofWishes = `wishes of ${wishDays.from} to ${wishDays.to}`;
  return [
    { title: 'Most wished', none: 'No wishes.', products: mostWished, unit: 'saved it' },
    {
      title: `Rising in the 7 days to ${days.to}, against the 7 days before`,
      none: 'No product was saved by more visitors than before.',
      products: rising,
      unit: 'saved it',
    },
    {
      title: `Back in stock: open ${ofWishes}`,
      none: 'No product that was wished while out of stock is back.',
      products: backInStock,
      unit: 'saved it while it was out of stock',
    },
    {
      title: `Wished and never bought: ${ofWishes}`,
      none: 'Everybody bought what they wished for.',
      products: neverBought,
      unit: 'saved it and never bought it',
    },
  ];
}

const tail = ({ n, change }: Product, unit: string) =>
  `${number.format(n)} ${n === 1 ? 'visitor' : 'visitors'} ${unit}${change === undefined ? '' : `, ${signed(change)} in 7 days`}`;
const headline = ({ days }: Report, { name }: Shop) => `${name}: wishlists of ${days.from} to ${days.to}`;
const comparison = ({ before }: Report) => `Changes are from ${before.from} to ${before.to}.`;
const link = (handle: string, { productUrl }: Shop) => productLink(productUrl, handle, null);

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '@': '@\u200b' };
const plain = (text: string) =>
  text
    .replace(/\s+/g, ' ')
    .replace(/[\\`*_[\]()~|#!]/g, '\\$&')
    .replace(/[&<>@]/g, (character) => ENTITIES[character] as string);

export function asMarkdown(report: Report, shop: Shop): string {
  const figures = report.figures.map((figure) => {
    const change = changeOf(figure);
    return `- ${figure.name}: **${plain(amount(figure, figure.now))}**${change === '' ? '' : ` (${change})`}`;
  });
  const sections = sectionsOf(report).map(({ title, none, products, unit }) => {
    const lines = products.map((one, i) => {
      const name = plain(one.title);
      const linked =
        one.handle === ''
          ? name
          : `[${name}](${link(one.handle, shop).replace(/[()]/g, (sign) => (sign === '(' ? '%28' : '%29'))})`;
      return `${i + 1}. ${linked}: ${tail(one, unit)}`;
    });
    return `## ${title}\n\n${lines.length === 0 ? none : lines.join('\n')}\n`;
  });
  return `# ${plain(headline(report, shop))}\n\n${figures.join('\n')}\n\n${comparison(report)}\n\n${sections.join('\n')}`;
}

const CELL = 'padding:4px 12px 4px 0;text-align:left;vertical-align:top';

export function asHtml(report: Report, shop: Shop): string {
  const figures = report.figures.map(
    (figure) =>
      html`<tr><td style="${CELL}">${figure.name}</td><td style="${CELL}"><b>${amount(figure, figure.now)}</b></td><td style="${CELL}">${changeOf(figure)}</td></tr>\n`,
  );
  const sections = sectionsOf(report).map(({ title, none, products, unit }) => {
    const lines = products.map((one) => {
      const name =
        one.handle === '' ? html`${one.title}` : html`<a href="${link(one.handle, shop)}">${one.title}</a>`;
      return html`<li>${name}: ${tail(one, unit)}</li>\n`;
    });
    const list = lines.length === 0 ? html`<p>${none}</p>` : html`<ol>\n${lines}</ol>`;
    return html`<h2 style="font-size:17px;margin:24px 0 8px">${title}</h2>\n${list}\n`;
  });
  const title = headline(report, shop);
  const document = html`<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>${title}</title></head>
<body style="font:16px/1.45 system-ui,sans-serif;max-width:640px;margin:0 auto;padding:16px">
<h1 style="font-size:21px">${title}</h1>
<table style="border-collapse:collapse">
${figures}</table>
<p>${comparison(report)}</p>
${sections}</body>
</html>
`;
  return document.text;
}
