// The backend of docs/storefront.md, which knows the customer by the shop's cookie.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import type { Test } from 'tap';
import { KEY } from '../../harness/app.js';
import type { BrowserFixtures } from '../../harness/storefront.js';

/** Puts it on /wishlist of the shop. */
export async function openBackend(t: Test, { shop, service }: BrowserFixtures): Promise<void> {
  const headers = { 'content-type': 'application/json', 'x-api-key': KEY };
  const ask = (path: string, body: object) =>
    fetch(service + path, { method: 'POST', headers, body: JSON.stringify(body) });
  const server = createServer(async (request, response) => {
    const path = (request.url as string).replace(/^\/\d*/, '');
    const customerId = /^\/(\d+)/.exec(request.url as string)?.[1];
    // biome-ignore lint/suspicious/noExplicitAny: a body
    const { identity: sent, ...body } = (await json(request)) as any;
    if (!customerId) return response.writeHead(401).end('{}');
    const identity = { customerId, sessionId: sent?.sessionId };
    if (path === '/item/list' && identity.sessionId) await ask('/profile/merge', { identity });
    const answer = await ask(path, { ...body, identity });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  });
  server.listen(0);
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  shop.forward('/wishlist/', port, (url, customerId) => url.replace('/wishlist', `/${customerId}`));
}
