// Finds customers by e-mail address, from a file such as a shop's customer export.

import { StartupError } from '../../errors.js';
import { isCustomerId, normaliseEmail, normaliseId } from '../../identity-rules.js';
import { EMAIL_NAMES } from './columns.js';
import { type Input, readRecords } from './records.js';
import { plainId } from './row.js';

export type CustomerOf = (email: string) => { readonly id: string } | { readonly fault: string };

export const NO_CUSTOMERS: CustomerOf = (email) => ({
  fault: `only an e-mail address names the visitor, ${email}: --emails <file> says whose it is`,
});

/** An address that two customers share leads to neither. Each address takes 150 B of memory. @throws StartupError */
export async function readEmails(input: Input): Promise<CustomerOf> {
  const customers = new Map<string, string | undefined>();
  const records = readRecords(input, EMAIL_NAMES, ({ found }) => {
    for (const field of ['email', 'customerId'] as const)
      if (!found.has(field)) throw new StartupError(`${input.name} has no column ${field}.`);
  });
  for await (const { values } of records) {
    const email = normaliseEmail(String(values.email ?? ''));
    const id = normaliseId(String(plainId(values.customerId) ?? ''));
    if (!email?.includes('@') || !isCustomerId(id)) continue;
    const before = customers.get(email);
    customers.set(email, customers.has(email) && before !== id ? undefined : id);
  }
  if (customers.size === 0) throw new StartupError(`${input.name} names no customer by an e-mail address.`);
  return (email) => {
    const address = normaliseEmail(email) ?? '';
    const id = customers.get(address);
    if (id !== undefined) return { id };
    const why = customers.has(address) ? 'two customers have it' : 'no customer has it';
    return { fault: `${why} in ${input.name}: ${email}` };
  };
}
