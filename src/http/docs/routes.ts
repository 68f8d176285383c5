// GET / and GET /docs (Swagger UI), with their files.

import { readFile } from 'node:fs/promises';
import { VERSION } from '../../version.js';
import { html } from '../html.js';
import type { Operation, OperationDoc } from '../operation.js';
import { CSS, HTML, JAVASCRIPT, ownPagePolicy } from '../own-pages.js';
import { FILE_HEADERS, staticFile } from '../static-file.js';

const PAGE_HEADERS = {
  'cache-control': 'no-cache',
  'content-security-policy': ownPagePolicy("'none'"),
  'referrer-policy': 'no-referrer',
};

// Browser files are read from src, because they are not compiled.
const OURS = new URL('../../../../src/http/docs/', import.meta.url);
const SWAGGER_UI = import.meta.resolve('swagger-ui-dist/package.json');

const FILES: readonly (readonly [path: string, type: string, file: URL])[] = [
  ['/docs/docs.css', CSS, new URL('docs.css', OURS)],
  ['/docs/docs.js', JAVASCRIPT, new URL('docs.js', OURS)],
  ['/docs/swagger-ui.css', CSS, new URL('swagger-ui.css', SWAGGER_UI)],
  ['/docs/swagger-ui.js', JAVASCRIPT, new URL('swagger-ui-bundle.js', SWAGGER_UI)],
];

export function docsOperations(basePath: string, links: Readonly<Record<string, string>>): Operation[] {
  const more = Object.entries(links).map(
    ([path, about]) => html`<li><a href="${basePath}${path}">${about}</a></li>\n`,
  );
  const index = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>wishmeter</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${basePath}/docs/docs.css">
</head>
<body>
<main class="index">
<h1>wishmeter <small>${VERSION}</small></h1>
<p>Counts product visits and records wishlist events for shop storefronts.</p>
<ul>
<li><a href="${basePath}/docs">Documentation of the API</a></li>
<li><a href="${basePath}/openapi.json">The same as an OpenAPI 3.1 document</a></li>
${more}<li><a href="/readyz">Is the service ready?</a></li>
</ul>
</main>
</body>
</html>
`;
  const docs = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>wishmeter: the API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${basePath}/docs/docs.css">
<link rel="stylesheet" href="${basePath}/docs/swagger-ui.css">
</head>
<body>
<main id="docs" data-document="${basePath}/openapi.json">
<noscript>This page needs JavaScript; <a href="${basePath}/openapi.json">the document itself</a> does not.</noscript>
</main>
<script src="${basePath}/docs/swagger-ui.js"></script>
<script src="${basePath}/docs/docs.js"></script>
</body>
</html>
`;
  const page = (
    path: string,
    { text }: { readonly text: string },
    id: string,
    summary: string,
  ): Operation => ({
    ...open(path, {
      id,
      tag: 'Operating',
      summary,
      pages: { 200: { description: 'A page', types: [HTML] } },
    }),
    handle: () => ({ type: HTML, headers: PAGE_HEADERS, body: text }),
  });
  return [
    page('/', index, 'getIndex', 'Name, version and links, for people'),
    page('/docs', docs, 'getDocs', 'This document, for people'),
  ];
}

export function docsFiles(): Operation[] {
  return FILES.map(([path, type, file]) => ({
    ...open(path, { id: path, tag: 'Operating', summary: 'A part of /docs' }),
    headers: FILE_HEADERS,
    handle: staticFile(type, () => readFile(file)),
  }));
}

const open = (path: string, doc: OperationDoc) =>
  ({ method: 'get', path, doc, accessGroup: 'open', maxBody: 0 }) as const;
