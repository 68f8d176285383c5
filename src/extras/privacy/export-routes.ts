// GET /profile exports a visitor's data.

import { ServiceError } from '../../errors.js';
import { type Operation, operation } from '../../http/operation.js';
import type { FindNamed } from '../../profiles/named-visitor.js';
import { readProfile } from '../../validation/requests.js';
import { profileQuery } from '../../validation/schemas.js';
import { exportAnswer } from './export-answer.js';
import type { Exporter } from './exporter.js';

export function exportOperation(findNamed: FindNamed, exporter: Exporter): Operation {
  return operation({
    method: 'get',
    doc: {
      id: 'exportProfile',
      tag: 'Profiles',
      summary: 'Exports all data of a visitor, by customer id, session id or e-mail address',
      query: { schema: profileQuery, example: { customerId: '7' } },
      refusals: ['not_found'],
      answer: exportAnswer,
    },
    path: '/profile',
    accessGroup: 'administration',
    maxBody: 0,
    read: (_, request) => readProfile(undefined, request.query()),
    async handle(_, { identity }) {
      const body = await exporter.exportNamed(await findNamed(identity));
      if (body === undefined) throw new ServiceError('not_found', 'Nothing is kept of such a visitor.');
      return { body };
    },
  });
}
