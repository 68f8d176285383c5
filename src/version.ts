// The version of this package.

import { readFileSync } from 'node:fs';

const PACKAGE = new URL('../../package.json', import.meta.url);

export const VERSION = (JSON.parse(readFileSync(PACKAGE, 'utf8')) as { readonly version: string }).version;
