// Parses the texts of settings. Errors never repeat the value, because it may be a key.

type Check = RegExp | ((value: string) => boolean);

const passes = (value: string, check: Check) => (check instanceof RegExp ? check.test(value) : check(value));

/**
 * If there is a Service `clickhouse`, Kubernetes sets CLICKHOUSE_PORT=tcp://10.0.0.7:8123 in every container.
 * https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
 */
export function isServiceLink(name: string, given: string): boolean {
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(given);
}

/** @throws if the value is in quotes, which `docker run --env-file` and Kubernetes keep */
export function unquoted(given: string): string {
  if (/^(["']).*\1$/s.test(given)) throw new Error('must not be in quotes, which would be part of the value');
  return given;
}

export function text(check: Check, sentence: string) {
  return (given: string): string => {
    if (given !== '' && !passes(given, check)) throw new Error(sentence);
    return given;
  };
}

export function list(check: Check, sentence: string) {
  return (given: string): readonly string[] => {
    const values = given.split(',').map((value) => value.trim());
    const found = Object.freeze(values.filter((value) => value !== ''));
    if (!found.every((value) => passes(unquoted(value), check))) throw new Error(sentence);
    return found;
  };
}

export function integer(min: number, max: number) {
  return (given: string): number => {
    const n = /^(0|[1-9]\d{0,14})$/.test(given) ? Number(given) : Number.NaN;
    if (!(n >= min && n <= max)) throw new Error(`must be a whole number from ${min} to ${max}`);
    return n;
  };
}

export function oneOf<const T extends string>(...allowed: T[]) {
  return (given: string): T => {
    if (!allowed.includes(given as T)) throw new Error(`must be one of ${allowed.join(', ')}`);
    return given as T;
  };
}

export function isUrl(...schemes: readonly string[]) {
  return (value: string): boolean => {
    if (!URL.canParse(value)) return false;
    const { protocol, hostname } = new URL(value);
    return schemes.includes(protocol) && /^[^,*]+$/.test(hostname);
  };
}

const isWeb = isUrl('http:', 'https:');
export const isOrigin = (value: string): boolean => isWeb(value) && new URL(value).origin === value;
/** `*.` stands for all subdomains. */
export const isHost = (value: string): boolean =>
  /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/.test(value);
export const anything = (given: string): string => given;
export const port = integer(0, 65_535);
export const identifier = text(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, 'must be letters, digits and _');
export const webUrl = text(isWeb, 'must be http://host or https://host');

export function shopAddress(given: string): string {
  if (!isWeb(given) || /[?#]/.test(given)) throw new Error('must be like https://shop.example');
  return given.replace(/\/+$/, '');
}

export function shopDomain(given: string): string {
  if (!/^([a-z0-9][a-z0-9-]*\.myshopify\.com)?$/i.test(given))
    throw new Error('must be like shop.myshopify.com');
  return given.toLowerCase();
}

export function addressWith(placeholder: string) {
  return text(
    (value) => isWeb(value) && value.includes(placeholder),
    `must be like https://shop.example/${placeholder}`,
  );
}

export interface NamedToken {
  readonly name: string;
  readonly token: string;
}

export function logins(given: string): readonly NamedToken[] {
  const pairs = list(
    /^[A-Za-z0-9._-]{1,64}:[\x21-\x7e]{16,255}$/,
    'must be like anna:<token>,ben:<token>: names of A-Z a-z 0-9 . _ -, tokens of 16 to 255 visible characters without a comma',
  )(given);
  const found = pairs.map((pair) => {
    const colon = pair.indexOf(':');
    return Object.freeze({ name: pair.slice(0, colon), token: pair.slice(colon + 1) });
  });
  if (new Set(found.map(({ token }) => token)).size < found.length)
    throw new Error('must have another token for each login');
  return Object.freeze(found);
}

export function proxies(given: string): number {
  if (given === 'true' || given === 'false') return given === 'true' ? 1 : 0;
  return integer(0, 16)(given);
}

export function visitDays(given: string): number {
  const days = integer(0, 36_500)(given);
  if (days > 0 && days < 10) throw new Error('must be 0 or a whole number from 10 to 36500');
  return days;
}

export function currency(given: string): string {
  if (!/^([A-Za-z]{3})?$/.test(given)) throw new Error('must be three letters, like EUR');
  return given.toUpperCase();
}

/** @returns the canonical spelling, because ClickHouse is case-sensitive */
export function timeZone(given: string): string {
  try {
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: given }).resolvedOptions();
    if (/^[A-Za-z][\w+/-]*$/.test(given))
      return timeZone.toLowerCase() === given.toLowerCase() ? timeZone : given;
  } catch {}
  throw new Error('must be the name of a time zone, like Europe/Berlin');
}
