// GET /wishlist/share/:code: the page behind a share link. Shopify's app proxy, by its signature, gets it as Liquid
// for the shop's theme; all others get a whole page. Nothing that it shows is the visitor's but the items.

import { ServiceError } from '../../errors.js';
import type { Items } from '../../wishlist/items.js';
import type { ShareOpens } from '../../wishlist/share-opens.js';
import { normaliseCode, type Shares } from '../../wishlist/shares.js';
import { errorAnswer } from '../answer.js';
import type { Answer, Operation, Request } from '../operation.js';
import { HTML } from '../own-pages.js';
import { chooseLanguage } from '../share-page/languages.js';
import {
  CONTENT_SECURITY_POLICY,
  type Content,
  documentOf,
  partOf,
  type Shop,
  showItems,
  showNotice,
} from '../share-page/page.js';
import { isByPerson, PREFETCH_HEADERS } from './persons.js';

const LIQUID = 'application/liquid';
/** The code in the address is a secret: no search engine may list it, no other server may learn it. */
const UNLISTED = { 'x-robots-tag': 'noindex' };
const NO_REFERRER = { 'referrer-policy': 'no-referrer' };
const CACHED = { 'cache-control': 'private, max-age=60' };
const UNCACHED = { 'cache-control': 'no-store' };

/** @param pageUrl the shop's own page, which is redirected to; empty where it has none */
export function sharePageOperation(
  shares: Shares,
  items: Items,
  opens: ShareOpens,
  shop: Shop,
  pageUrl: string,
): Operation {
  return {
    method: 'get',
    path: '/wishlist/share/:code',
    doc: {
      id: 'getSharePage',
      tag: 'Sharing',
      summary: 'The page behind a share link, in the language of `Accept-Language`: en, de, fr or es',
      pages: {
        200: {
          description: 'A page, or to an app proxy with a valid signature Liquid',
          types: [HTML, LIQUID],
        },
        302: { description: 'To `SHARE_PAGE_URL`, where that is set', types: [] },
        404: { description: 'A page that says that no wishlist has this code', types: [HTML, LIQUID] },
      },
    },
    accessGroup: 'share-page',
    maxBody: 0,
    headers: ['accept-language', ...PREFETCH_HEADERS],
    async handle(_, request) {
      const shared = await shares.read(request.parameter, (place) => items.list(place));
      if (shared === undefined) throw new ServiceError('not_found', 'No wishlist has this share code.');
      const shareCode = normaliseCode(request.parameter);
      // The shop's page asks for the items, and that is counted.
      if (pageUrl !== '') return redirect(pageUrl, shareCode);
      if (isByPerson(request)) await opens.record(shared.profileId, shareCode);
      return page(request, shop, CACHED, (language) => showItems(shared.answer, language, shop));
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

function page(
  request: Request,
  shop: Shop,
  headers: Readonly<Record<string, string>>,
  show: (language: ReturnType<typeof chooseLanguage>) => Content,
): Answer {
  const language = chooseLanguage(request.header('accept-language'));
  const content = show(language);
  const common = { ...UNLISTED, ...headers, vary: 'Accept-Language', 'content-language': language.tag };
  // What a theme makes of Liquid has scripts and beacons of its own: our policies are not for it.
  if (request.caller.kind === 'storefront')
    return { type: LIQUID, headers: common, body: partOf(content, language) };
  return {
    type: HTML,
    headers: { ...common, ...NO_REFERRER, 'content-security-policy': CONTENT_SECURITY_POLICY },
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
