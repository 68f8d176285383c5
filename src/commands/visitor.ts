// `wishmeter erase` and `wishmeter export`: like DELETE and GET /profile.

import { ServiceError, StartupError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { readProfile, trust } from '../validation/requests.js';
import { UsageError } from './command-line.js';
import type { Program } from './program.js';
import { withRights, writeExport } from './rights.js';

export function erase(program: Program<'erase'>): Promise<number> {
  const identity = readIdentity('erase', program.options);
  return withRights(program, async ({ findNamed, eraser }) => {
    const erased = await eraser.eraseNamed(await findNamed(identity));
    program.stdout.write(`${JSON.stringify({ erased })}\n`);
  });
}

export function exportVisitor(program: Program<'export'>): Promise<number> {
  const identity = readIdentity('export', program.options);
  return withRights(program, async ({ findNamed, exporter }) => {
    const found = await exporter.exportNamed(await findNamed(identity));
    if (found === undefined) throw new StartupError('Nothing is kept of such a visitor.');
    await writeExport(program.stdout, found);
  });
}

function readIdentity(command: string, { customer, session, email }: Program<'erase'>['options']): Identity {
  const given = new Map(Object.entries({ customerId: customer, sessionId: session, email }));
  try {
    return trust(readProfile(undefined, given).identity);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const faults = error.issues?.map(({ path, message }) => `${path.slice(1)} ${message}`.trim()).join('; ');
    throw new UsageError(`${command} needs --customer, --session or --email: ${faults}.`);
  }
}
