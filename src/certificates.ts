// Explains errors of a server's certificate to the operator.

/** https://nodejs.org/api/tls.html#x509-certificate-error-codes */
const FAULTS: Readonly<Record<string, string>> = {
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name; use that name in the URL',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  CERT_UNTRUSTED: 'its certificate is not trusted',
  CERT_REJECTED: 'its certificate is rejected',
  CERT_SIGNATURE_FAILURE: 'the signature of its certificate is wrong',
  HOSTNAME_MISMATCH: 'its certificate is for another name; use that name in the URL',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS at this port; use a URL without TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS at this port; use a URL without TLS',
};

/** Codes for a certificate of an authority that Node doesn't know: it trusts public ones only. */
const UNKNOWN_AUTHORITY = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

export function certificateFault(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  if (typeof code !== 'string') return undefined;
  const fault = UNKNOWN_AUTHORITY.has(code)
    ? "its certificate is of an authority that Node does not know; set NODE_EXTRA_CA_CERTS to the file of the authority's certificate"
    : FAULTS[code];
  return fault && `${fault} (${code})`;
}
