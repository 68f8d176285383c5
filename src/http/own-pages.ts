// Media types and content security policy of /docs and the dashboard.

export const HTML = 'text/html; charset=utf-8';
export const JAVASCRIPT = 'text/javascript; charset=utf-8';
export const CSS = 'text/css; charset=utf-8';

/** @param imageHosts hosts of images besides the page's own */
export function ownPagePolicy(formAction: "'none'" | "'self'", imageHosts: readonly string[] = []): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    ["img-src 'self' data:", ...imageHosts.map((host) => `https://${host}`)].join(' '),
    "connect-src 'self'",
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ');
}
