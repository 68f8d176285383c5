// Plugs receivers into `serve`.

import type { Extra } from '../../app/extra.js';
import type { ReceiversConfig } from '../settings.js';
import { receiverMetrics } from './metrics.js';
import { Receivers } from './receivers.js';
import { receiverOperations } from './routes.js';
import { WEBHOOKS } from './webhook-docs.js';

export const receivers: Extra<ReceiversConfig> = ({ store, config, log }) => ({
  plug({ requests }) {
    const all = new Receivers(store, config, log);
    return {
      operations: receiverOperations(all, requests),
      metrics: (registry) => receiverMetrics(registry, all, config.RECEIVERS_HIGH_WATER),
      tags: { Receivers: 'Destinations of outgoing events' },
      webhooks: WEBHOOKS,
    };
  },
});
