// The beacon in a real browser, on pages of another origin than the service's. One browser for all of browser/beacon-*.ts.

import t from 'tap';
import { inChromium } from '../harness/storefront.js';
import { beaconConsent } from './browser/beacon-consent.js';
import { beaconLoading } from './browser/beacon-loading.js';
import { beaconSessions } from './browser/beacon-sessions.js';
import { beaconVisits } from './browser/beacon-visits.js';

await inChromium(t, async (t, fixtures) => {
  await t.test('visits', (t) => beaconVisits(t, fixtures));
  await t.test('consent, robots, and pages that it leaves alone', (t) => beaconConsent(t, fixtures));
  await t.test('ways to load it', (t) => beaconLoading(t, fixtures));
  await t.test('sessions and logins', (t) => beaconSessions(t, fixtures));
});
