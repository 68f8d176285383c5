// Log notes on misspelt settings, unread settings, and variables of Kubernetes.

import { ALL_SETTINGS, type SettingName } from '../config.js';
import { isServiceLink } from '../setting-values.js';

export interface SettingNote {
  readonly level: 'info' | 'warn';
  readonly message: string;
  /** Only the names of settings, because values may be secret. */
  readonly settings: readonly string[];
}

/** Shorter names resemble other variables (PORT, PATH). */
const SHORTEST_MISSPELT = 6;

export function notesOn(
  env: Readonly<Record<string, string | undefined>>,
  command: string,
  read: readonly SettingName[],
): SettingNote[] {
  const given = Object.keys(env)
    .filter((name) => env[name]?.trim())
    .sort();
  const isSetting = (name: string): name is SettingName => (ALL_SETTINGS as readonly string[]).includes(name);
  const settings = given.filter(isSetting);
  const links = settings.filter((name) => read.includes(name) && isServiceLink(name, env[name] as string));
  const unread = settings.filter((name) => !read.includes(name) && !isServiceLink(name, env[name] as string));
  const notes: SettingNote[] = given.filter((name) => !isSetting(name)).flatMap(misspelt);
  if (links.length > 0)
    notes.push({
      level: 'info',
      message: 'Kubernetes set these for a Service of that name; they count as not set',
      settings: links,
    });
  if (unread.length > 0)
    notes.push({ level: 'info', message: `${command} does not read these settings`, settings: unread });
  return notes;
}

function misspelt(name: string): SettingNote[] {
  if (name.length < SHORTEST_MISSPELT) return [];
  const meant = ALL_SETTINGS.find((setting) => isOneEditAway(setting, name.toUpperCase()));
  if (meant === undefined) return [];
  return [{ level: 'warn', message: `no setting has this name; is it ${meant}?`, settings: [name] }];
}

function isOneEditAway(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  const rest = (text: string, dropped: boolean) => text.slice(i + Number(dropped));
  return (
    rest(a, true) === rest(b, true) || rest(a, true) === rest(b, false) || rest(a, false) === rest(b, true)
  );
}
