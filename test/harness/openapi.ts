// The answers that /openapi.json describes, to check every answer of a test.

import { Ajv2020 } from 'ajv/dist/2020.js';

interface Described {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly description: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly example?: unknown }[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly example: unknown } } };
  readonly responses: Readonly<Record<string, DescribedAnswer>>;
}

interface DescribedAnswer {
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>;
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
}

export interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: {
    readonly schemas: { readonly Error: object };
    readonly headers: Readonly<Record<string, { readonly required?: boolean }>>;
  };
}

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** Validators find the document's `$ref`s under this name. */
const DOCUMENT = 'openapi.json';

const AS_JSON = ['content', 'application/json', 'schema'];

const contracts = new Map<string, Contract>();

export class Contract {
  readonly document: Document;
  // generators.test.ts checks the document itself: to compile the schema of schemas takes longer than most
  // tests.
  readonly #schemas = new Ajv2020({ strict: false, validateSchema: false });
  readonly #paths: readonly (readonly [template: string, pattern: RegExp])[];

  constructor(document: Document) {
    this.document = document;
    this.#schemas.addFormat('date-time', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    this.#schemas.addSchema(document, DOCUMENT);
    this.#paths = Object.keys(document.paths).map((template) => {
      const pattern = template.replace(/[.]/g, '\\.').replace(/\{\w+\}/g, '[^/]+');
      // A share code may have a slash after it.
      const slash = template.includes('share') ? '/?' : '';
      return [template, new RegExp(`^${pattern}${slash}$`)];
    });
  }

  /** One contract for all services of a process with this document, because it compiles the schemas on demand. */
  static of(text: string): Contract {
    const known = contracts.get(text) ?? new Contract(JSON.parse(text));
    contracts.set(text, known);
    return known;
  }

  fault(method: string, pathAndQuery: string, { status, headers, text }: Answered): string | undefined {
    if (status === 204) return undefined;
    const asked = method === 'HEAD' ? 'get' : method.toLowerCase();
    const template = this.#find(pathAndQuery.split('?')[0] as string);
    const described = template === undefined ? undefined : this.document.paths[template]?.[asked];
    const what = `${method} ${pathAndQuery} answers ${status}`;
    const answer = described?.responses[status];
    for (const name of Object.keys(answer?.headers ?? {}))
      if (this.document.components.headers[name]?.required && headers[name.toLowerCase()] === undefined)
        return `${what} without ${name}`;
    if (status === 304) return undefined;
    const type = String(headers['content-type']);
    if (type !== 'application/json') {
      const isOther = answer?.content !== undefined && answer.content[type] === undefined;
      return isOther ? `${what} with ${type}, which is not documented` : undefined;
    }
    const isDescribed =
      described === undefined ? status >= 400 : answer?.content?.['application/json'] !== undefined;
    if (!isDescribed) return `${what} with JSON, which is not documented`;
    if (method === 'HEAD') return undefined;
    const ofStatus = ['paths', `${template}`, asked, 'responses', `${status}`, ...AS_JSON];
    const pointer = described === undefined ? ['components', 'schemas', 'Error'] : ofStatus;
    const errors = this.#errors(pointer, JSON.parse(text));
    return errors && `${method} ${pathAndQuery} answers ${text}: ${errors}`;
  }

  /** Like `fault`, for a delivery. @param webhook its name in the document */
  deliveryFault(webhook: string, body: unknown): string | undefined {
    return this.#errors(['webhooks', webhook, 'post', 'requestBody', ...AS_JSON], body);
  }

  #errors(pointer: readonly string[], value: unknown): string | undefined {
    const validate = this.#schemas.getSchema(`${DOCUMENT}#/${pointer.map(escaped).join('/')}`);
    if (validate === undefined) throw new Error(`no schema at ${pointer.join(' ')}`);
    return validate(value) ? undefined : this.#schemas.errorsText(validate.errors);
  }

  #find(path: string): string | undefined {
    return this.#paths.find(([, pattern]) => pattern.test(path))?.[0];
  }
}

/** One step of a JSON pointer, as in the fragment of a URL. */
function escaped(step: string): string {
  return encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'));
}
