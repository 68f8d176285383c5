// A certificate for a test, made by openssl and signed by an authority of its own.

import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';

export interface TestCertificate {
  readonly authority: string;
  readonly certificate: string;
  readonly key: string;
}

/** @param subject the name that the certificate is for, as `DNS:localhost` */
export async function makeCertificate(t: Pick<Test, 'teardown'>, subject: string): Promise<TestCertificate> {
  const dir = await mkdtemp(join(tmpdir(), 'wm-tls-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const at = (name: string) => join(dir, name);
  const openssl = (...args: string[]) => promisify(execFile)('openssl', args);
  const key = (name: string) =>
    openssl('genpkey', '-algorithm', 'EC', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-out', at(name));
  await Promise.all([key('ca.key'), key('redis.key'), writeFile(at('names'), `subjectAltName=${subject}\n`)]);
  const usual = ['-days', '2', '-subj', '/CN=test'];
  await openssl('req', '-x509', '-new', '-key', at('ca.key'), '-out', at('ca.pem'), ...usual);
  await openssl('req', '-new', '-key', at('redis.key'), '-out', at('redis.csr'), '-subj', '/CN=redis');
  const by = ['-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-days', '2'];
  const files = ['-in', at('redis.csr'), '-extfile', at('names'), '-out', at('redis.pem')];
  await openssl('x509', '-req', ...by, ...files);
  return { authority: at('ca.pem'), certificate: at('redis.pem'), key: at('redis.key') };
}
