// `wishmeter requests`: lists compliance requests, answers and closes data requests, and confirms a shop's erasure, or
// closes it undone: the shop may have left one app for another. `serve` executes erasures.

import { StartupError } from '../errors.js';
import {
  type ComplianceRequest,
  isDataRequest,
  isUnconfirmed,
  type OpenRequest,
} from '../extras/privacy/compliance.js';
import { UsageError } from './command-line.js';
import type { Program } from './program.js';
import { withRights, writeExport } from './rights.js';

/** Which requests an action is for. */
const ALLOWED: Readonly<Record<string, (request: ComplianceRequest) => boolean>> = {
  export: isDataRequest,
  done: (request) => isDataRequest(request) || isUnconfirmed(request),
  confirm: isUnconfirmed,
};
const USAGE = 'requests takes list, export <id>, done <id> or confirm <id>.';

export function requests(program: Program<'requests'>): Promise<number> {
  const [action = 'list', id, ...more] = program.operands;
  if ((action !== 'list' && !Object.hasOwn(ALLOWED, action)) || more.length > 0) throw new UsageError(USAGE);
  if ((action === 'list') !== (id === undefined) || (id !== undefined && !/^\d{1,15}$/.test(id)))
    throw new UsageError(USAGE);
  const { stdout } = program;
  return withRights(program, async ({ compliance, exporter }) => {
    const open = await compliance.list();
    if (id === undefined) {
      for (const one of open) stdout.write(`${JSON.stringify(describe(one))}\n`);
      return;
    }
    const found = open.find((one) => one.id === id);
    if (found === undefined) throw new StartupError(`There is no open request ${id}.`);
    if (!ALLOWED[action]?.(found.request))
      throw new StartupError(
        action === 'confirm'
          ? `Request ${id} needs no confirmation.`
          : `Request ${id} is an erasure: it is closed when all is erased.`,
      );
    if (action !== 'export') {
      const changed = action === 'done' ? undefined : { ...found.request, confirmedAt: Date.now() };
      if ((await compliance.update(found, changed)) === undefined)
        throw new StartupError(`Request ${id} was changed meanwhile; try again.`);
      stdout.write(action === 'done' ? '1 done\n' : '1 confirmed\n');
      return;
    }
    const { customerId, email } = found.request;
    const visitors = await exporter.exportRequested(customerId, email);
    await writeExport(stdout, visitors, `{"request":${JSON.stringify(describe(found))},"visitors":`, '}');
  });
}

function describe({ id, request }: OpenRequest): object {
  const { kind, at, shop, customerId, email, orders, dataRequestId } = request;
  return {
    id,
    kind,
    at: new Date(at).toISOString(),
    state: stateOf(id, request),
    shop,
    customerId,
    hasEmail: email !== null,
    orders,
    dataRequestId,
  };
}

function stateOf(id: string, request: ComplianceRequest): string {
  const { erased, profiles } = request;
  if (isUnconfirmed(request)) return `waits for \`wishmeter requests confirm ${id}\``;
  if (isDataRequest(request))
    return erased ? 'to be answered; the visitor was erased since' : 'to be answered';
  if (erased) return 'erased from Redis, waits for ClickHouse';
  return profiles !== undefined ? 'is being erased' : 'waits';
}
