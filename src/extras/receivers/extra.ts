// Plugs receivers into `serve`.

import type { Extra } from '../../app/extra.js';
import { receiversOf } from './deliver.js';
import { receiverMetrics } from './metrics.js';
import { receiverOperations } from './routes.js';
import { WEBHOOKS } from './webhook-docs.js';

export const receivers: Extra = ({ store, config }) => ({
  plug({ requests }) {
    const all = receiversOf(store, config);
    return {
      operations: receiverOperations(all, requests),
      metrics: (registry) => receiverMetrics(registry, all, config.RECEIVERS_HIGH_WATER),
      webhooks: WEBHOOKS,
    };
  },
});
