// Parses a body as JSON.

import { isUtf8 } from 'node:buffer';
import { ServiceError } from '../errors.js';

/** @returns undefined for an empty body @throws ServiceError `invalid_json` */
export function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw new ServiceError('invalid_json', 'The body is not valid UTF-8.');
  const text = jsonText(bytes);
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0; // see ServiceError
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ServiceError('invalid_json', `The body is not valid JSON: ${whyNot(error as SyntaxError)}.`);
  } finally {
    Error.stackTraceLimit = limit;
  }
}

export function jsonText(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
}

function whyNot({ message }: SyntaxError): string {
  return message.replace(/ (in JSON|is not valid JSON)$/, '').replace(' in JSON at ', ' at ');
}
