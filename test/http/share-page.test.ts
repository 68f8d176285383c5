// GET /wishlist/share/:code: what the page shows and says, to whom, and that the texts of items stay text.

import { createHash } from 'node:crypto';
import t from 'tap';
import { chooseLanguage } from '../../src/extras/storefront/share-page/languages.js';
import { showItems } from '../../src/extras/storefront/share-page/page.js';
import { escapeHtml, imageAddress } from '../../src/http/html.js';
import { type Item, parseItem } from '../../src/wishlist/item.js';
import { startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { proxied, SECRET, signed } from '../harness/app-proxy.js';
import type { Answer, Headers } from '../harness/client.js';
import { startTestRedis } from '../harness/redis.js';
import { storedItem } from '../harness/samples.js';
import { CONTENT } from './wishlist.js';

const SHOP = 'https://shop.example';
const HTML = 'text/html; charset=utf-8';
const UNKNOWN = '/wishlist/share/AAAAAAAAAAAAAAAA';
const LOGGED_OUT = { logged_in_customer_id: '' };

const redis = await startTestRedis(t);

async function share(app: TestApp, identity: object, items: readonly object[]): Promise<string> {
  for (const item of items.toReversed()) await app.shop.add(identity, { ...CONTENT, ...item });
  return `/wishlist/share/${(await app.shop.share(identity)).code}`;
}

function read(text: string): string {
  const named: Record<string, string> = { lt: '<', gt: '>', quot: '"', amp: '&' };
  return text.replace(/&(?:#(\d+)|(\w+));/g, (_, code, name) =>
    code === undefined ? (named[name] ?? '?') : String.fromCodePoint(Number(code)),
  );
}

const all = (text: string, pattern: RegExp): string[] =>
  Array.from(text.matchAll(pattern), ([, found = '']) => read(found));
const titlesOf = ({ text }: Answer) => all(text, /<h2[^>]*><a [^>]*>([^<]*)<\/a>/g);
const linksOf = ({ text }: Answer) => all(text, /<h2[^>]*><a href="([^"]*)"/g);
const imagesOf = ({ text }: Answer) => all(text, /<img src="([^"]*)"/g);
const pricesOf = ({ text }: Answer) =>
  Array.from(text.matchAll(/<p class="wm-price[^>]*>(.*?)<\/p>/g), ([, price = '']) =>
    read(price.replace(/<[^>]*>/g, '')),
  );

t.test('the share page', async (t) => {
  const env = {
    ...{ SHOP_URL: SHOP, SHOPIFY_SECRET: SECRET, ALLOWED_ORIGINS: 'https://a.example' },
    IMAGE_HOSTS: 'cdn.shop.example,*.images.example',
  };
  const app = await startApp(t, redis, { env });
  const ids = { sessionId: 'session-of-the-visitor', customerId: '70707' };
  const who = { ...ids, email: 'ada@shop.example', firstName: 'Ada', lastName: 'Lovelace' };
  const path = await share(app, who, [
    { productId: '1', productTitle: 'Red shoe' },
    { productId: '2', productTitle: 'Tea', variantId: null, variantTitle: null, compareAt: null },
    { productId: '3', productTitle: 'Gone', inventoryAvailable: false, compareAt: '79.90' },
    {
      productId: '4',
      productTitle: 'Rice',
      productHandle: '米/?#&',
      variantId: 'a b&c',
      currencyCode: 'jpy',
    },
  ]);

  t.test(
    'the share page shows the items, newest first: title, variant, price, picture and link',
    async (t) => {
      const answer = await app.get(path);
      t.equal(answer.status, 200);
      t.same(titlesOf(answer), ['Red shoe', 'Tea', 'Gone', 'Rice']);
      const rice = `${encodeURIComponent('米/?#&')}?variant=a%20b%26c`;
      const links = ['red-shoe?variant=2002', 'red-shoe', 'red-shoe?variant=2002', rice];
      t.same(
        linksOf(answer),
        links.map((link) => `${SHOP}/products/${link}`),
      );
      const [euros, yen] = ['Sale price €79.90 Regular price €99.90', 'Sale price ¥80 Regular price ¥100'];
      t.same(pricesOf(answer), [euros, 'Price €79.90', 'Price €79.90', yen]);
      t.same(all(answer.text, /wm-variant"[^>]*>([^<]*)</g), ['42', '42', '42']);
      t.same(new Set(imagesOf(answer)), new Set(['https://cdn.shop.example/red.png']));
      t.same(all(answer.text, /<img [^>]*alt="([^"]*)"/g), ['Red shoe, 42', 'Tea', 'Gone, 42', 'Rice, 42']);
      t.equal(answer.text.match(/Sold out/g)?.length, 1);
      t.match(answer.text, />4 items</);
      t.match(answer.text, '<meta property="og:image" content="https://cdn.shop.example/red.png">');
    },
  );

  t.test('the share page reveals nothing of the visitor, and no ids but those in its links', async (t) => {
    const { profileId, items } = await app.shop.exported({ customerId: who.customerId });
    for (const { text } of [await app.get(path), await app.get(proxied(path, LOGGED_OUT))]) {
      for (const secret of [...Object.values(who), profileId, path.split('/').at(-1), 'desktop'])
        t.notMatch(text, secret);
      for (const { itemId, addedAt } of items) {
        t.notMatch(text, itemId);
        t.notMatch(text, addedAt);
      }
    }
  });

  t.test('the share page has a policy that allows no script, and may be cached for a minute', async (t) => {
    const { headers, text } = await app.get(path);
    t.match(headers, {
      'content-type': HTML,
      'cache-control': 'private, max-age=60',
      'referrer-policy': 'no-referrer',
      'x-robots-tag': 'noindex',
      'x-content-type-options': 'nosniff',
      'content-language': 'en',
    });
    t.match(String(headers.vary).split(', '), ['Accept-Language', 'Origin']);
    t.match(text, /^<!doctype html>\n<html lang="en" dir="ltr">/);
    const style = /<style>(.*?)<\/style>/s.exec(text)?.[1] ?? '';
    const digest = createHash('sha256').update(style).digest('base64');
    t.equal(
      headers['content-security-policy'],
      `default-src 'none'; style-src 'sha256-${digest}'; img-src https://cdn.shop.example https://*.images.example data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
    t.notMatch(text, /<script|<iframe|<link rel="stylesheet"| on\w+=| style=|@import|url\(/i);
  });

  t.test(
    "a signed request for the share page gets Liquid for the theme's layout, without our policies",
    async (t) => {
      const { status, headers, text } = await app.get(proxied(path, LOGGED_OUT));
      t.equal(status, 200);
      t.equal(headers['content-type'], 'application/liquid');
      t.match(text, /^<style>\.wm-share /);
      t.notMatch(text, /<!doctype|<html|<head>|<body|<main/i);
      for (const name of ['content-security-policy', 'referrer-policy']) t.notOk(name in headers, name);
      t.same(titlesOf({ text } as Answer), ['Red shoe', 'Tea', 'Gone', 'Rice']);
    },
  );

  t.test('a request without a valid signature gets the whole share page', async (t) => {
    const parameters = signed(LOGGED_OUT);
    const wrong = [
      proxied(path, LOGGED_OUT, 'another-secret-of-the-app'),
      `${path}?${new URLSearchParams({ ...parameters, shop: 'other.myshopify.com' })}`,
      `${path}?signature=`,
    ];
    for (const asked of wrong) {
      const { status, headers } = await app.get(asked);
      t.match({ status, type: headers['content-type'] }, { status: 200, type: HTML }, asked);
    }
    const withKey: Headers[] = [TRUSTED, { authorization: 'Bearer wrong' }, { 'x-api-key': 'wrong' }];
    for (const headers of withKey)
      t.match(await app.get(path, headers), { status: 200, headers: { 'content-type': HTML } });
    const closed = await startApp(t, redis, { prefix: app.prefix });
    t.equal((await closed.get(proxied(path, LOGGED_OUT))).headers['content-type'], HTML, 'no secret');
  });

  t.test('the share page is in the accepted language, or else in English', async (t) => {
    const said = async (accepted: string) => {
      const { headers, text } = await app.get(path, { 'accept-language': accepted });
      t.match(text, `lang="${headers['content-language']}"`);
      return [headers['content-language'], /<h1>([^<]*)/.exec(text)?.[1]];
    };
    t.same(await said('de-CH, fr;q=0.9'), ['de', 'Geteilte Wunschliste']);
    t.same(await said('fr'), ['fr', 'Liste d’envies partagée']);
    t.same(await said('es-419,en;q=0.5'), ['es', 'Lista de deseos compartida']);
    t.same(await said('nl'), ['en', 'Shared wishlist']);
    t.same(pricesOf(await app.get(path, { 'accept-language': 'de' })).slice(0, 2), [
      'Angebotspreis 79,90\u00a0€ Normaler Preis 99,90\u00a0€',
      'Preis 79,90\u00a0€',
    ]);
  });

  t.test('the share page of an empty wishlist says that it is empty', async (t) => {
    const empty = await app.get(await share(app, { sessionId: 'empty' }, []), { 'accept-language': 'de' });
    t.equal(empty.status, 200);
    t.match(empty.text, '<h1>Noch nichts hier</h1>');
    t.match(empty.text, `<a class="wm-button" href="${SHOP}/">Zum Shop</a>`);
    t.notMatch(empty.text, '<ul');
  });

  t.test('an unknown share code is answered with a page and 404', async (t) => {
    for (const code of ['x', 'A'.repeat(17), 'AAAAAAAAAAAAAAA%2e', '%00', '*', 'x'.repeat(2_000)]) {
      const answer = await app.get(`/wishlist/share/${code}`);
      t.match(answer, { status: 404, headers: { 'content-type': HTML } }, code.slice(0, 20));
      t.match(answer.text, '<h1>This wishlist can’t be found</h1>');
    }
    const unknown = await app.get(UNKNOWN, { 'accept-language': 'es' });
    t.match(unknown, { status: 404, text: /No encontramos/, headers: { 'cache-control': 'no-store' } });
    t.ok(unknown.headers['content-security-policy']);
    const headers = { 'content-type': 'application/liquid' };
    t.match(await app.get(proxied(UNKNOWN, LOGGED_OUT)), { status: 404, headers, text: /^<style>/ });
    t.equal((await app.get('/wishlist/share/')).status, 404);
  });
});

t.test('a share link works as it is without a proxy and without any setting', async (t) => {
  for (const [env, base, link] of [
    [{ BASE_PATH: '/api', APP_PROXY_PATH: 'wishes' }, '/api', 'http://localhost:0/apps/wishes'],
    [{}, '', 'http://localhost:0/apps/wishmeter'],
  ] as const) {
    const app = await startApp(t, redis, { env });
    const { shareLink, code } = (await app.post(`${base}/share`, { identity: { sessionId: 's' } }, TRUSTED))
      .json;
    t.equal(shareLink, `${link}/wishlist/share/${code}`, 'PORT is 0');
    t.match(await app.get(new URL(shareLink).pathname), { status: 200, headers: { 'content-type': HTML } });
  }
});

t.test('SHARE_URL and PRODUCT_URL give links and products the addresses of the shop', async (t) => {
  const env = {
    SHARE_URL: 'https://shop.example/lists/{code}?of={code}',
    PRODUCT_URL: 'https://shop.example/p/{handle}.html?size={variant}&from=list',
  };
  const app = await startApp(t, redis, { env });
  const who = { sessionId: 'addresses' };
  await app.shop.add(who, { productHandle: 'red {variant} shoe', productId: '1', variantId: '7' });
  await app.shop.add(who, { productHandle: 'blue-hat', productId: '2', variantId: null });
  const { code, shareLink } = await app.shop.share(who);
  t.equal(shareLink, `https://shop.example/lists/${code}?of=${code}`);
  const { text } = await app.get(`/wishlist/share/${code}`);
  t.match(text, 'href="https://shop.example/p/red%20%7Bvariant%7D%20shoe.html?size=7&amp;from=list"');
  t.match(text, 'href="https://shop.example/p/blue-hat.html?from=list"', 'an item without a variant');
});

t.test('with SHOP_NAME the share page names the shop in its title and its heading', async (t) => {
  const name = 'Shoes & <b>{{ more }}</b> $&';
  const app = await startApp(t, redis, {
    env: { SHOP_URL: SHOP, SHOP_NAME: name, SHOPIFY_SECRET: SECRET },
  });
  const path = await share(app, { sessionId: 'named' }, [{}]);
  const empty = await share(app, { sessionId: 'named and empty' }, []);
  for (const [language, sentence] of Object.entries({
    en: `Shared wishlist at ${name}`,
    de: `Geteilte Wunschliste bei ${name}`,
    fr: `Liste d’envies partagée chez ${name}`,
    es: `Lista de deseos compartida en ${name}`,
  })) {
    const accepted = { 'accept-language': language };
    const { text } = await app.get(path, accepted);
    const liquid = await app.get(proxied(path, LOGGED_OUT), accepted);
    for (const shown of [text, liquid.text]) {
      const [, heading = ''] = /<h1>(.*?)<\/h1>/.exec(shown) ?? [];
      t.equal(read(heading.replace(/<\/?bdi>/g, '')), sentence);
      t.notMatch(shown, /<b>|\{[{%]/, 'it is text, and no Liquid');
    }
    t.same(all(text, /<title>(.*?)<\/title>/g), [`${sentence} · shop.example`]);
    t.same(all(text, /"og:title" content="(.*?)"/g), [sentence]);
    t.match(all((await app.get(empty, accepted)).text, /<title>(.*?)<\/title>/g)[0], sentence);
  }
  const { text } = await app.get(path);
  t.same(all(text, /"og:site_name" content="(.*?)"/g), [name]);
  t.same(all(text, /<header class="wm-shop">.*?<bdi>(.*?)<\/bdi>/g), [name]);
  t.same(all((await app.get(UNKNOWN)).text, /<header class="wm-shop">.*?<bdi>(.*?)<\/bdi>/g), [name]);
});

t.test('the share page shows a quantity if it is more than one', async (t) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const path = await share(app, { sessionId: 'many' }, [
    { productId: '1', quantity: 1 },
    { productId: '2', quantity: 2 },
    { productId: '3', quantity: 1_000 },
  ]);
  const said = async (at: string, language: string) =>
    all((await app.get(at, { 'accept-language': language })).text, /wm-quantity">([^<]*)</g);
  t.same(await said(path, 'en'), ['Quantity: 2', 'Quantity: 1,000']);
  t.same(await said(proxied(path, LOGGED_OUT), 'de'), ['Menge: 2', 'Menge: 1.000']);
  t.same(await said(path, 'fr'), ['Quantité\u00a0: 2', 'Quantité\u00a0: 1\u202f000']);
  t.same(await said(path, 'es'), ['Cantidad: 2', 'Cantidad: 1000']);
});

t.test('with SHARE_PAGE_URL a share link redirects to that page, with the code', async (t) => {
  const env = { SHARE_PAGE_URL: 'https://shop.example/pages/list?view=1#top', SHOPIFY_SECRET: SECRET };
  const app = await startApp(t, redis, { env });
  const path = await share(app, { sessionId: 's' }, [{}]);
  const rewritten = path.replace(/[^/]+$/, (code) => `${code.toUpperCase()}/`);
  for (const asked of [path, proxied(path, LOGGED_OUT), rewritten]) {
    const { status, headers, text } = await app.get(asked);
    t.match({ status, text }, { status: 302, text: '' });
    t.equal(headers.location, `https://shop.example/pages/list?view=1&code=${path.split('/').at(-1)}#top`);
    t.equal(headers['content-length'], '0');
  }
  t.match(await app.get(UNKNOWN), { status: 404, headers: { 'content-type': HTML } });
});

t.test('refusals of the share page are pages, too, and count as refusals', async (t) => {
  // A clock that stands still: all requests are in the same second of the limit.
  const app = await startApp(t, redis, { env: { RATE_LIMIT: '3' }, timing: { now: () => 0 } });
  const answers = await Promise.all(Array.from({ length: 5 }, () => app.get(UNKNOWN)));
  const limited = answers.filter(({ status }) => status === 429);
  t.equal(limited.length, 2);
  for (const { headers, text } of limited) {
    t.match(headers, { 'content-type': HTML, 'retry-after': '1', 'cache-control': 'no-store' });
    t.match(text, 'can’t be shown right now');
  }
  t.equal(await app.figure('http_refused_total{code="rate_limited"}'), 2);
  t.equal(await app.figure('http_refused_total{code="not_found"}'), 3);

  const own = await startTestRedis(t);
  const alone = await startApp(t, own, { timeoutMs: 500 });
  await own.stop();
  const away = await alone.get(UNKNOWN, { 'accept-language': 'fr' });
  t.match(away, { status: 503, headers: { 'content-type': HTML, 'retry-after': '1' } });
  t.match(away.text, 'pour le moment');
  t.equal((await alone.get('/wishlist/share/x')).status, 404, 'a malformed code asks Redis nothing');
});

t.test('the share page shows images by https from IMAGE_HOSTS, and no others', async (t) => {
  const imageHosts = ['shop.example', 'a.example', '*.b.example', 'c.example:8443'];
  const base = { url: 'https://shop.example/de', imageHosts };
  const right = [
    ['https://a.example/x.png', 'https://a.example/x.png'],
    ['https://A.example:443/x.png?v=1', 'https://a.example/x.png?v=1'],
    ['//x.y.b.example/x.png', 'https://x.y.b.example/x.png'],
    ['https://c.example:8443/x.png', 'https://c.example:8443/x.png'],
    ['/x.png', 'https://shop.example/x.png'],
    [' https://a.example/"><script>', 'https://a.example/%22%3E%3Cscript%3E'],
  ] as const;
  for (const [text, address] of right) t.equal(imageAddress(text, base), address, text);
  const wrong = [
    ...['javascript:alert(1)', 'java\nscript:alert(1)', '\u0001javascript:alert(1)', 'data:text/html,x'],
    ...['file:///etc/passwd', 'ftp://a.example/x', 'http://[', 'http://a.example/x.png'],
    'https://b.example/x.png',
    'https://evil-b.example/x.png',
    'https://a.example.evil.example/x.png',
    'https://evil.example/a.example',
    'https://a.example@evil.example/x.png',
    'https://evil@a.example/x.png',
    'https://a.example:8443/x.png',
    'https://c.example/x.png',
    '\\\\evil.example/x.png',
  ];
  for (const text of wrong) t.equal(imageAddress(text, base), undefined, text);
  const shown = partOf([{ image: 'javascript:alert(1)' }, { image: 'data:text/html,x' }]);
  t.notMatch(shown, /<img|javascript|data:/);
});

/** The page's part for these items, which /item/add need not accept. */
function partOf(items: readonly Partial<Item>[]): string {
  const stored = parseItem(storedItem('id', CONTENT as never, '2026-01-01T00:00:00.000Z'));
  const shown = items.map((item) => ({ ...stored, ...item }));
  const shop = {
    ...{ url: SHOP, name: '', productUrl: `${SHOP}/products/{handle}?variant={variant}` },
    imageHosts: ['cdn.shop.example'],
  };
  const page = { items: shown, total: shown.length, number: 1, pages: 1, version: '', changedAt: '' };
  return showItems(page, chooseLanguage(''), shop).body.text;
}

t.test('the share page hides the variant of a product without variants', async (t) => {
  const text = partOf([{ variantTitle: 'Default Title' }]);
  t.notMatch(text, 'Default Title');
  t.match(text, 'alt="Red shoe"');
});

t.test('the share page shows texts of any length and prices of any size', async (t) => {
  const long = `${'{<"'.repeat(3_000)} end`;
  t.ok(partOf([{ productTitle: long }]).includes(`>${escapeHtml(long)}</a>`));
  const prices = (item: Partial<Item>) =>
    pricesOf({ text: partOf([{ compareAt: null, ...item }]) } as Answer)[0];
  t.equal(prices({ price: '9999999999999999.99' }), 'Price €9,999,999,999,999,999.99');
  t.equal(prices({ price: '0.00' }), 'Price €0.00');
  t.equal(prices({ price: '5.00', currencyCode: null }), 'Price 5.00');
  t.equal(prices({ price: '5.00', currencyCode: 'jp' }), 'Price 5.00\u00a0JP');
  t.equal(prices({ price: '5.00', currencyCode: 'XYZ' }), 'Price 5.00\u00a0XYZ');
  t.equal(prices({ price: '5.00', currencyCode: 'usd' }), 'Price $5.00');
  t.equal(prices({ price: '9.00', compareAt: '10.00' }), 'Sale price €9.00 Regular price €10.00');
  t.equal(prices({ price: '10.00', compareAt: '9.00' }), 'Price €10.00', 'no bargain');
});

t.test(
  'the share page of a long list has pages of 48 items, each with links to its neighbours',
  async (t) => {
    const app = await startApp(t, redis, { env: { SHOP_URL: SHOP, SHOPIFY_SECRET: SECRET } });
    const who = { sessionId: 'long' };
    const titles = Array.from({ length: 100 }, (_, i) => `Title ${i}`);
    const products = titles.map((productTitle, i) => ({ productId: String(i + 1), productTitle }));
    const path = await share(app, who, products);
    const hrefs = (text: string) => all(text, /<a rel="(?:prev|next)" href="([^"]*)"/g);
    const pages = await Promise.all(['', '?page=2', '?page=3'].map((query) => app.get(path + query)));
    t.same(pages.map(titlesOf), [titles.slice(0, 48), titles.slice(48, 96), titles.slice(96)]);
    const neighbours = pages.map(({ text }) => hrefs(text));
    t.same(neighbours, [['?page=2'], ['?page=1', '?page=3'], ['?page=2']]);
    for (const said of ['100 items', 'Page 2 of 3']) t.match(pages[1]?.text, said);
    t.match((await app.get(`${path}?page=2`, { 'accept-language': 'de' })).text, 'Seite 2 von 3');
    t.same(titlesOf(await app.get(`${path}?page=9`)), titles.slice(96), 'beyond the last it is the last');
    for (const wrong of ['0', '-1', 'x', '1e3', '%zz', '2&page=3'])
      t.same(titlesOf(await app.get(`${path}?page=${wrong}`)), titles.slice(0, 48), wrong);
    t.same(titlesOf(await app.get(proxied(path, { ...LOGGED_OUT, page: '2' }))), titles.slice(48, 96));
  },
);

t.test('a share page that its reader has cached is 304 until the list changes', async (t) => {
  const app = await startApp(t, redis, { env: { SHOP_URL: SHOP, SHOPIFY_SECRET: SECRET } });
  const who = { sessionId: 'kept' };
  const path = await share(app, who, [{ productId: '1' }, { productId: '2' }]);
  const tagOf = async (at = path, headers = {}) => String((await app.get(at, headers)).headers.etag);
  let tag = await tagOf();
  t.match((await app.get(path)).headers, { 'last-modified': / GMT$/ });
  t.equal(await tagOf(), tag);
  t.not(await tagOf(path, { 'accept-language': 'fr' }), tag, 'another language is another page');
  t.not(await tagOf(proxied(path, LOGGED_OUT)), tag, 'and so is the part for a theme');
  for (const known of [tag, `"x", ${tag}`]) {
    const kept = await app.get(path, { 'if-none-match': known });
    t.match(kept, { status: 304, text: '', headers: { etag: tag, 'cache-control': /max-age=60/ } }, known);
    t.notOk('content-type' in kept.headers, known);
  }
  for (const change of [
    () => app.shop.add(who, { ...CONTENT, productId: '3' }),
    () => app.shop.add(who, { ...CONTENT, productId: '3', price: '1.00' }),
    () => app.shop.remove(who, { ...CONTENT, productId: '3' }),
  ]) {
    await change();
    const changed = await app.get(path, { 'if-none-match': tag });
    t.equal(changed.status, 200);
    t.not(changed.headers.etag, tag);
    tag = String(changed.headers.etag);
  }
});
