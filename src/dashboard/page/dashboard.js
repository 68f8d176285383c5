// The dashboard: asks the server for each panel's rows in the chosen time, those first that are in sight, and draws each as it
// comes. All that comes from a shop is put into the page as text.

import { drawFigures } from './figures.js';
import { DRAW } from './panels.js';
import { $, compared, DAY, iso, make, number, today } from './shared.js';

const RETRY_MS = 5_000;
const REFRESH_MS = 60_000;

// The time that is shown; it is in the address, so that it can be kept and sent.

function chosen() {
  const query = new URLSearchParams(location.search);
  const [from, to] = ['from', 'to'].map((name) => Date.parse(query.get(name) ?? ''));
  return from <= to ? { from, to } : { from: today() - 27 * DAY, to: today() };
}

function choose(range) {
  history.pushState(null, '', `?from=${iso(range.from)}&to=${iso(range.to)}`);
  showAll();
}

// Asking.

class LoggedOut extends Error {}
class Away extends Error {}

async function ask(panel, range, signal) {
  const answer = await fetch(`panels/${panel}?from=${iso(range.from)}&to=${iso(range.to)}`, { signal }).catch(
    (error) => {
      if (signal.aborted) throw error;
      throw new Away('The dashboard does not answer.');
    },
  );
  const body = await answer.json();
  if (answer.status === 401) throw new LoggedOut();
  if (!answer.ok) throw new (body.away ? Away : Error)(body.error);
  const rows = body.rows.map((row) => Object.fromEntries(body.names.map((name, i) => [name, row[i]])));
  return { ...body, rows };
}

function whatIsCompared(range) {
  const [shown, times] = [inDays(range), compared(range)];
  if (times === undefined) return `${shown}: today is not over, and is compared with no other day`;
  if (times.now.to === range.to) return `${shown}, compared with ${inDays(times.was)}`;
  return `${shown}; today is not over: ${inDays(times.now)} is compared with ${inDays(times.was)}`;
}

const inDays = ({ from, to }) => (from === to ? iso(from) : `${iso(from)} to ${iso(to)}`);

/** Under each panel: its rows as CSV, its statement, how long that took. */
function drawTools(section, name, { sql, ms }, { from, to }) {
  const old = section.querySelector('.tools');
  const isOpen = old?.querySelector('details')?.open;
  const details = make(
    'details',
    isOpen ? { open: '' } : {},
    make('summary', {}, 'SQL'),
    make('pre', { tabindex: '0' }, sql),
  );
  const tools = make(
    'div',
    { class: 'tools' },
    make('a', { href: `panels/${name}.csv?from=${iso(from)}&to=${iso(to)}`, download: '' }, 'CSV'),
    details,
    make('span', {}, `${number.format(ms)} ms`),
  );
  if (old === null) section.append(tools);
  else if (!old.contains(document.activeElement)) old.replaceWith(tools);
}

// All of it.

let asking = new AbortController();
let again;
let isWanted = true;

const isInSight = (section) => {
  const { top, bottom } = section.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

async function showAll() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  clearTimeout(again);
  const range = chosen();
  const form = $('#range');
  form.from.value = iso(range.from);
  form.to.value = iso(range.to);
  for (const button of form.querySelectorAll('[data-days]')) {
    const is = range.to === today() && range.from === today() - (Number(button.dataset.days) - 1) * DAY;
    button.setAttribute('aria-pressed', String(is));
  }
  const sections = [...document.querySelectorAll('[data-panel]')].toSorted(
    (a, b) => isInSight(b) - isInSight(a),
  );
  const answers = {};
  for (const section of sections) {
    section.setAttribute('aria-busy', 'true');
    answers[section.dataset.panel] = ask(section.dataset.panel, range, signal);
  }
  const show = async (section) => {
    const name = section.dataset.panel;
    const answer = await answers[name];
    const { rows: revenue } = name === 'days' ? await answers.revenue : {};
    // A later choice may have begun meanwhile.
    if (signal.aborted) return;
    reveal();
    if (name === 'days') $('#empty').hidden = drawFigures(range, answer.rows, revenue);
    else section.querySelector('.body').replaceChildren(...DRAW[name](answer, range));
    drawTools(section, name, answer, range);
    section.setAttribute('aria-busy', 'false');
  };
  try {
    await Promise.all(sections.map(show));
    if (signal.aborted) return;
    $('#compared').textContent = whatIsCompared(range);
    trouble();
    again = setTimeout(refresh, REFRESH_MS);
  } catch (error) {
    if (signal.aborted) return;
    asking.abort();
    if (error instanceof LoggedOut) return askForToken();
    trouble(
      error instanceof Away
        ? `${error.message} What is shown may be old; this page tries again.`
        : error.message,
    );
    again = setTimeout(showAll, RETRY_MS);
  }
}

function refresh() {
  isWanted = !document.hidden;
  if (isWanted) showAll();
}

function trouble(text = '') {
  $('#trouble').textContent = text;
  $('#trouble').hidden = text === '';
}

function reveal() {
  $('#login').hidden = true;
  for (const selector of ['#range', 'main', 'footer']) $(selector).hidden = false;
}

function askForToken(why = '') {
  for (const selector of ['#range', 'main', 'footer']) $(selector).hidden = true;
  trouble();
  $('#login').hidden = false;
  $('#login-trouble').textContent = why;
  $('#login').token.focus();
}

async function logIn(token) {
  const answer = await fetch('login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  }).catch(() => undefined);
  if (answer === undefined) return askForToken('The dashboard does not answer.');
  const body = await answer.json();
  if (!answer.ok) return askForToken(body.error);
  $('#wrong').textContent =
    body.wrongTokens > 0
      ? `Wrong tokens tried since it was started: ${number.format(body.wrongTokens)}.`
      : '';
  $('#login').reset();
  await showAll();
}

$('#login').addEventListener('submit', (event) => {
  event.preventDefault();
  $('#login-trouble').textContent = 'Looking …';
  logIn(event.target.token.value);
});
$('#range').addEventListener('submit', (event) => {
  event.preventDefault();
  const [from, to] = [event.target.from, event.target.to].map((input) => Date.parse(input.value));
  if (from <= to) choose({ from, to });
  else trouble('The first day is after the last one.');
});
for (const button of document.querySelectorAll('[data-days]'))
  button.addEventListener('click', () =>
    choose({ from: today() - (Number(button.dataset.days) - 1) * DAY, to: today() }),
  );
$('#logout').addEventListener('click', async () => {
  asking.abort();
  clearTimeout(again);
  await fetch('logout', { method: 'POST' }).catch(() => {});
  askForToken();
});
addEventListener('popstate', showAll);
document.addEventListener('visibilitychange', () => {
  if (document.hidden || isWanted) return;
  isWanted = true;
  showAll();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showAll);

// The token of the address is used once, and does not stay in it.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
if (token) {
  history.replaceState(null, '', location.pathname + location.search);
  logIn(token);
} else showAll();
