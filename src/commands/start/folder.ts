// Creates DATA_DIR. Only its owner may read it, because the append-only file has the salt and e-mail addresses.

import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { StartupError } from '../../errors.js';

/** @throws StartupError, also if other users may write to the folder: its content may be theirs */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await makeWithParents(resolve(folder));
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

/** `mkdir` with `recursive` never returns below a folder that allows no subfolders, such as /proc. */
async function makeWithParents(folder: string): Promise<void> {
  const parent = dirname(folder);
  if (parent !== folder && !(await isThere(parent))) await makeWithParents(parent);
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
}

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );
