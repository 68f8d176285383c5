// Makes replicated tables of the embedded ClickHouse writable. A replica is active only if it has an address
// from which others may fetch its parts, and in a library `Context::getInterserverIOAddress` throws. This
// file replaces the function, in memory, by one that returns 127.0.0.1:9009, where no process listens: so
// parts are still not fetched, and a queue of replication must not run.

import { closeSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';

/** The first bytes of the function in chdb 3.x for x64. The library must have them exactly once. */
const BEGINS = Buffer.from(
  '4156534883ec484c8b36490fbe8e670100004885c9498b96580100004889c8480f48c24885c07454410fb78668010000',
  'hex',
);

/** Fills the pair of host, a short text, and port, whose memory the caller provides, and returns its address. */
const INSTEAD = Buffer.from(
  [
    '48b83132372e302e302e', // mov rax, "127.0.0."
    '488907', // mov [rdi], rax
    '48c7470831000000', // mov qword [rdi + 8], "1"
    '48b80000000000000009', // mov rax, 9 << 56: its length, in the text's last byte
    '48894710', // mov [rdi + 16], rax
    '66c747183123', // mov word [rdi + 24], 9009
    '4889f8', // mov rax, rdi
    'c3', // ret
  ].join(''),
  'hex',
);

/** Why the replacement is impossible on this machine; undefined if it is possible. */
export const notHere =
  process.platform === 'linux' && process.arch === 'x64' ? undefined : 'knows chdb for linux-x64 only';

/** Call it after chdb is loaded. @throws if this is another chdb than this file knows */
export function makeReplicasWritable(): void {
  const [first] = readFileSync('/proc/self/maps', 'utf8').match(/^.*libchdb\.so$/m) ?? [];
  if (first === undefined) throw new Error('chdb is not loaded');
  const library = readFileSync(first.slice(first.indexOf('/')));
  const offset = library.indexOf(BEGINS);
  if (offset < 0 || library.indexOf(BEGINS, offset + 1) >= 0)
    throw new Error('this chdb is not the one whose function is known: see test/replicas/writable.ts');
  const address = Number.parseInt(first, 16) + addressOf(library, offset);
  const memory = openSync('/proc/self/mem', 'r+');
  try {
    const there = Buffer.alloc(BEGINS.length);
    readSync(memory, there, 0, there.length, address);
    if (!there.equals(BEGINS)) throw new Error('chdb is loaded elsewhere than was reckoned');
    writeSync(memory, INSTEAD, 0, INSTEAD.length, address);
  } finally {
    closeSync(memory);
  }
}

/** The address of a byte of an ELF file in memory, relative to the first byte of the library. */
function addressOf(elf: Buffer, offset: number): number {
  const [at, size, count] = [Number(elf.readBigUInt64LE(32)), elf.readUInt16LE(54), elf.readUInt16LE(56)];
  for (let i = 0; i < count; i++) {
    const header = elf.subarray(at + i * size);
    const [type, from, to, length] = [
      header.readUInt32LE(0),
      Number(header.readBigUInt64LE(8)),
      Number(header.readBigUInt64LE(16)),
      Number(header.readBigUInt64LE(32)),
    ];
    if (type === 1 && offset >= from && offset < from + length) return offset - from + to;
  }
  throw new Error('no segment has this byte');
}
