// GET and PUT /settings.

import { readSettings } from '../validation/requests.js';
import { settingsBody } from '../validation/schemas.js';
import type { SettingsStore } from '../wishlist/settings.js';
import { settingsAnswer } from './answers.js';
import { MAX_BODY, type Operation } from './operation.js';

const PATH = '/settings';

export function settingsOperations(settings: SettingsStore): Operation[] {
  return [
    {
      method: 'get',
      doc: {
        id: 'getSettings',
        tag: 'Settings',
        summary: 'What the shop has switched on',
        answer: settingsAnswer,
      },
      path: PATH,
      subject: 'administration',
      maxBody: 0,
      handle: async () => JSON.stringify(await settings.read()),
    },
    {
      method: 'put',
      doc: {
        id: 'putSettings',
        tag: 'Settings',
        summary: 'Turns automatic removal of purchased items on or off',
        body: { schema: settingsBody, example: { autoRemoveAfterPurchase: true } },
        answer: settingsAnswer,
      },
      path: PATH,
      subject: 'administration',
      maxBody: MAX_BODY,
      async handle({ body }) {
        await settings.write(readSettings(body));
        return JSON.stringify(await settings.read());
      },
    },
  ];
}
