// What `wishmeter help` prints: the commands, and every setting with what it is when not given.

import { SETTINGS } from '../config.js';

export interface CommandLine {
  /** The command with its arguments. */
  readonly usage: string;
  readonly about: string;
}

/** The short form, for mistakes on the command line. */
export function usage(commands: readonly CommandLine[]): string {
  return `Usage: wishmeter <command>\n\n${table(commands.map(({ usage, about }) => [usage, about]))}\n`;
}

/** Commands and settings. */
export function help(commands: readonly CommandLine[]): string {
  const settings = Object.entries(SETTINGS).map(([name, { fallback, about }]) => [
    name,
    about.replaceAll('`', ''),
    fallback && `(${fallback})`,
  ]);
  return `${usage(commands)}\nSettings come from the environment:\n\n${table(settings)}\n`;
}

function table(rows: readonly (readonly string[])[]): string {
  const width = Math.max(...rows.map(([first = '']) => first.length));
  return rows
    .map(([first = '', ...rest]) => `  ${first.padEnd(width)}  ${rest.filter(Boolean).join(' ')}`)
    .join('\n');
}
