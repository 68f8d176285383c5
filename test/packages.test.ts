// Packages: what is installed is what was looked at. Versions are exact, the lock file has all of them with their
// digests, and none of ours needs a script at its installation. (test/docs.test.ts: each is named with its why.)

import { readFileSync } from 'node:fs';
import t from 'tap';

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const ROOT = new URL('../../', import.meta.url);
const readJson = (file: string) => JSON.parse(readFileSync(new URL(file, ROOT), 'utf8'));
const manifest = readJson('package.json');
const lock = readJson('package-lock.json') as { packages: Readonly<Record<string, Locked>> };
const { '': root, ...packages } = lock.packages;
const { dependencies, optionalDependencies, devDependencies } = manifest;
const asked: Readonly<Record<string, string>> = {
  ...dependencies,
  ...optionalDependencies,
  ...devDependencies,
};

t.test('every version that package.json asks for is exact, and is the one that is locked', (t) => {
  for (const [name, wanted] of Object.entries(asked)) {
    t.match(wanted, /^(npm:[@a-z/-]+@)?\d+\.\d+\.\d+$/, name);
    t.equal(packages[`node_modules/${name}`]?.version, wanted.replace(/^npm:.*@/, ''), name);
  }
  t.match(root, { dependencies, optionalDependencies, devDependencies });
  t.end();
});

t.test('the lock file has a digest of every package, and no address of a registry', (t) => {
  for (const [path, { integrity, resolved, optional, os }] of Object.entries(packages)) {
    t.equal(resolved, undefined, path);
    // Binaries for other systems than this one's, which its registry may not have: npm checks them against
    // their registry's digest when it installs them, and never installs them here.
    const isElsewhere = optional === true && os !== undefined && !isHere(path);
    if (integrity !== undefined || !isElsewhere) t.match(integrity, /^sha512-[A-Za-z0-9+/]{86}==$/, path);
  }
  t.end();
});

t.test('the lock file is complete: whatever a package needs is in it', (t) => {
  for (const [path, { dependencies, optionalDependencies }] of Object.entries(packages)) {
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies }))
      t.ok(isFound(path, name), `${path} finds ${name}`);
  }
  t.end();
});

t.test('chdb, which only the embedded database needs, is the one optional package', (t) => {
  t.same(Object.keys(optionalDependencies), ['chdb']);
  t.equal(packages['node_modules/chdb']?.optional, true);
  t.end();
});

t.test('packages are installed without running scripts of theirs, and only these have one', (t) => {
  const scripted = Object.entries(packages).filter(
    ([, { hasInstallScript, dev }]) => hasInstallScript && !dev,
  );
  // Scarf's, which swagger-ui-dist brings, would report the installation: package.json also switches it off.
  // chdb's is `node -e ""`: it does nothing.
  t.same(
    scripted.map(([path]) => path),
    ['node_modules/@scarf/scarf', 'node_modules/chdb'],
  );
  t.same(manifest.scarfSettings, { enabled: false });
  t.match(readFileSync(new URL('Makefile', ROOT), 'utf8'), 'npm ci --ignore-scripts');
  t.end();
});

/** Whether a package is for this machine: its folder is there. */
function isHere(path: string): boolean {
  try {
    readFileSync(new URL(`${path}/package.json`, ROOT));
    return true;
  } catch {
    return false;
  }
}

/** As Node looks: in the package's own node_modules, and then in each above it. */
function isFound(path: string, name: string): boolean {
  for (let from = path; ; from = from.slice(0, Math.max(from.lastIndexOf('/node_modules/'), 0))) {
    if (`${from === '' ? '' : `${from}/`}node_modules/${name}` in packages) return true;
    if (from === '') return false;
  }
}
