// Reads the headers of a request in one pass.
//
// `getHeader` of uWebSockets.js returns the first header of a name, and '' for an absent or empty one. Only a pass over all
// shows a second Content-Length or an empty Transfer-Encoding. If a proxy reads those differently, it sees the end of the
// request elsewhere (request smuggling, RFC 9112, 11.2). The pass costs as much as one getHeader per header.

import type { HttpRequest } from 'uWebSockets.js';

export class Head {
  // The first of each name; '' if absent.
  requestId = '';
  authorization = '';
  apiKey = '';
  origin = '';
  referer = '';
  /** Sec-Fetch-Site */
  fetchSite = '';
  userAgent = '';
  contentType = '';
  contentLength = '';
  /** The first Content-Encoding that is not `identity`. */
  contentEncoding = '';
  isChunked = false;
  /** Has X-Forwarded-For. */
  isForwarded = false;
  /** The end of the body is in doubt, or trailers are announced; see Exchange.bodyComplete. */
  isAmbiguous = false;
  readonly #wanted: readonly string[];
  /** Alternating names and values of wanted headers. */
  #found: string[] | undefined;

  /** @param wanted further headers to keep, in lower case */
  constructor(wanted: readonly string[]) {
    this.#wanted = wanted;
  }

  /** The first wanted header of this name; undefined if absent. */
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
        if (this.#wanted.length === 0 || !this.#wanted.includes(name)) return;
        this.#found ??= [];
        this.#found.push(name, value);
    }
  }
}

const NONE: readonly string[] = [];
let reading = new Head(NONE);
const take = (name: string, value: string): void => reading.take(name, value);

/** Must be called before the handler returns, like all reading of `req`. @param wanted see Head */
export function readHead(req: HttpRequest, wanted = NONE): Head {
  reading = new Head(wanted);
  req.forEach(take);
  return reading;
}
