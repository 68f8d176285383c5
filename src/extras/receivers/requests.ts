// Validates bodies of /receivers.

import type { Issue } from '../../errors.js';
import { compile } from '../../validation/validator.js';
import { EVERY_TYPE, type NewReceiver, type ReceiverChange } from './receiver.js';
import { receiverBody, receiverChangeBody } from './schemas.js';

const checkReceiver = compile<Omit<NewReceiver, 'includePersonal'> & Partial<NewReceiver>>(receiverBody);
const checkReceiverChange = compile<ReceiverChange>(receiverChangeBody);

/** @param faultOfUrl checks a URL further than a schema can */
export function readReceiver(body: unknown, faultOfUrl: FaultOfUrl): NewReceiver {
  const { url, types, includePersonal = false } = checkReceiver(body, receiverFaults(body, faultOfUrl));
  return { url, types: [...new Set(types)], includePersonal };
}

export function readReceiverChange(body: unknown, faultOfUrl: FaultOfUrl): ReceiverChange {
  const faults = receiverFaults(body, faultOfUrl);
  const { url, types, isEnabled, rotateSecret } = checkReceiverChange(body, faults);
  return { url, types: types && [...new Set(types)], isEnabled, rotateSecret };
}

type FaultOfUrl = (url: string) => string | undefined;

function receiverFaults(body: unknown, faultOfUrl: FaultOfUrl): Issue[] {
  const { url, types } = (body ?? {}) as { readonly url?: unknown; readonly types?: unknown };
  const faults: Issue[] = [];
  const fault = typeof url === 'string' ? faultOfUrl(url) : undefined;
  if (fault !== undefined) faults.push({ path: '/url', message: fault });
  if (Array.isArray(types) && types.length > 1 && types.includes(EVERY_TYPE))
    faults.push({ path: '/types', message: 'must be `*` alone, or a list of types' });
  return faults;
}
