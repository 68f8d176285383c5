// Headers of all answers of the dashboard, and JSON of answers and requests.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { ownPagePolicy } from '../../http/own-pages.js';

export const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': ownPagePolicy("'self'"),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

export function send(response: ServerResponse, status: number, value: object): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(status, {
    ...HEADERS,
    'content-type': 'application/json; charset=utf-8',
    'content-length': body.length,
  });
  response.end(body);
}

/** @returns undefined if the body is longer, or is no JSON */
export async function readJson(request: IncomingMessage, maxCharacters: number): Promise<unknown> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) {
    body += chunk;
    if (body.length > maxCharacters) return undefined;
  }
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}
