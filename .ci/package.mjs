// `make package`: what runs in production, as one file for npm. `node .ci/package.mjs <folder> [--old-glibc]` leaves
// <folder>/wishmeter-<version>.tgz there and prints its path. It has one package of uWebSockets.js, the newest (glibc 2.38);
// with --old-glibc the one for systems before Debian 13 and Ubuntu 24.04, where Node 24 has none.
//
// npm decides which files of ours go in, by `files` in package.json. What is added here:
// - the packages that production needs, of the versions in package-lock.json: the installation asks no registry;
// - of uWebSockets.js only the binaries for PLATFORMS and ABIS, of Swagger UI only what /docs loads. As published the two
//   are 145 MB.
// Left out: what tests and builds need, and chdb. chdb is optional, has 540 MB, and npm fetches it unless told
// --omit=optional.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '..');
const PLATFORMS = ['linux_x64', 'linux_arm64'];
/** NODE_MODULE_VERSION of Node 20, 22 and 24. */
const ABIS = [115, 127, 137];
const BINARIES = new Set(PLATFORMS.flatMap((platform) => ABIS.map((abi) => `uws_${platform}_${abi}.node`)));
const isOurs = (path) => !path.endsWith('.node') || BINARIES.has(path.replace('dist/bin/', ''));
const NEWEST_UWS = '@btc-vision/uwebsockets.js';
const OLD_GLIBC_UWS = 'uWebSockets.js';
/** What of these packages is needed: a path in the package -> whether to keep it. */
const KEPT = {
  [NEWEST_UWS]: isOurs,
  [OLD_GLIBC_UWS]: isOurs,
  'swagger-ui-dist': (path) =>
    /^(package\.json|LICENSE|NOTICE|swagger-ui\.css|swagger-ui-bundle\.js(\.LICENSE\.txt)?)$/.test(path),
};

const readJson = (file) => JSON.parse(readFileSync(join(ROOT, file), 'utf8'));
const npm = (cwd, ...args) =>
  execFileSync('npm', [...args, '--json', '--ignore-scripts', '--loglevel=error'], { cwd, encoding: 'utf8' });

const [folder = 'dist', option] = process.argv.slice(2);
const isForOldGlibc = option === '--old-glibc';
const leftOut = isForOldGlibc ? NEWEST_UWS : OLD_GLIBC_UWS;
const target = resolve(folder);
mkdirSync(target, { recursive: true });
const stage = mkdtempSync(join(tmpdir(), 'wm-package-'));
try {
  const [{ files }] = JSON.parse(npm(ROOT, 'pack', '--dry-run'));
  for (const { path } of files) copy(path);
  for (const path of productionPackages()) copyPackage(path);
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(manifest(), null, 2)}\n`);
  const [{ filename }] = JSON.parse(npm(stage, 'pack', `--pack-destination=${target}`));
  console.log(join(target, filename));
} finally {
  rmSync(stage, { recursive: true, force: true });
}

function copy(path) {
  mkdirSync(dirname(join(stage, path)), { recursive: true });
  cpSync(join(ROOT, path), join(stage, path));
}

/** Folders of the packages that are neither for development nor optional, with one of those of uWebSockets.js. */
function productionPackages() {
  return Object.entries(readJson('package-lock.json').packages)
    .filter(([path, { dev, optional, devOptional }]) => path !== '' && !dev && !optional && !devOptional)
    .map(([path]) => path)
    .filter((path) => path !== `node_modules/${leftOut}`);
}

/** Packages inside it are in the list, too. */
function copyPackage(path) {
  const from = join(ROOT, path);
  const isKept = KEPT[path.replace('node_modules/', '')] ?? (() => true);
  cpSync(from, join(stage, path), {
    recursive: true,
    filter: (file) => {
      const inside = relative(from, file);
      if (statSync(file).isDirectory()) return inside !== 'node_modules';
      return !inside.endsWith('.map') && isKept(inside);
    },
  });
}

/** Ours, without what is for development. The binaries are for Linux with glibc, which npm checks. */
function manifest() {
  const { devDependencies: _, tap: __, files: ___, dependencies, ...rest } = readJson('package.json');
  const { [leftOut]: ____, ...kept } = dependencies;
  return {
    ...rest,
    ...(isForOldGlibc ? { engines: { node: '^20.12.0 || ^22.0.0' } } : {}),
    dependencies: kept,
    os: ['linux'],
    cpu: ['x64', 'arm64'],
    libc: ['glibc'],
    bundleDependencies: Object.keys(kept),
  };
}
