// Reads the environment into a frozen Config. Errors never contain a value, because it may be a key.

import { StartupError } from './errors.js';
import { OCCASIONAL, RARE, USUAL } from './setting-groups.js';
import { isServiceLink, unquoted } from './setting-values.js';

export const SETTING_GROUPS = { usual: USUAL, occasional: OCCASIONAL, rare: RARE };
export const SETTINGS = { ...USUAL, ...OCCASIONAL, ...RARE };
export const ALL_SETTINGS = Object.keys(SETTINGS) as readonly SettingName[];

type Parsed = { readonly [K in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[K]['parse']> };
export interface Config extends Parsed {}
export type SettingName = keyof Config;
export type VisitAccess = Config['VISIT_ACCESS'];

/** @param fallbacks override defaults of settings @throws StartupError that lists every wrong setting */
export function readConfig<Name extends SettingName = SettingName>(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly Name[] = ALL_SETTINGS as readonly Name[],
  fallbacks: Readonly<Record<string, string>> = {},
): Pick<Config, Name> {
  const config: Record<string, unknown> = {};
  const mistakes: string[] = [];
  for (const name of names) {
    const { fallback, parse } = SETTINGS[name];
    try {
      const given = (env[name] ?? '').trim();
      config[name] = parse(
        isServiceLink(name, given) ? fallback : unquoted(given) || (fallbacks[name] ?? fallback),
      );
    } catch (error) {
      mistakes.push(`${name} ${(error as Error).message}`);
    }
  }
  const { SHOPIFY_SECRET = [], SHOP_DOMAIN } = config as Partial<Config>;
  if (SHOPIFY_SECRET.length > 0 && SHOP_DOMAIN === '')
    mistakes.push(
      'SHOP_DOMAIN must be set with SHOPIFY_SECRET, like shop.myshopify.com, because every shop of the app signs with that secret',
    );
  if (mistakes.length > 0) throw new StartupError(`Wrong settings: ${mistakes.join('; ')}.`);
  if ('SHOP_URL' in config && 'PORT' in config && !env['SHOP_URL']?.trim())
    config['SHOP_URL'] = `http://localhost:${config['PORT']}`;
  return Object.freeze(config) as unknown as Pick<Config, Name>;
}
