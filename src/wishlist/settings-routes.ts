// GET and PUT /settings.

import { settingsAnswer } from '../http/answer-schemas.js';
import { IDEMPOTENCY_KEY, once } from '../http/idempotency.js';
import { MAX_BODY, type Operation, operation } from '../http/operation.js';
import type { RequestStore } from '../redis/requests.js';
import { readSettings } from '../validation/requests.js';
import { settingsBody } from '../validation/schemas.js';
import type { SettingsStore } from './settings.js';

const PATH = '/settings';

export function settingsOperations(settings: SettingsStore, requests: RequestStore): Operation[] {
  return [
    {
      method: 'get',
      doc: {
        id: 'getSettings',
        tag: 'Settings',
        summary: 'Reads the settings of the shop',
        answer: settingsAnswer,
      },
      path: PATH,
      accessGroup: 'administration',
      maxBody: 0,
      handle: async () => JSON.stringify(await settings.read()),
    },
    operation({
      method: 'put',
      doc: {
        id: 'putSettings',
        tag: 'Settings',
        summary: 'Turns automatic removal of purchased items on or off',
        body: { schema: settingsBody, example: { autoRemoveAfterPurchase: true } },
        answer: settingsAnswer,
      },
      path: PATH,
      accessGroup: 'administration',
      maxBody: MAX_BODY,
      headers: [IDEMPOTENCY_KEY],
      read: readSettings,
      handle(input, request) {
        return once(requests, request, { operation: 'settings', input }, async () => {
          await settings.write(input);
          return JSON.stringify(await settings.read());
        });
      },
    }),
  ];
}
