// Keys and signatures are compared in constant time: an answer that comes sooner for a worse guess would tell a
// stranger how much of it was right. No request can show that reliably, so this reads the source.

import { readdirSync, readFileSync } from 'node:fs';
import t from 'tap';
import { KeyRing } from '../../src/key-ring.js';

const FOLDER = new URL('../../../src/http/', import.meta.url);

/** A source without its comments and imports. */
const code = (file: string) =>
  readFileSync(new URL(file, FOLDER), 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/^import .*$/gm, '');

const files = readdirSync(FOLDER).filter((name) => name.endsWith('.ts'));
const COMPARES = ['../key-ring.ts', 'proxy-signature.ts', 'webhook.ts'];

t.test('each compares digests by timingSafeEqual, once, and in no other way', async (t) => {
  for (const file of COMPARES) {
    t.equal(code(file).match(/\btimingSafeEqual\(/g)?.length, 1, file);
    t.notMatch(code(file), /\.(equals|compare|localeCompare)\(/, file);
  }
});

t.test('a digest or a signature is never an operand of ===, nor found by a look-up', async (t) => {
  for (const file of COMPARES) {
    t.notMatch(code(file), /\b(known|presented|given|expected|signature|digest)\)? [!=]==? (?!'')/, file);
    t.notMatch(
      code(file),
      /[!=]==? (known|presented|given|expected|signature|sign|digest|createHmac)\b(?!\.length)/,
      file,
    );
    t.notMatch(code(file), /\b(has|includes|indexOf)\((key|presented|signature|given)\b/, file);
  }
});

t.test('of several keys all are compared, whichever it is', async (t) => {
  const find = /find\(key[\s\S]*?\n {2}\}/.exec(code('../key-ring.ts'))?.[0] ?? '';
  t.match(find, /for \(/);
  t.equal(find.match(/\breturn\b/g)?.length, 1, 'it returns at its end alone');
  t.notMatch(find, /\bbreak\b/);
});

t.test('a signature is compared under each of several secrets, whichever it is', async (t) => {
  for (const file of COMPARES.slice(1)) {
    t.match(code(file), /secrets\.filter\(/, file);
    t.notMatch(code(file), /secrets\.(some|every|find\w*|includes)\(/i, file);
  }
});

t.test('a key that is remembered is compared to its last character', async (t) => {
  const source = code('../key-ring.ts');
  for (const name of ['#recall\\(key: string', 'function isSame\\(']) {
    const body = new RegExp(`${name}[\\s\\S]*?\\n(?: {2})?\\}\\n`).exec(source)?.[0] ?? '';
    t.match(body, /for \(/);
    t.equal(body.match(/\breturn\b/g)?.length, 1, `${name} returns at its end alone`);
    t.notMatch(body, /\b(break|continue)\b/);
  }
  t.notMatch(source, /\b(text|key) [!=]== (?!undefined)/);
});

t.test('only what digests prove right is remembered', async (t) => {
  const ring = new KeyRing(['sk_one', 'sk_two']);
  for (const key of ['sk_twO', 'sk_two', 'sk_two', 'sk_twO', 'sk_one', 'sk_on', 'sk_onee', ''])
    t.equal(ring.find(key), { sk_one: 0, sk_two: 1 }[key], `"${key}"`);
});

t.test(
  'nothing else in src/http makes digests of secrets to compare them, or compares keys itself',
  async (t) => {
    for (const file of files.filter((name) => !COMPARES.includes(name))) {
      t.notMatch(code(file), /createHmac\(|timingSafeEqual\(/, file);
      t.notMatch(code(file), /(apiKey|bearer|token|secret)\w* [!=]== (?!''|undefined|null)/i, file);
    }
  },
);
