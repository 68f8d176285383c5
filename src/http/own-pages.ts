// What this program's own pages (/docs, the dashboard) have in common: media types, and a content security policy that lets
// them load nothing but what comes along with them. The share page has a policy of its own, since themes frame it.

export const HTML = 'text/html; charset=utf-8';
export const JAVASCRIPT = 'text/javascript; charset=utf-8';
export const CSS = 'text/css; charset=utf-8';

/** @param formAction where forms may be sent: `'none'` or `'self'` */
export function ownPagePolicy(formAction: "'none'" | "'self'"): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    // `data:` is for icons in styles.
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    `form-action ${formAction}`,
    "frame-ancestors 'none'",
  ].join('; ');
}
