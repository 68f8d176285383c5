// `wishmeter requests`: lists compliance requests, and answers and closes data requests. `serve` executes erasures.

import { StartupError } from '../errors.js';
import type { OpenRequest } from '../extras/privacy/compliance.js';
import { UsageError } from './command-line.js';
import type { Program } from './program.js';
import { withRights, writeExport } from './rights.js';

const USAGE = 'requests takes list, export <id> or done <id>.';

export function requests(program: Program<'requests'>): Promise<number> {
  const [action = 'list', id, ...more] = program.operands;
  if (!['list', 'export', 'done'].includes(action) || more.length > 0) throw new UsageError(USAGE);
  if ((action === 'list') !== (id === undefined) || (id !== undefined && !/^\d{1,15}$/.test(id)))
    throw new UsageError(USAGE);
  const { stdout } = program;
  return withRights(program, async ({ compliance, exporter }) => {
    const open = await compliance.list();
    if (id === undefined) {
      for (const one of open) stdout.write(`${JSON.stringify(describe(one))}\n`);
      return;
    }
    const found = dataRequest(open, id);
    if (action === 'done') {
      if ((await compliance.update(found, undefined)) === undefined)
        throw new StartupError(`Request ${id} was changed meanwhile; try again.`);
      stdout.write('1 done\n');
      return;
    }
    const { customerId, email } = found.request;
    const visitors = await exporter.exportRequested(customerId, email);
    await writeExport(stdout, visitors, `{"request":${JSON.stringify(describe(found))},"visitors":`, '}');
  });
}

function dataRequest(open: readonly OpenRequest[], id: string): OpenRequest {
  const found = open.find((one) => one.id === id);
  if (found === undefined) throw new StartupError(`There is no open request ${id}.`);
  if (found.request.kind !== 'customers/data_request')
    throw new StartupError(`Request ${id} is an erasure: it is closed when all is erased.`);
  return found;
}

function describe({ id, request }: OpenRequest): object {
  const { kind, at, shop, customerId, email, orders, dataRequestId, profiles, erased } = request;
  return {
    id,
    kind,
    at: new Date(at).toISOString(),
    state: stateOf(kind === 'customers/data_request', erased === true, profiles !== undefined),
    shop,
    customerId,
    hasEmail: email !== null,
    orders,
    dataRequestId,
  };
}

function stateOf(isData: boolean, erased: boolean, isBegun: boolean): string {
  if (isData) return erased ? 'to be answered; the visitor was erased since' : 'to be answered';
  if (erased) return 'erased from Redis, waits for ClickHouse';
  return isBegun ? 'is being erased' : 'waits';
}
