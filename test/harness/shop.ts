// A shop's web server: pages on an origin that is not the service's, as a browser sees it.

import { once } from 'node:events';
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

interface Page {
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Shop {
  readonly port: number;
  /** Of another site than the service on 127.0.0.1, not just another port. */
  readonly origin: string;
  /** Paths with their queries, in the order in which they were asked for. */
  readonly asked: readonly string[];
  /** Puts `html` on `path`; its URL. */
  show(path: string, html: string, headers?: Readonly<Record<string, string>>): string;
  /** Everything under `path` comes from the service on `port`, as behind a reverse proxy. */
  forward(path: string, port: number): void;
}

/** A shop on a free port, until `t` ends. What it does not show is 404 and empty. */
export async function openShop(t: Test): Promise<Shop> {
  const pages = new Map<string, Page>();
  const asked: string[] = [];
  let forwarded: { path: string; port: number } | undefined;

  const server = createServer((req, res) => {
    const url = req.url as string;
    const [path = ''] = url.split('?');
    asked.push(url);
    if (forwarded !== undefined && path.startsWith(forwarded.path)) return pass(forwarded.port, req, res);
    const page = pages.get(path);
    if (page === undefined) return res.writeHead(404).end();
    res.writeHead(200, { 'content-type': 'text/html; charset=utf-8', ...page.headers }).end(page.html);
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
      pages.set(path, {
        html: `<!doctype html><title>shop</title><link rel="icon" href="data:,">${html}`,
        headers,
      });
      return origin + path;
    },
    forward(path, to) {
      forwarded = { path, port: to };
    },
  };
}

function pass(port: number, req: IncomingMessage, res: ServerResponse): void {
  const { method, url: path, headers } = req;
  const onward = httpRequest({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
    res.writeHead(answer.statusCode as number, answer.headers);
    answer.pipe(res);
  });
  onward.on('error', () => res.destroy());
  req.pipe(onward);
}
