// DATA_DIR: the append-only file has the salt and e-mail addresses, so only its owner may read it.

import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StartupError } from '../../errors.js';

/**
 * Makes the folder, or takes from all others the right to read one that is there.
 * @throws StartupError where it can't be had, or where others may write it: what is in it may be theirs.
 */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { mode } = await stat(folder);
    if ((mode & 0o022) !== 0) {
      throw new StartupError(
        `${folder} may be written by other users (mode ${(mode & 0o777).toString(8)}): look at what is in it, then \`chmod 700\` it, or set another DATA_DIR.`,
      );
    }
    if ((mode & 0o077) !== 0) await chmod(folder, 0o700);
    await rm(await mkdtemp(join(folder, '.probe-')), { recursive: true });
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError(
      `${folder} can't be made, written or kept from others (${(error as NodeJS.ErrnoException).code}); set another DATA_DIR.`,
    );
  }
}
