// The manifest describes a backup and has each file's checksum. It is written last, after all files were read back, so
// a folder without a manifest isn't a backup.

import { createHash } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StartupError } from '../../errors.js';
import { type FileSum, sumOf } from './checked-file.js';

const FORMAT = 1;
const NAME = 'manifest.json';

export interface BackupFile extends FileSum {
  readonly name: string;
}

export interface Manifest {
  readonly format: typeof FORMAT;
  readonly wishmeter: string;
  /** The backup has everything that was acknowledged before this time. */
  readonly beganAt: string;
  readonly endedAt: string;
  readonly keyPrefix: string;
  readonly fingerprint: string;
  readonly redis: {
    readonly version: string;
    readonly masters: number;
    readonly schema: number;
    /** Dumped keys of each kind. */
    readonly keys: Readonly<Record<string, number>>;
  };
  readonly clickhouse: {
    readonly version: string;
    readonly migration: number;
    readonly timeZone: string;
    readonly visitRetentionDays: number;
    readonly rows: Readonly<Record<string, number>>;
  };
  readonly files: readonly BackupFile[];
}

export type Contents = Omit<Manifest, 'format'>;

const digestOf = (manifest: unknown) => createHash('sha256').update(JSON.stringify(manifest)).digest('hex');

/** Reads the backup's files first. @throws StartupError if a checksum differs */
export async function writeManifest(folder: string, contents: Contents): Promise<Manifest> {
  const manifest: Manifest = { format: FORMAT, ...contents };
  await checkFiles(folder, manifest);
  const text = `${JSON.stringify({ manifest, sha256: digestOf(manifest) }, null, 2)}\n`;
  const path = join(folder, NAME);
  await writeFile(`${path}.new`, text, { mode: 0o600, flag: 'wx', flush: true });
  await rename(`${path}.new`, path);
  return manifest;
}

export async function readManifest(folder: string): Promise<Manifest> {
  const text = await readFile(join(folder, NAME), 'utf8').catch((error: NodeJS.ErrnoException) => {
    const why =
      error.code === 'ENOENT' ? 'has no manifest: it is no backup, or an unfinished one' : "can't be read";
    throw new StartupError(`${folder} ${why} (${error.code}).`);
  });
  const { manifest, sha256 } = parse(text) ?? {};
  if (manifest === undefined || sha256 !== digestOf(manifest))
    throw new StartupError(`${join(folder, NAME)} is damaged. Nothing was restored.`);
  if (manifest.format !== FORMAT)
    throw new StartupError(`wishmeter ${manifest.wishmeter} made this backup: restore it with that version.`);
  return manifest;
}

/** @throws StartupError for the first damaged file */
export async function checkFiles(
  folder: string,
  { files }: Pick<Manifest, 'files'>,
  onFile: (name: string) => void = () => {},
): Promise<void> {
  for (const { name, bytes, sha256 } of files) {
    onFile(name);
    const path = join(folder, name);
    const found = await sumOf(path).catch((error: NodeJS.ErrnoException) => {
      throw new StartupError(`${path} of the backup can't be read (${error.code}).`);
    });
    if (found.bytes !== bytes || found.sha256 !== sha256)
      throw new StartupError(`${path} of the backup is damaged: its checksum is not that of the manifest.`);
  }
}

export function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function parse(text: string): { manifest?: Manifest; sha256?: string } | undefined {
  try {
    return JSON.parse(text) as { manifest?: Manifest; sha256?: string };
  } catch {
    return undefined;
  }
}
