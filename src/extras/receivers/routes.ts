// /receivers: lists, adds, changes, removes and tests receivers.

import { IDEMPOTENCY_KEY, once } from '../../http/idempotency.js';
import { MAX_BODY, type Operation, type OperationDoc, operation } from '../../http/operation.js';
import type { RequestStore } from '../../redis/requests.js';
import type { Receivers } from './receivers.js';
import {
  changedReceiverAnswer,
  createdReceiverAnswer,
  deletedAnswer,
  readReceiver,
  readReceiverChange,
  receiver as receiverAnswer,
  receiverBody,
  receiverChangeBody,
  receiverListAnswer,
  receiverTestAnswer,
} from './schemas.js';

const ALL = '/receivers';
const ONE = '/receivers/:id';
const EXAMPLE = { url: 'https://hooks.shop.example/wishes', types: ['add', 'purchase'] };

const WITHOUT_BODY = { accessGroup: 'administration', maxBody: 0 } as const;
const WITH_BODY = { accessGroup: 'administration', maxBody: MAX_BODY } as const;
const headers = [IDEMPOTENCY_KEY];

const doc = (id: string, summary: string, answer: object, body?: OperationDoc['body']): OperationDoc => ({
  id,
  tag: 'Receivers',
  summary,
  answer,
  ...(body ? { body } : {}),
});

export function receiverOperations(receivers: Receivers, requests: RequestStore): Operation[] {
  return [
    {
      method: 'get',
      path: ALL,
      ...WITHOUT_BODY,
      doc: doc('listReceivers', 'Lists receivers, oldest first', receiverListAnswer),
      async handle() {
        const all = (await receivers.list()).map((one) => receivers.describe(one));
        return JSON.stringify({ receivers: await Promise.all(all) });
      },
    },
    operation({
      method: 'post',
      path: ALL,
      ...WITH_BODY,
      headers,
      doc: doc('addReceiver', 'Makes a receiver; only this answer shows its secret', createdReceiverAnswer, {
        schema: receiverBody,
        example: EXAMPLE,
      }),
      read: (body) => readReceiver(body, receivers.addresses),
      handle(input, request) {
        return once(requests, request, { operation: 'addReceiver', input }, async (keyed) =>
          JSON.stringify(receivers.describeNew(await receivers.add(input, keyed?.id))),
        );
      },
    }),
    {
      method: 'get',
      path: ONE,
      ...WITHOUT_BODY,
      doc: doc('getReceiver', 'Reads a receiver and its status', receiverAnswer),
      async handle(_, { parameter }) {
        return JSON.stringify(await receivers.describe(await receivers.get(parameter)));
      },
    },
    operation({
      method: 'patch',
      path: ONE,
      ...WITH_BODY,
      doc: doc(
        'changeReceiver',
        'Changes, pauses or resumes a receiver; only this answer shows a new secret',
        changedReceiverAnswer,
        { schema: receiverChangeBody, example: { types: ['*'] } },
      ),
      read: (body) => readReceiverChange(body, receivers.addresses),
      async handle(input, { parameter }) {
        const changed = await receivers.change(parameter, input);
        return JSON.stringify(await receivers.describe(changed, input.rotateSecret));
      },
    }),
    {
      method: 'delete',
      path: ONE,
      ...WITHOUT_BODY,
      headers,
      doc: doc('removeReceiver', 'Removes a receiver and its waiting deliveries', deletedAnswer),
      handle(_, request) {
        const { parameter: input } = request;
        return once(requests, request, { operation: 'removeReceiver', input }, async () => {
          await receivers.remove(input);
          return JSON.stringify({ deleted: true });
        });
      },
    },
    {
      method: 'post',
      path: '/receivers/:id/test',
      ...WITHOUT_BODY,
      headers,
      doc: doc(
        'testReceiver',
        'Sends a delivery of type `test`, and answers with the response; it counts in no status',
        receiverTestAnswer,
      ),
      handle(_, request) {
        const { parameter: input } = request;
        return once(requests, request, { operation: 'testReceiver', input }, async () =>
          JSON.stringify(await receivers.test(input)),
        );
      },
    },
  ];
}
