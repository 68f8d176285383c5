// A shop's web server. Its pages have another origin than the service, as in a real shop.

import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

/** A fixed page, or one that is made for the customer who is logged in: the id, empty for a guest. */
type Html = string | ((customerId: string) => string);

interface Page {
  readonly html: Html;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Changes the path and query of a request as a proxy does. */
export type Rewrite = (url: string, customerId: string) => string;

export interface Shop {
  readonly port: number;
  /** On another site than the service on 127.0.0.1, not only on another port. */
  readonly origin: string;
  readonly asked: readonly string[];
  /** Serves `html` at `path`. @returns its URL */
  show(path: string, html: Html, headers?: Readonly<Record<string, string>>): string;
  /** Passes requests under `path` to the service on `port`, like a reverse proxy. */
  forward(path: string, port: number, rewrite?: Rewrite): void;
}

/** The cookie with the id of the customer who is logged in. */
export const LOGIN = 'customer';

/** A shop on a free port, until `t` ends. Other paths are answered 404 without a body. */
export async function openShop(t: Test): Promise<Shop> {
  const pages = new Map<string, Page>();
  const asked: string[] = [];
  const forwarded = new Map<string, { port: number; rewrite: Rewrite }>();

  const server = createServer((req, res) => {
    const url = req.url as string;
    const [path = ''] = url.split('?');
    asked.push(url);
    const customerId = new RegExp(`${LOGIN}=(\\d+)`).exec(req.headers.cookie ?? '')?.[1] ?? '';
    for (const [prefix, { port, rewrite }] of forwarded)
      if (path.startsWith(prefix)) return pass(port, rewrite(url, customerId), req, res);
    const page = pages.get(path);
    if (page === undefined) return res.writeHead(404).end();
    const html = typeof page.html === 'string' ? page.html : page.html(customerId);
    res
      .writeHead(200, { 'content-type': 'text/html; charset=utf-8', ...page.headers })
      .end(`<!doctype html><title>shop</title><link rel="icon" href="data:,">${html}`);
  });
  server.listen(0);
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  const origin = `http://localhost:${port}`;
  return {
    port,
    origin,
    asked,
    show(path, html, headers = {}) {
      pages.set(path, { html, headers });
      return origin + path;
    },
    forward(path, to, rewrite = (url) => url) {
      forwarded.set(path, { port: to, rewrite });
    },
  };
}

function pass(port: number, path: string, req: IncomingMessage, res: ServerResponse): void {
  const { method } = req;
  // Shopify does not pass cookies on.
  const { cookie, ...headers } = req.headers;
  const onward = httpRequest({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
    res.writeHead(answer.statusCode as number, answer.headers);
    answer.pipe(res);
  });
  onward.on('error', () => res.destroy());
  req.pipe(onward);
}
