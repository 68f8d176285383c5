// The pages for people, / and /docs, on a phone in the dark and on a desktop: the renderer works under the pages' policy.

import type { Test } from 'tap';
import { startApp } from '../../harness/app.js';
import { type BrowserFixtures, urlOf, visit } from '../../harness/storefront.js';
import { until } from '../../harness/until.js';

export async function docsPage(t: Test, fixtures: BrowserFixtures): Promise<void> {
  const app = await startApp(t, fixtures.redis, { env: { BASE_PATH: '/api' } });
  const { context, open } = await visit(t, fixtures, {});
  const page = await open('about:blank');
  const said: string[] = [];
  const foreign: string[] = [];
  context.on('console', (message) => said.push(message.text()));
  context.on('request', (request) => {
    if (!request.url().startsWith(urlOf(app)) && !request.url().startsWith('data:'))
      foreign.push(request.url());
  });
  const operation = page.locator('#operations-Visits-countVisit');
  await page.goto(`${urlOf(app)}/api/`);
  await page.getByRole('link', { name: 'Documentation of the API' }).click();
  await operation.waitFor();
  for (const [width, colorScheme] of [
    [390, 'dark'],
    [1_280, 'light'],
  ] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    // The page changes its colours a moment after the system does.
    await until(colorScheme, async () => {
      const color = await page.evaluate<string>(
        'getComputedStyle(document.querySelector(".swagger-ui")).backgroundColor',
      );
      const [red = ''] = color.match(/\d+/g) ?? [];
      return (Number(red) < 64 && red !== '0') === (colorScheme === 'dark');
    });
    const needed = await page.evaluate<number>('document.documentElement.scrollWidth');
    t.ok(needed <= width, `${needed} px of ${width}`);
  }
  const summaries = (await page.locator('.opblock-summary').allTextContents()).join('\n');
  t.match(summaries, '?count=true');
  t.notMatch(summaries, '`', 'a summary is plain text');
  t.equal(await page.locator('.opblock .authorization__btn').count(), 0, 'no padlock, closed or open');
  await operation.locator('button').first().click();
  t.match(await operation.locator('.opblock-description').textContent(), 'Servers with a secret key');
  await operation.getByText('Try it out').click();
  await operation.getByText('Execute', { exact: true }).click();
  await operation.locator('.live-responses-table').waitFor();
  t.match(await operation.locator('.live-responses-table').textContent(), /200[\s\S]*profileId/);
  t.same(said, [], 'nothing is refused by the policy, nothing fails');
  t.same(foreign, [], 'all of it from here');
}
