// The headers of a request that decide what becomes of it, read in one pass.
//
// `getHeader` of uWebSockets.js gives the first header of a name and '' for one that is absent or empty. Only a pass
// over all of them shows a second Content-Length or an empty Transfer-Encoding, and where a proxy before this server
// reads those differently, it takes another place for the end of the request (request smuggling, RFC 9112, 11.2).
// One pass costs about as much as a getHeader for each header that is there.

import type { HttpRequest } from 'uWebSockets.js';

export class Head {
  // Each is the first of its name, empty where absent.
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
  /** Whether a proxy says whom it forwards this for: X-Forwarded-For. */
  isForwarded = false;
  /** Whether the headers leave a doubt about where the body ends, or announce trailers, see Exchange.bodyComplete. */
  isAmbiguous = false;
  readonly #wanted: readonly string[];
  /** Names and values in turn: of `#wanted` those that are there. */
  #found: string[] | undefined;

  /** @param wanted further headers to keep, in lower case */
  constructor(wanted: readonly string[]) {
    this.#wanted = wanted;
  }

  /** One of the wanted headers, the first of its name; undefined where absent. */
  header(name: string): string | undefined {
    const found = this.#found;
    if (found === undefined) return undefined;
    for (let at = 0; at < found.length; at += 2) if (found[at] === name) return found[at + 1];
    return undefined;
  }

  /** One header, in the order in which they came. */
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

/** Must be called before the handler returns, as all reading of `req`. @param wanted see Head */
export function readHead(req: HttpRequest, wanted = NONE): Head {
  reading = new Head(wanted);
  req.forEach(take);
  return reading;
}
