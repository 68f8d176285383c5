// `wishmeter import <file>`: imports wishlists into a running service; see docs/import.md.

import { type FileHandle, open } from 'node:fs/promises';
import { ServiceError, StartupError } from '../errors.js';
import { NO_CUSTOMERS, readEmails } from '../extras/import/emails.js';
import { type ImportCounts, importWishlists } from '../extras/import/importer.js';
import { openImport } from '../extras/import/open.js';
import type { Input } from '../extras/import/records.js';
import { UsageError } from './command-line.js';
import { redisUrls } from './embedded-databases.js';
import type { Program } from './program.js';
import { progressOn } from './progress.js';

const LINE_EVERY_MS = 5_000;

/** @returns 1 if rows were left out, or a signal came @throws StartupError, UsageError */
export async function importItems(program: Program<'import'>): Promise<number> {
  const { operands, options, config, log, stdout } = program;
  const [file, ...more] = operands;
  if (!file || more.length > 0) throw new UsageError('import takes one file, or - for standard input.');
  if (file === '-' && options.emails === '-') throw new UsageError('Standard input is one file, not two.');
  const input = await inputOf(program, file);
  const isDry = options['dry-run'] === true;
  const stop = new AbortController();
  void program.untilStopped().then(() => stop.abort());
  const importing = await openImport(config, log, redisUrls(config));
  const progress = progressOn(stdout, LINE_EVERY_MS);
  const say = (line: string) => {
    progress.end();
    stdout.write(`${line}\n`);
  };
  try {
    const customerOf =
      options.emails === undefined ? NO_CUSTOMERS : await readEmails(await inputOf(program, options.emails));
    const counts = await importWishlists(input, {
      ...importing,
      customerOf,
      isDry,
      stop: stop.signal,
      onFault: (line, fault) => say(`line ${line}: ${fault}`),
      onUnused: (columns) => say(`Not taken: ${columns.join(', ')}`),
      onRow(pass, rows, total) {
        progress.show(pass === 'read' ? 'rows read' : isDry ? 'rows tried' : 'rows imported', rows, total);
      },
      onWait: (why) => progress.show(`${why}: waiting`, 0),
    });
    progress.end();
    stdout.write(report(input.name, counts, isDry, stop.signal.aborted));
    return counts.leftOut > 0 || stop.signal.aborted ? 1 : 0;
  } catch (error) {
    progress.end();
    if (error instanceof ServiceError) throw new StartupError(error.message);
    throw error;
  } finally {
    await importing.close();
  }
}

async function inputOf({ stdin }: Pick<Program<'import'>, 'stdin'>, file: string): Promise<Input> {
  if (file === '-') return { name: 'Standard input', chunks: stdin };
  // Opened here, so that a missing file is named before anything else happens.
  const handle = await open(file).catch((error) => {
    throw unreadable(file, error);
  });
  if ((await handle.stat()).isDirectory()) {
    await handle.close();
    throw new StartupError(`${file} is a folder: name a file.`);
  }
  return { name: file, chunks: chunksOf(file, handle) };
}

async function* chunksOf(file: string, handle: FileHandle): AsyncGenerator<Buffer> {
  try {
    yield* handle.createReadStream({ highWaterMark: 256 * 1024 });
  } catch (error) {
    throw unreadable(file, error as NodeJS.ErrnoException);
  }
}

function unreadable(file: string, { code }: NodeJS.ErrnoException): StartupError {
  return new StartupError(`${file} can't be read: ${code}.`);
}

function report(name: string, counts: ImportCounts, isDry: boolean, isStopped: boolean): string {
  const { rows, visitors, repeated, leftOut } = counts;
  const lines: [number, string][] = [
    [counts.new, isDry ? 'would be added' : 'added'],
    [counts.there, `on the list before: ${isDry ? 'would get' : 'got'} the earlier date`],
    [counts.again, 'imported before'],
    [counts.gone, 'imported before and removed since: not added again'],
    [repeated, 'of the same item as another row: the earliest date counts'],
    [leftOut, 'left out: see above'],
  ];
  const shown = lines.filter(([count]) => count > 0);
  const width = Math.max(...shown.map(([count]) => inWords(count).length), 0);
  const table = shown.map(([count, what]) => `  ${inWords(count).padStart(width)}  ${what}\n`).join('');
  const head = `${name}: ${inWords(rows)} rows of ${inWords(visitors)} visitors${isDry ? '. Nothing was changed' : ''}.\n`;
  return `${head}${table}${isStopped ? 'Stopped. What is imported stays; run the same import again for the rest.\n' : ''}`;
}

function inWords(count: number): string {
  return count.toLocaleString('en');
}
