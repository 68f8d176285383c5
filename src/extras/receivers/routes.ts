// /receivers: lists, adds, changes, removes and tests receivers.

import { IDEMPOTENCY_KEY, once } from '../../http/idempotency.js';
import { MAX_BODY, type Operation, operation } from '../../http/operation.js';
import type { RequestStore } from '../../redis/requests.js';
import type { Receivers } from './receivers.js';
import { readReceiver, readReceiverChange } from './requests.js';
import {
  changedReceiverAnswer,
  createdReceiverAnswer,
  deletedAnswer,
  receiver as receiverAnswer,
  receiverBody,
  receiverChangeBody,
  receiverListAnswer,
  receiverTestAnswer,
} from './schemas.js';

const ALL = '/receivers';
const ONE = '/receivers/:id';
const EXAMPLE = { url: 'https://hooks.shop.example/wishes', types: ['add', 'purchase'] };

export function receiverOperations(receivers: Receivers, requests: RequestStore): Operation[] {
  const faultOfUrl = (url: string) => receivers.addresses.faultOf(url);
  return [
    {
      method: 'get',
      doc: {
        id: 'listReceivers',
        tag: 'Receivers',
        summary: 'Lists receivers, oldest first',
        answer: receiverListAnswer,
      },
      path: ALL,
      accessGroup: 'administration',
      maxBody: 0,
      async handle() {
        const all = (await receivers.list()).map((one) => receivers.describe(one));
        return JSON.stringify({ receivers: await Promise.all(all) });
      },
    },
    operation({
      method: 'post',
      doc: {
        id: 'addReceiver',
        tag: 'Receivers',
        summary: 'Makes a receiver; only this answer shows its secret',
        body: { schema: receiverBody, example: EXAMPLE },
        answer: createdReceiverAnswer,
      },
      path: ALL,
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: (body) => readReceiver(body, faultOfUrl),
      handle(input, request) {
        return once(requests, request, { operation: 'addReceiver', input }, async (keyed) => {
          return JSON.stringify(receivers.describeNew(await receivers.add(input, keyed?.id)));
        });
      },
    }),
    {
      method: 'get',
      doc: {
        id: 'getReceiver',
        tag: 'Receivers',
        summary: 'Reads a receiver and its status',
        answer: receiverAnswer,
      },
      path: ONE,
      accessGroup: 'administration',
      maxBody: 0,
      async handle(_, { parameter }) {
        return JSON.stringify(await receivers.describe(await receivers.get(parameter)));
      },
    },
    operation({
      method: 'patch',
      doc: {
        id: 'changeReceiver',
        tag: 'Receivers',
        summary: 'Changes, pauses or resumes a receiver; only this answer shows a new secret',
        body: { schema: receiverChangeBody, example: { types: ['*'] } },
        answer: changedReceiverAnswer,
      },
      path: ONE,
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      read: (body) => readReceiverChange(body, faultOfUrl),
      async handle(input, { parameter }) {
        const changed = await receivers.change(parameter, input);
        return JSON.stringify(await receivers.describe(changed, input.rotateSecret));
      },
    }),
    {
      method: 'delete',
      doc: {
        id: 'removeReceiver',
        tag: 'Receivers',
        summary: 'Removes a receiver and its waiting deliveries',
        answer: deletedAnswer,
      },
      path: ONE,
      accessGroup: 'administration',
      maxBody: 0,
      headers: [IDEMPOTENCY_KEY],
      handle(_, request) {
        const what = { operation: 'removeReceiver', input: request.parameter };
        return once(requests, request, what, async () => {
          await receivers.remove(request.parameter);
          return JSON.stringify({ deleted: true });
        });
      },
    },
    {
      method: 'post',
      doc: {
        id: 'testReceiver',
        tag: 'Receivers',
        summary: 'Sends a delivery of type `test`, and answers with the response',
        answer: receiverTestAnswer,
      },
      path: '/receivers/:id/test',
      accessGroup: 'administration',
      maxBody: 0,
      headers: [IDEMPOTENCY_KEY],
      handle(_, request) {
        const what = { operation: 'testReceiver', input: request.parameter };
        return once(requests, request, what, async () =>
          JSON.stringify(await receivers.test(request.parameter)),
        );
      },
    },
  ];
}
