// Tests that not every machine can run: they are skipped if a program is missing, and fail in CI, because
// nobody would notice there.

import { spawnSync } from 'node:child_process';

/**
 * Options of a test. @param missing why it can not run on this machine; undefined if it can. @throws in CI if
 * it can not
 */
export function needs(missing: string | undefined): { readonly skip?: string } {
  if (missing === undefined) return {};
  if (process.env['CI']) throw new Error(`${missing}; in CI no test is skipped`);
  return { skip: missing };
}

/**
 * Skips, also in CI, if the kernel refuses these namespaces, which no set-up can change. @param flags of
 * unshare(1)
 */
export function needsNamespaces(...flags: readonly string[]): { readonly skip?: string } {
  const mount = flags.includes('--mount') ? 'mount -t tmpfs tmpfs /tmp' : 'true';
  const { status } = spawnSync('unshare', [...flags, '--fork', '--mount-proc', 'sh', '-c', mount]);
  return status === 0 ? {} : { skip: `no namespaces here: ${flags.join(' ')}` };
}

export const needsProc = () => needs(process.platform === 'linux' ? undefined : 'reads /proc');

export function needsPrograms(...names: readonly string[]): { readonly skip?: string } {
  const lacking = names.filter((name) => spawnSync(name, ['--version']).error);
  return needs(lacking.length > 0 ? `no ${lacking.join(', ')} here` : undefined);
}
