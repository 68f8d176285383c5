// What /openapi.json says of answers, to hold every answer that a test gets against.

import { Ajv2020 } from 'ajv/dist/2020.js';

interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: unknown }[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly example: unknown } } };
  readonly responses: Readonly<
    Record<string, { readonly content?: { readonly 'application/json': { readonly schema: object } } }>
  >;
}

export interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: { readonly Error: object } };
}

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** Under this name validators find the document's `$ref`s. */
const DOCUMENT = 'openapi.json';

export class Contract {
  readonly document: Document;
  readonly #schemas = new Ajv2020({ strict: false });

  constructor(document: Document) {
    this.document = document;
    this.#schemas.addSchema(document, DOCUMENT);
  }

  /** What is wrong with an answer, in a sentence; undefined where it is as documented. */
  fault(method: string, pathAndQuery: string, { status, headers, text }: Answered): string | undefined {
    if (status === 204 || status === 304 || headers['content-type'] !== 'application/json') return undefined;
    const asked = method === 'HEAD' ? 'get' : method.toLowerCase();
    const template = this.#find(pathAndQuery.split('?')[0] as string);
    const described = template === undefined ? undefined : this.document.paths[template]?.[asked];
    const isDescribed =
      described === undefined
        ? status >= 400
        : described.responses[status]?.content?.['application/json'] !== undefined;
    if (!isDescribed) return `${method} ${pathAndQuery} answers JSON with ${status}, which is not documented`;
    if (method === 'HEAD') return undefined;
    const pointer =
      described === undefined
        ? ['components', 'schemas', 'Error']
        : [
            'paths',
            template as string,
            asked,
            'responses',
            `${status}`,
            'content',
            'application/json',
            'schema',
          ];
    const validate = this.#schemas.getSchema(`${DOCUMENT}#/${pointer.map(escaped).join('/')}`);
    if (validate === undefined) throw new Error(`no schema at ${pointer.join(' ')}`);
    if (validate(JSON.parse(text))) return undefined;
    return `${method} ${pathAndQuery} answers ${text}: ${this.#schemas.errorsText(validate.errors)}`;
  }

  /** The document's name of a path. */
  #find(path: string): string | undefined {
    return Object.keys(this.document.paths).find((template) => {
      const pattern = template.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+');
      // A share code may have a slash behind it.
      const slash = template.includes('share') ? '/?' : '';
      return new RegExp(`^${pattern}${slash}$`).test(path);
    });
  }
}

/** A step of a JSON pointer in the fragment of an address. */
function escaped(step: string): string {
  return encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'));
}
