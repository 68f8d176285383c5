// Reads all headers in one pass. `getHeader` costs as much per header, and would hide a second Content-Length and an
// empty Transfer-Encoding, which proxies may read differently (request smuggling, RFC 9112, 11.2).

import type { HttpRequest } from 'uWebSockets.js';

export class Head {
  // The value of the first header with each name; '' if there is none.
  requestId = '';
  authorization = '';
  apiKey = '';
  origin = '';
  referer = '';
  fetchSite = '';
  userAgent = '';
  contentType = '';
  contentLength = '';
  contentEncoding = '';
  isChunked = false;
  isForwarded = false;
  /** True if the body's length is ambiguous, or trailers are announced. */
  isAmbiguous = false;
  #found: string[] | undefined;

  constructor(private readonly wanted: readonly string[]) {}

  header(name: string): string | undefined {
    const found = this.#found;
    if (found === undefined) return undefined;
    for (let at = 0; at < found.length; at += 2) if (found[at] === name) return found[at + 1];
    return undefined;
  }

  take(name: string, value: string): void {
    switch (name) {
      case 'content-length':
        if (value === '' || (this.contentLength !== '' && value !== this.contentLength))
          this.isAmbiguous = true;
        this.contentLength = value;
        break;
      case 'transfer-encoding':
        if (this.isChunked || value.toLowerCase() !== 'chunked') this.isAmbiguous = true;
        this.isChunked = true;
        break;
      case 'trailer':
        this.isAmbiguous = true;
        break;
      case 'content-type':
        this.contentType ||= value;
        break;
      case 'content-encoding':
        if (value.toLowerCase() !== 'identity') this.contentEncoding ||= value;
        break;
      case 'x-request-id':
        this.requestId ||= value;
        break;
      case 'authorization':
        this.authorization ||= value;
        break;
      case 'x-api-key':
        this.apiKey ||= value;
        break;
      case 'origin':
        this.origin ||= value;
        break;
      case 'referer':
        this.referer ||= value;
        break;
      case 'sec-fetch-site':
        this.fetchSite ||= value;
        break;
      case 'user-agent':
        this.userAgent ||= value;
        break;
      case 'x-forwarded-for':
        this.isForwarded = true;
        break;
      default:
        if (this.wanted.length === 0 || !this.wanted.includes(name)) return;
        this.#found ??= [];
        this.#found.push(name, value);
    }
  }
}

const NONE: readonly string[] = [];
let reading = new Head(NONE);
const take = (name: string, value: string): void => reading.take(name, value);

/** Call before the handler returns; later `req` is invalid. */
export function readHead(req: HttpRequest, wanted = NONE): Head {
  reading = new Head(wanted);
  req.forEach(take);
  return reading;
}
