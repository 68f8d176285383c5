// Logging in to the dashboard: a browser that sends the token gets a cookie that scripts and other sites can't use;
// wrong tokens are counted, answered one after the other, and bounded.

import t from 'tap';
import { Login } from '../../src/dashboard/login.js';

const TOKEN = '0123456789abcdef';
const NOW = Date.UTC(2026, 2, 1);
const WEEK_MS = 7 * 86_400_000;
const cookieOf = (header: string) => header.split(';')[0] as string;

t.test('the cookie is out of reach of scripts and other sites, and lasts a week', (t) => {
  const login = new Login(TOKEN);
  const header = login.cookie(NOW, false);
  t.match(header, /; HttpOnly; SameSite=Strict$/);
  t.match(header, /; Path=\/; Max-Age=604800;/);
  t.match(login.cookie(NOW, true), /; Secure$/);
  t.notMatch(header, TOKEN);
  const cookie = cookieOf(header);
  t.ok(login.isKnown(cookie, NOW));
  t.ok(login.isKnown(`other=1; ${cookie}; more=2`, NOW + WEEK_MS - 1_000));
  t.notOk(login.isKnown(cookie, NOW + WEEK_MS), 'a week later');
  t.end();
});

t.test('a cookie that was changed, or made under another token, is refused', (t) => {
  const login = new Login(TOKEN);
  const cookie = cookieOf(login.cookie(NOW, false));
  t.ok(login.isKnown(cookie, NOW));
  const later = cookie.replace(/=(\d+)/, (_, until) => `=${Number(until) + 1}`);
  for (const wrong of [
    '',
    'wishmeter_dashboard=',
    later,
    `${cookie}x`,
    cookie.slice(0, -1),
    cookie.replace('.', ''),
  ])
    t.notOk(login.isKnown(wrong, NOW), wrong);
  t.notOk(new Login('another token of 16').isKnown(cookie, NOW));
  t.end();
});

t.test(
  'wrong tokens are counted; what comes meanwhile waits, and more than twenty are sent away',
  async (t) => {
    const login = new Login(TOKEN, 5);
    const order: string[] = [];
    const attempts = Array.from({ length: 19 }, (_, i) =>
      login.attempt(`wrong ${i}`).then((outcome) => order.push(outcome)),
    );
    const right = login.attempt(TOKEN).then((outcome) => order.push(outcome));
    t.equal(await login.attempt(TOKEN), 'crowded');
    t.same(order, [], 'that one was not kept waiting');
    await Promise.all([...attempts, right]);
    t.same(order, [...Array(19).fill('wrong'), 'welcome'], 'in their order');
    t.equal(login.wrong, 19);
    t.equal(await login.attempt(TOKEN), 'welcome');
    t.equal(await login.attempt(`${TOKEN}x`), 'wrong');
    t.equal(login.wrong, 20);
  },
);
