// What `wishmeter help` and `--help` print: the commands, each with its settings and an example, and what settings are
// when not given.

import { ALL_SETTINGS, SETTINGS, type SettingName } from '../config.js';
import { COMMAND_LINES, type CommandLine, type CommandName } from './command-line.js';

const COMMANDS: ReadonlyMap<string, CommandLine> = new Map(Object.entries(COMMAND_LINES));

/** The short form, for mistakes on the command line. */
export function usage(): string {
  const commands = [...COMMANDS].map(([name, line]) => [usageOf(name, line), line.about]);
  const help = ['help [command]', 'this, and every setting; <command> --help has its own and an example'];
  return `Usage: wishmeter <command>\n\n${table([...commands, help, ['--version', 'of this program']])}\n`;
}

/** Commands and settings. */
export function help(): string {
  return `${usage()}\n${settingsTable(ALL_SETTINGS)}`;
}

export function helpOf(name: CommandName): string {
  const line: CommandLine = COMMAND_LINES[name];
  const { about, example, settings, fallbacks } = line;
  const head = `Usage: wishmeter ${usageOf(name, line)}\n\n  ${about}\n\nExample:\n\n  ${example}\n\n`;
  return head + settingsTable(settings, fallbacks);
}

function usageOf(name: string, { options = {}, operands }: CommandLine): string {
  const all = Object.entries(options).map(
    ([option, { value }]) => `[--${option}${value ? ` ${value}` : ''}]`,
  );
  return [name, ...all, operands].filter(Boolean).join(' ');
}

/** In the order of docs/settings.md. */
function settingsTable(names: readonly SettingName[], fallbacks: CommandLine['fallbacks'] = {}): string {
  const rows = ALL_SETTINGS.filter((name) => names.includes(name)).map((name) => {
    const fallback = fallbacks[name] ?? SETTINGS[name].fallback;
    return [name, SETTINGS[name].about.replaceAll('`', ''), fallback && `(${fallback})`];
  });
  return `Settings come from the environment:\n\n${table(rows)}\n`;
}

function table(rows: readonly (readonly string[])[]): string {
  const width = Math.max(...rows.map(([first = '']) => first.length));
  return rows
    .map(([first = '', ...rest]) => `  ${first.padEnd(width)}  ${rest.filter(Boolean).join(' ')}`)
    .join('\n');
}
