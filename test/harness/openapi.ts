// What /openapi.json says of answers, to hold every answer that a test gets against.

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

interface Described {
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

export class Contract {
  readonly document: Document;
  readonly #schemas = new Ajv2020({ strict: false });
  readonly #compiled = new Map<object, ValidateFunction>();

  constructor(document: Document) {
    this.document = document;
  }

  /** What is wrong with an answer, in a sentence; undefined where it is as documented. */
  fault(method: string, pathAndQuery: string, { status, headers, text }: Answered): string | undefined {
    if (status === 204 || status === 304 || headers['content-type'] !== 'application/json') return undefined;
    const described = this.#find(method.toLowerCase(), pathAndQuery.split('?')[0] as string);
    const schema =
      status === 200
        ? described?.responses['200']?.content?.['application/json'].schema
        : this.document.components.schemas.Error;
    if (schema === undefined) return `${method} ${pathAndQuery} answers JSON that is not documented`;
    if (method === 'HEAD') return undefined;
    let validate = this.#compiled.get(schema);
    if (validate === undefined) {
      validate = this.#schemas.compile(schema);
      this.#compiled.set(schema, validate);
    }
    if (validate(JSON.parse(text))) return undefined;
    return `${method} ${pathAndQuery} answers ${text}: ${this.#schemas.errorsText(validate.errors)}`;
  }

  #find(method: string, path: string): Described | undefined {
    for (const [template, methods] of Object.entries(this.document.paths)) {
      const pattern = template.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+');
      if (new RegExp(`^${pattern}$`).test(path)) return methods[method];
    }
    return undefined;
  }
}
