// The texts of `wishmeter help` and of a command's `--help`.

import { ALL_SETTINGS, SETTINGS, type SettingName } from '../config.js';
import { COMMAND_LINES, type CommandLine, type CommandName } from './command-line.js';

const COLUMNS = 80;

export function usage(): string {
  const rows = [
    ...Object.entries(COMMAND_LINES).map(([name, { about }]) => [name, about]),
    ['help', 'prints this list, and every setting'],
    ['--version', 'prints the version of this program'],
  ];
  return `Usage: wishmeter <command>\n\n${table(rows)}\n\nwishmeter <command> --help prints its arguments, its settings and an example.\n`;
}

export function help(): string {
  return `${usage()}\n${settingsTable(ALL_SETTINGS)}`;
}

export function helpOf(name: CommandName): string {
  const line: CommandLine = COMMAND_LINES[name];
  const { about, example, settings } = line;
  const head = `Usage: wishmeter ${usageOf(name, line)}\n\n  ${about}\n\nExample:\n\n  ${example}\n\n`;
  return head + settingsTable(settings, line);
}

function usageOf(name: string, { options = {}, operands }: CommandLine): string {
  const all = Object.entries(options).map(
    ([option, { value }]) => `[--${option}${value ? ` ${value}` : ''}]`,
  );
  return [name, ...all, operands].filter(Boolean).join(' ');
}

function settingsTable(
  names: readonly SettingName[],
  { fallbacks = {}, ifEmpty = {} }: Pick<CommandLine, 'fallbacks' | 'ifEmpty'> = {},
): string {
  const rows = ALL_SETTINGS.filter((name) => names.includes(name)).map((name) => {
    const fallback = fallbacks[name] ?? SETTINGS[name].fallback;
    const { about } = SETTINGS[name];
    const own = ifEmpty[name as keyof typeof ifEmpty];
    const text = own === undefined ? about : about.replace(/(?<=; if empty, ).*/s, own);
    return [name, text.replaceAll('`', ''), fallback && `(${fallback})`];
  });
  return `Settings come from the environment:\n\n${table(rows)}\n`;
}

function table(rows: readonly (readonly string[])[]): string {
  const width = Math.max(...rows.map(([first = '']) => first.length));
  const line = new RegExp(`(.{1,${COLUMNS - width - 4}})(?: |$)`, 'g');
  const newLine = `\n${' '.repeat(width + 4)}`;
  return rows
    .map(([first = '', ...rest]) => {
      const text = rest.filter(Boolean).join(' ').replace(line, `$1${newLine}`).trimEnd();
      return `  ${first.padEnd(width)}  ${text}`;
    })
    .join('\n');
}
