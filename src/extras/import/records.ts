// Streams a file's records: CSV (commas, semicolons or tabs) or NDJSON. An invalid record has a fault. A file is
// refused if the rest can't be read: it isn't UTF-8, or a quote stays open.

import { isUtf8 } from 'node:buffer';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { parse } from 'csv-parse';
import { StartupError } from '../../errors.js';
import { type Columns, findColumns, type Names, type Values } from './columns.js';

export interface Input {
  readonly name: string;
  readonly chunks: AsyncIterable<Buffer>;
}

export interface FileRecord<Field extends string> {
  /** First line of the record, from 1. */
  readonly line: number;
  readonly values: Values<Field>;
  /** If set, `values` is empty. */
  readonly fault?: string;
}

/** Longest record, in characters. Without a limit, a record with an open quote would have the rest of the file. */
const MAX_RECORD = 1024 * 1024;

/**
 * @param onColumns called with the columns of a CSV file; throws to refuse them
 * @throws StartupError if the file can't be read or has another format
 */
export async function* readRecords<Field extends string>(
  input: Input,
  names: Names<Field>,
  onColumns: (columns: Columns<Field>) => void,
): AsyncGenerator<FileRecord<Field>> {
  const chunks = decoded(input);
  let head = '';
  for (let isWhole = false; !isWhole; ) {
    const { value, done } = await chunks.next();
    head += value ?? '';
    isWhole = done === true || /\S[^\n\r]*[\n\r]/.test(head) || head.length > MAX_RECORD;
  }
  const first = head.trimStart().charAt(0);
  if (first === '') throw new StartupError(`${input.name} is empty.`);
  if (first === '[')
    throw new StartupError(`${input.name} is a JSON list: write one object a line, as \`jq -c '.[]'\` does.`);
  const texts = joined(head, chunks);
  const [, separator] = SEPARATOR.exec(head) ?? [];
  yield* first === '{'
    ? readJson(input, texts, names)
    : readCsv({ texts, names, separator, head, onColumns }, input.name);
}

/** Excel's first line, which is no header. */
const SEPARATOR = /^sep=([^"\n\r])[ \t]*(?=[\n\r])/i;

async function* joined(head: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}

async function* decoded({ name, chunks }: Input): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let line = 1;
  const refuse = (at: number) =>
    new StartupError(
      `${name} is not UTF-8 from line ${at} on. Save it as "CSV UTF-8", or convert it: iconv -f WINDOWS-1252 -t UTF-8.`,
    );
  let isFirst = true;
  for await (const chunk of chunks) {
    if (isFirst) refuseOtherFormat(name, chunk);
    isFirst = false;
    let text: string;
    try {
      text = decoder.decode(chunk, { stream: true });
    } catch {
      throw refuse(line + linesBeforeFault(chunk));
    }
    line += breaksIn(text);
    yield text;
  }
  try {
    decoder.decode();
  } catch {
    throw refuse(line);
  }
}

const WORKBOOK = Buffer.from('PK\u0003\u0004');
const GZIP = Buffer.from([0x1f, 0x8b]);

function refuseOtherFormat(name: string, start: Buffer): void {
  if (start.subarray(0, 4).equals(WORKBOOK))
    throw new StartupError(`${name} is a workbook of a spreadsheet: save it as "CSV UTF-8".`);
  if (start.subarray(0, 2).equals(GZIP))
    throw new StartupError(`${name} is compressed: gzip -dc <file> | wishmeter import - reads it.`);
  const utf16 = utf16In(start);
  if (utf16 !== undefined)
    throw new StartupError(
      `${name} is UTF-16. Save it as "CSV UTF-8", or convert it: iconv -f ${utf16} -t UTF-8.`,
    );
}

/** @returns iconv's name of the encoding. Without a byte order mark, a zero byte in the first character shows it. */
function utf16In([first, second]: Buffer): string | undefined {
  if ((first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)) return 'UTF-16';
  if (first === 0) return 'UTF-16BE';
  return second === 0 ? 'UTF-16LE' : undefined;
}

function linesBeforeFault(chunk: Buffer): number {
  let lines = 0;
  for (let from = 0; from < chunk.length; lines++) {
    const stop = chunk.indexOf(0x0a, from);
    // The chunk's first line isn't checked, because it may begin within a character of the previous chunk.
    if (lines > 0 && !isUtf8(chunk.subarray(from, stop < 0 ? undefined : stop))) return lines;
    if (stop < 0) break;
    from = stop + 1;
  }
  return 0;
}

function breaksIn(text: string): number {
  let breaks = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) breaks++;
  return breaks;
}

