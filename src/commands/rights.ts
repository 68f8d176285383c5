// Shared by the commands `erase`, `export` and `requests`.

import { pipeline } from 'node:stream/promises';
import { ServiceError, StartupError } from '../errors.js';
import type { Export } from '../extras/privacy/export-text.js';
import { openRights, type Rights } from '../extras/privacy/rights.js';
import { redisUrls, serviceClickHouse } from './embedded-databases.js';
import type { Program } from './program.js';

export async function withRights(
  { config, log }: Program<'requests' | 'export' | 'erase'>,
  act: (rights: Rights) => Promise<void>,
): Promise<number> {
  const rights = await openRights(config, log, redisUrls(config), serviceClickHouse(config));
  try {
    await act(rights);
    return 0;
  } catch (error) {
    if (error instanceof ServiceError) throw new StartupError(error.message);
    throw error;
  } finally {
    await rights.close();
  }
}

export async function writeExport(
  stdout: Program<'export'>['stdout'],
  text: Export,
  before = '',
  after = '',
): Promise<void> {
  const all = async function* () {
    yield before;
    yield* text;
    yield `${after}\n`;
  };
  try {
    await pipeline(all, stdout, { end: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  } finally {
    text.close();
  }
}
