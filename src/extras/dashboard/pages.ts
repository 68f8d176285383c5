// The pages and their files. A page is frame.html around `page/<file>.html`, with the script `page/<file>.js`.

import { readdirSync, readFileSync } from 'node:fs';
import { escapeHtml } from '../../http/html.js';
import { CSS, HTML, JAVASCRIPT } from '../../http/own-pages.js';

interface Page {
  /** A single segment, so that relative links work if a proxy puts a path before it. */
  readonly path: string;
  readonly file: string;
  readonly title: string;
  readonly link?: string;
  /** True if it is left out without DASHBOARD_VISITORS. */
  readonly isOfVisitors?: true;
}

const PAGES: readonly Page[] = [
  { path: '/', file: 'overview', title: 'wishmeter', link: 'Overview' },
  { path: '/product', file: 'product', title: 'Product – wishmeter' },
  { path: '/receivers', file: 'receivers', title: 'Receivers – wishmeter', link: 'Receivers' },
  {
    path: '/visitors',
    file: 'visitors',
    title: 'Visitors – wishmeter',
    link: 'Visitors',
    isOfVisitors: true,
  },
];

export interface File {
  readonly type: string;
  readonly content: Buffer;
}

// The path leads from dist/ to the sources, because browser files are not compiled.
const OURS = new URL('../../../../src/extras/dashboard/page/', import.meta.url);
const UPLOT = new URL('dist/', import.meta.resolve('uplot/package.json'));

export interface Deployment {
  readonly servicePort: number;
  readonly basePath: string;
  /** A product page's address in the shop, with `{handle}`. */
  readonly productUrl: string;
  readonly hasVisitors: boolean;
}

export function readFiles(deployment: Deployment): ReadonlyMap<string, File> {
  const { servicePort, basePath, productUrl, hasVisitors } = deployment;
  const pages = PAGES.filter(({ isOfVisitors }) => !isOfVisitors || hasVisitors);
  const names = readdirSync(OURS);
  const scripts = names.filter((name) => name.endsWith('.js'));
  const styles = names.filter((name) => name.endsWith('.css'));
  const frame = readFileSync(new URL('frame.html', OURS), 'utf8');
  const preloads = scripts.map((name) => `<link rel="modulepreload" href="${name}">`).join('\n');
  const read = (type: string, file: URL): File => ({ type, content: readFileSync(file) });
  return new Map([
    ...pages.map((page): [string, File] => {
      const values: Readonly<Record<string, string>> = {
        title: page.title,
        script: `${page.file}.js`,
        preloads,
        links: linksOn(pages, page),
        service_port: String(servicePort),
        base_path: basePath,
        product_url: escapeHtml(productUrl),
      };
      const main = readFileSync(new URL(`${page.file}.html`, OURS), 'utf8');
      const whole = frame
        .replace('{main}', () => main)
        .replace(/\{(\w+)\}/g, (text, name: string) => values[name] ?? text);
      return [page.path, { type: HTML, content: Buffer.from(whole) }];
    }),
    ...scripts.map((name): [string, File] => [`/${name}`, read(JAVASCRIPT, new URL(name, OURS))]),
    ...styles.map((name): [string, File] => [`/${name}`, read(CSS, new URL(name, OURS))]),
    ['/uplot.js', read(JAVASCRIPT, new URL('uPlot.iife.min.js', UPLOT))],
    ['/uplot.css', read(CSS, new URL('uPlot.min.css', UPLOT))],
  ]);
}

function linksOn(pages: readonly Page[], shown: Page): string {
  const links = pages
    .filter(({ link }) => link !== undefined)
    .map((page) => {
      const path = `.${page.path}`;
      return `<a href="${path}" data-page="${path}"${page === shown ? ' aria-current="page"' : ''}>${page.link}</a>`;
    });
  return links.length > 1 || shown.link === undefined ? links.join('\n') : '';
}