async function* readJson<Field extends string>(
  { name }: Input,
  texts: AsyncIterable<string>,
  names: Names<Field>,
): AsyncGenerator<FileRecord<Field>> {
  let [rest, line] = ['', 0];
  let [known, columns] = ['', findColumns([], names)];
  const read = (text: string): FileRecord<Field> | undefined => {
    line++;
    if (text.trim() === '') return undefined;
    let row: unknown;
    try {
      row = JSON.parse(text);
    } catch {
      return { line, values: {}, fault: 'is not JSON' };
    }
    if (typeof row !== 'object' || row === null || Array.isArray(row))
      return { line, values: {}, fault: 'must be a JSON object' };
    const keys = Object.keys(row);
    if (keys.join('\n') !== known) [known, columns] = [keys.join('\n'), findColumns(keys, names)];
    return { line, values: valuesOf(columns, Object.values(row)) };
  };
  for await (const text of texts) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() as string;
    if (rest.length > MAX_RECORD)
      throw new StartupError(
        `${name}: line ${line + lines.length + 1} is longer than a record may be (1 MiB).`,
      );
    for (const one of lines) {
      const record = read(one);
      if (record !== undefined) yield record;
    }
  }
  const last = read(rest);
  if (last !== undefined) yield last;
}

interface Csv<Field extends string> {
  readonly texts: AsyncIterable<string>;
  readonly names: Names<Field>;
  /** If the file names it, on a line of its own. */
  readonly separator: string | undefined;
  readonly head: string;
  readonly onColumns: (columns: Columns<Field>) => void;
}

async function* readCsv<Field extends string>(
  { texts, names, separator, head, onColumns }: Csv<Field>,
  name: string,
): AsyncGenerator<FileRecord<Field>> {
  const parser = parse({
    delimiter: separator ?? delimiterOf(head),
    from_line: separator === undefined ? 1 : 2,
    record_delimiter: ['\r\n', '\n', '\r'],
    max_record_size: MAX_RECORD,
    info: true,
    // If a record has a wrong number of values, only that record is left out. A quote within a value, as in 19", is a
    // character.
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    skip_records_with_empty_values: true,
  });
  const piped = pipeline(Readable.from(texts), parser).catch(() => {}); // the parser throws the error, too
  let columns: Columns<Field> | undefined;
  try {
    for await (const { record, info } of parser as AsyncIterable<Parsed>) {
      if (columns === undefined) {
        columns = findColumns(record, names);
        onColumns(columns);
        continue;
      }
      const line = info.lines - record.reduce((breaks, value) => breaks + breaksIn(value), 0);
      if (record.length === columns.fields.length) yield { line, values: valuesOf(columns, record) };
      else {
        const fault = `has ${record.length} values, and the header names ${columns.fields.length}`;
        yield { line, values: {}, fault };
      }
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (!code?.startsWith('CSV_')) throw error;
    throw new StartupError(`${name} is no CSV that can be read: ${message}.`);
  } finally {
    parser.destroy();
    await piped;
  }
}

interface Parsed {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

function delimiterOf(head: string): string {
  const [line = ''] = head.trimStart().split(/[\n\r]/, 1);
  const bare = line.replace(/"[^"]*"/g, '');
  const count = (one: string) => bare.split(one).length;
  return [';', '\t'].reduce((most, one) => (count(one) > count(most) ? one : most), ',');
}

function valuesOf<Field extends string>(
  { fields }: Columns<Field>,
  record: readonly unknown[],
): Values<Field> {
  const values: Values<Field> = {};
  for (const [at, field] of fields.entries()) if (field !== undefined) values[field] = record[at];
  return values;
}
