// Plugs receivers into `serve`.

import type { Extra } from '../../app/extra.js';
import { receiversOf } from './deliver.js';
import { ReceiverMetrics } from './metrics.js';
import { receiverOperations } from './routes.js';
import { WEBHOOKS } from './webhook-docs.js';

export const receivers: Extra = ({ store, config }) => ({
  plug({ requests }) {
    const all = receiversOf(store, config);
    return {
      operations: receiverOperations(all, requests),
      metrics: (registry) => new ReceiverMetrics(registry, all, config.RECEIVERS_HIGH_WATER),
      webhooks: WEBHOOKS,
    };
  },
});
