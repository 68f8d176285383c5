// The keys of compliance requests. They share a hash tag.

import type { Keys } from '../../redis/keys.js';

export function complianceKeys({ prefix }: Pick<Keys, 'prefix'>) {
  return {
    /** hash: `#` -> last number; number -> request, JSON */
    compliance: `${prefix}{compliance}:open`,
    /** sorted set: digests of webhooks' ids -> expiry, seconds since 1970 */
    complianceTaken: `${prefix}{compliance}:taken`,
    /** string: the process with the lease */
    complianceOwner: `${prefix}{compliance}:owner`,
  };
}
