// Plugs exports and compliance webhooks into `serve`.

import type { Extra } from '../../app/extra.js';
import { VisitorRowReader } from '../../clickhouse/visitor-rows.js';
import { eachOnce } from '../../http/left-out.js';
import { Compliance } from './compliance.js';
import { complianceOperations } from './compliance-routes.js';
import { ComplianceWorker } from './compliance-worker.js';
import { exportOperation } from './export-routes.js';
import { Exporter } from './exporter.js';
import { complianceMetrics } from './metrics.js';

/** @param pollMs milliseconds between the scans for open requests */
export const privacyWith =
  ({ pollMs }: { readonly pollMs?: number }): Extra =>
  ({ store, config, log, webhooks, clickhouseUrl, failuresOf, onClose }) => ({
    plug({ identity, visitorTags }) {
      const { emails, findNamed, eraser, pending } = identity;
      const onError = failuresOf('request');
      const compliance = new Compliance(store, onError);
      const worker = new ComplianceWorker({
        store,
        compliance,
        eraser,
        pending,
        visitorTags,
        onError,
        pollMs,
        onUnconfirmed: eachOnce((request) =>
          log.warn(
            { request },
            `Shopify asks for the shop's erasure (shop/redact): \`wishmeter requests confirm ${request}\` erases every visitor; Shopify gives 30 days`,
          ),
        ),
      });
      onClose(worker.watch());
      const rows = new VisitorRowReader(clickhouseUrl, config.CLICKHOUSE_DATABASE);
      onClose(() => rows.close());
      const exporter = new Exporter({ ...identity, store, readRows: rows.read.bind(rows) });
      return {
        operations: [
          exportOperation(findNamed, exporter),
          ...complianceOperations(compliance, worker, emails, webhooks),
        ],
        metrics: (registry) => complianceMetrics(registry, compliance),
      };
    },
  });

export const privacy = privacyWith({});
