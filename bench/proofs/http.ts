// Single requests, for proofs. Every answer must be 2xx.

import { KEY } from '../traffic/requests.js';

/** @throws where the answer is not 2xx JSON */
export async function ask(
  port: number,
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  body?: object,
  headers: Readonly<Record<string, string>> = { authorization: `Bearer ${KEY}` },
): Promise<Record<string, unknown>> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} was answered ${answer.status}: ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
