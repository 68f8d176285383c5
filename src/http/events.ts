// POST /event.

import { ServiceError } from '../errors.js';
import type { Recorder } from '../events/recorder.js';
import type { Profiles } from '../identity/profiles.js';
import type { Visitors } from '../identity/visitors.js';
import { readEvent } from '../validation/requests.js';
import type { Access } from './access.js';
import { MAX_BODY, MAX_PAYLOAD } from './limits.js';
import type { Operation } from './operation.js';

export function eventOperations(
  access: Access,
  visitors: Visitors,
  profiles: Profiles,
  recorder: Recorder,
): Operation[] {
  return [
    {
      method: 'post',
      path: '/event',
      subject: 'wishlist',
      maxBody: MAX_BODY,
      async handle({ caller, body }) {
        const { identity: named, type, payload = {} } = readEvent(body);
        const identity = access.actFor(caller, named);
        const payloadJson = JSON.stringify(payload);
        if (payloadJson.length > MAX_PAYLOAD || Buffer.byteLength(payloadJson) > MAX_PAYLOAD) {
          throw new ServiceError('payload_too_large', `The payload is larger than ${MAX_PAYLOAD} bytes.`);
        }
        const { profileId } = await visitors.enter('resolve', identity, caller.mayLink);
        await Promise.all([
          profiles.learn(profileId, identity),
          recorder.record({ type, origin: 'event', profileId, identity, payload, payloadJson }),
        ]);
        return `{"profileId":"${profileId}"}`;
      },
    },
  ];
}
