// DELETE /profile and GET /profile: what a visitor may ask of a shop, asked by the shop's server.

import type { Eraser } from '../identity/eraser.js';
import type { Exporter } from '../identity/exporter.js';
import { namesIn } from '../identity/rules.js';
import { erasureAnswer, exportAnswer } from '../validation/answers.js';
import { readProfile } from '../validation/requests.js';
import { profileBody, profileQuery } from '../validation/schemas.js';
import { MAX_BODY } from './limits.js';
import type { Operation } from './operation.js';

const EXAMPLE = { customerId: '7' };

export function rightsOperations(eraser: Eraser, exporter: Exporter): Operation[] {
  return [
    {
      method: 'get',
      doc: {
        id: 'exportProfile',
        tag: 'Profiles',
        summary: 'Answers what Redis keeps of a visitor',
        query: { schema: profileQuery, example: EXAMPLE },
        answer: exportAnswer,
      },
      path: '/profile',
      subject: 'administration',
      maxBody: 0,
      async handle(request) {
        const [name] = namesIn(readProfile(undefined, request.query())) as [string];
        const { earlier: _, ...found } = await exporter.export(name);
        return JSON.stringify(found);
      },
    },
    {
      method: 'delete',
      doc: {
        id: 'eraseProfile',
        tag: 'Profiles',
        summary: 'Erases a visitor; where a proxy drops the body, the query names the same',
        query: { schema: { properties: profileQuery.properties }, example: {} },
        body: { schema: profileBody, example: { identity: EXAMPLE }, optional: true },
        answer: erasureAnswer,
      },
      path: '/profile',
      subject: 'administration',
      maxBody: MAX_BODY,
      async handle(request) {
        const identity = readProfile(request.body, request.body === undefined ? request.query() : {});
        let erased = false;
        for (const name of namesIn(identity)) erased = (await eraser.erase(name)) || erased;
        return JSON.stringify({ erased });
      },
    },
  ];
}
