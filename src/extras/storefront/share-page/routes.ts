// GET /wishlist/share/:code, a share link's page. Signed requests of Shopify's app proxy get Liquid, others a whole
// document.

import { createHash } from 'node:crypto';
import { ServiceError } from '../../../errors.js';
import { errorAnswer } from '../../../http/answer.js';
import type { Answer, Operation, Request } from '../../../http/operation.js';
import { HTML } from '../../../http/own-pages.js';
import { isByPerson, PREFETCH_HEADERS } from '../../../http/persons.js';
import { VERSION } from '../../../version.js';
import type { ItemPage } from '../../../wishlist/item-pages.js';
import type { Items } from '../../../wishlist/items.js';
import type { ShareOpens } from '../../../wishlist/share-opens.js';
import { normaliseCode, type Shares } from '../../../wishlist/shares.js';
import { chooseLanguage } from './languages.js';
import {
  type Content,
  contentSecurityPolicy,
  documentOf,
  partOf,
  type Shop,
  showItems,
  showNotice,
} from './page.js';

const LIQUID = 'application/liquid';
/** Search engines must not list the page, because its code is a secret. */
const UNLISTED = { 'x-robots-tag': 'noindex' };
const NO_REFERRER = { 'referrer-policy': 'no-referrer' };
const PAGE = { type: 'string', pattern: '^[1-9][0-9]*$', description: 'Of 48 items each; 1 by default' };
const CACHED = { 'cache-control': 'private, max-age=60' };
const UNCACHED = { 'cache-control': 'no-store' };

export interface SharePageSpec {
  readonly shares: Shares;
  readonly items: Items;
  readonly opens: ShareOpens;
  readonly shop: Shop;
  /** The shop's own page to redirect to; '' if there is none. */
  readonly pageUrl: string;
}

export function sharePageOperation({ shares, items, opens, shop, pageUrl }: SharePageSpec): Operation {
  /** Whatever all pages depend on: part of each ETag. */
  const edition = `${VERSION} ${JSON.stringify(shop)} ${contentSecurityPolicy(shop)}`;
  return {
    method: 'get',
    path: '/wishlist/share/:code',
    doc: {
      id: 'getSharePage',
      tag: 'Sharing',
      summary: 'The page behind a share link, in en, de, fr or es by `Accept-Language`',
      query: { schema: { properties: { page: PAGE } }, example: { page: '1' } },
      pages: {
        200: {
          description: 'A page, or to an app proxy with a valid signature Liquid',
          types: [HTML, LIQUID],
          headers: ['ETag', 'Last-Modified', 'Cache-Control'],
        },
        304: {
          description: 'The page is the one of `If-None-Match`',
          types: [],
          headers: ['ETag', 'Last-Modified', 'Cache-Control'],
        },
        302: {
          description: 'To `SHARE_PAGE_URL`, if that is set',
          types: [],
          headers: ['Location', 'Cache-Control'],
        },
        404: { description: 'A page that says that no wishlist has this code', types: [HTML, LIQUID] },
      },
    },
    errorTypes: [HTML, LIQUID],
    accessGroup: 'public',
    maxBody: 0,
    headers: ['accept-language', 'if-none-match', ...PREFETCH_HEADERS],
    async handle(_, request) {
      const unknown = new ServiceError('not_found', 'No wishlist has this share code.');
      const shareCode = normaliseCode(request.parameter);
      // The shop's page will request the items, which counts as an opening.
      if (pageUrl !== '') {
        if ((await shares.find(shareCode)) === undefined) throw unknown;
        return redirect(pageUrl, shareCode);
      }
      const wanted = wantedPage(request);
      const shared = await shares.read(shareCode, (location) => items.page(location, wanted));
      if (shared === undefined) throw unknown;
      const { answer: list, profileId } = shared;
      // The following pages belong to the same opening.
      if (list.number === 1 && isByPerson(request)) await opens.record(profileId, shareCode);
      const headers = { ...CACHED, ...validatorsOf(edition, list, request) };
      if (request.header('if-none-match').includes(headers.etag)) return unchanged(request, headers);
      return page(request, shop, headers, (language) => showItems(list, language, shop));
    },
    answerError(error, request) {
      const { status, headers } = errorAnswer(error, undefined);
      const shown = page(request, shop, { ...UNCACHED, ...headers }, (language) => {
        const { unknown, unavailable } = language.texts;
        return showNotice(error.code === 'not_found' ? unknown : unavailable, language, shop);
      });
      return { ...shown, ...(status === undefined ? {} : { status }) };
    },
  };
}

function wantedPage(request: Request): number {
  const page = request.query().get('page');
  return typeof page === 'string' && /^[1-9]\d{0,5}$/.test(page) ? Number(page) : 1;
}

function validatorsOf(edition: string, { version, number, changedAt }: ItemPage, request: Request) {
  const { tag } = chooseLanguage(request.header('accept-language'));
  const seen = [edition, request.caller.kind === 'storefront', tag, number, version].join(' ');
  const etag = `W/"${createHash('sha256').update(seen).digest('base64url').slice(0, 22)}"`;
  return changedAt === '' ? { etag } : { etag, 'last-modified': new Date(changedAt).toUTCString() };
}

function unchanged(request: Request, headers: Readonly<Record<string, string>>): Answer {
  return { status: '304 Not Modified', headers: { ...headersOf(request), ...headers } };
}

function headersOf(request: Request) {
  const { tag } = chooseLanguage(request.header('accept-language'));
  return { ...UNLISTED, vary: 'Accept-Language', 'content-language': tag };
}

function page(
  request: Request,
  shop: Shop,
  headers: Readonly<Record<string, string>>,
  show: (language: ReturnType<typeof chooseLanguage>) => Content,
): Answer {
  const language = chooseLanguage(request.header('accept-language'));
  const content = show(language);
  const common = { ...headersOf(request), ...headers };
  // Our policies would block the theme's scripts.
  if (request.caller.kind === 'storefront')
    return { type: LIQUID, headers: common, body: partOf(content, language) };
  return {
    type: HTML,
    headers: { ...common, ...NO_REFERRER, 'content-security-policy': contentSecurityPolicy(shop) },
    body: documentOf(content, language, shop),
  };
}

function redirect(pageUrl: string, code: string): Answer {
  const location = new URL(pageUrl);
  location.searchParams.set('code', code);
  return {
    status: '302 Found',
    type: HTML,
    headers: { ...UNLISTED, ...NO_REFERRER, ...CACHED, location: location.href },
    body: '',
  };
}
