// Opens Redis for `serve`, which answers probes on its port while it waits.

import type { Logger } from 'pino';
import type { ServeMetrics } from '../http/metrics.js';
import type { Uws } from '../http/uws.js';
import { startWaitingServer, type WaitingServer } from '../http/waiting-server.js';
import { openStore } from './opening.js';
import type { ServeConfig } from './settings.js';
import { opened, type Waiting } from './waiting.js';

interface ServedStoreSpec {
  readonly config: ServeConfig;
  readonly log: Logger;
  readonly metrics: ServeMetrics;
  readonly uws: Uws;
  readonly waiting: Waiting | undefined;
  readonly onClose: (closer: () => void) => void;
}

export async function openServedStore({ config, log, metrics, uws, waiting, onClose }: ServedStoreSpec) {
  let door: WaitingServer | undefined;
  const closeDoor = () => {
    door?.close();
    door = undefined;
  };
  onClose(closeDoor);
  const open = () =>
    openStore(config, 'wishmeter serve', log, {
      timeoutMs: config.REDIS_TIMEOUT_MS,
      guestsS: config.GUEST_RETENTION_DAYS * 86_400,
      onCall: metrics.called,
      onReplicated: metrics.replicated,
    });
  const store = await opened(waiting, 'Redis', open, () => {
    door = startWaitingServer(uws, config.HOST, config.PORT, () => waiting?.why);
  });
  return { store, port: door === undefined ? config.PORT : (door as WaitingServer).port, closeDoor };
}
