// What all pages have in common: the range, log-in and log-out, and the asking. A page has sections `data-panel="<name>"`; each is
// asked for with the days of the address, those first that are in sight, and drawn when its answer comes.

import { goToRange, lastDays, linkTo, onAddress, range } from './address.js';
import { Away, ask as askPanel, LoggedOut } from './ask.js';
import { $, DAY, iso, make, number, today } from './shared.js';

const RETRY_MS = 5_000;
const REFRESH_MS = 60_000;
/** What is hidden until someone has logged in. */
const FRAME = ['nav', '#logout', 'main', 'footer'];
const OF_DAYS = ['#range', '#days'];

/** What the page gave to `openPage`. */
let page;
let asking = new AbortController();
let again;
/** The address that the panels were last asked for. */
let shown;
let isWanted = true;

/**
 * Opens a page, after a log-in where one is needed.
 * @param draw panel -> (answer, range, needed) => what its `.body` has then; undefined where it has drawn by itself. `needed` are
 *   the answers of the panels in the section's `data-needs`
 * @param parameters of the page, which each panel is asked with beside the days
 * @param done is called with the range when all is drawn
 * @param ask for what is not the rows of a panel
 * @param isOfDays whether the page has a range
 */
export function openPage({
  draw,
  parameters = () => ({}),
  done = () => {},
  ask = askPanel,
  isOfDays = true,
}) {
  page = { draw, parameters, done, ask, isOfDays };
  onAddress(() => {
    // Tables sort themselves.
    if (asked() !== shown) showAll();
  });
  // The token of the address is used once, and does not stay in it.
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    history.replaceState(null, '', location.pathname + location.search);
    logIn(token);
  } else showAll();
}

/** Under each panel: its rows as CSV, its statement, how long that took. */
function drawTools(section, { csv, sql, ms }) {
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
    make('a', { href: csv, download: '' }, 'CSV'),
    details,
    make('span', {}, `${number.format(ms)} ms`),
  );
  if (old === null) section.append(tools);
  else if (!old.contains(document.activeElement)) old.replaceWith(tools);
}

const isInSight = (section) => {
  const { top, bottom } = section.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

function showRange({ from, to }) {
  const form = $('#range');
  form.from.value = iso(from);
  form.to.value = iso(to);
  for (const button of form.querySelectorAll('[data-days]')) {
    const is = to === today() && from === today() - (Number(button.dataset.days) - 1) * DAY;
    button.setAttribute('aria-pressed', String(is));
  }
  for (const link of document.querySelectorAll('nav a')) link.href = linkTo(link.dataset.page);
}

/** The address without what no panel depends on. */
function asked() {
  const query = new URLSearchParams(location.search);
  for (const name of [...query.keys()]) if (name.startsWith('sort.')) query.delete(name);
  return String(query);
}

async function showAll() {
  shown = asked();
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  clearTimeout(again);
  const chosen = range();
  showRange(chosen);
  const sections = [...document.querySelectorAll('[data-panel]')].toSorted(
    (a, b) => isInSight(b) - isInSight(a),
  );
  const answers = {};
  for (const section of sections) {
    section.setAttribute('aria-busy', 'true');
    answers[section.dataset.panel] = page.ask(section.dataset.panel, chosen, page.parameters(), signal);
  }
  const show = async (section) => {
    const name = section.dataset.panel;
    const answer = await answers[name];
    const needed = {};
    for (const other of section.dataset.needs?.split(' ') ?? []) needed[other] = await answers[other];
    // A later choice may have begun meanwhile.
    if (signal.aborted) return;
    reveal();
    const body = page.draw[name](answer, chosen, needed);
    if (body !== undefined) section.querySelector('.body').replaceChildren(...body);
    if (answer.sql !== undefined) drawTools(section, answer);
    section.setAttribute('aria-busy', 'false');
  };
  try {
    await Promise.all(sections.map(show));
    if (signal.aborted) return;
    page.done(chosen);
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
  for (const selector of FRAME) $(selector).hidden = false;
  for (const selector of OF_DAYS) $(selector).hidden = !page.isOfDays;
}

function askForToken(why = '') {
  for (const selector of [...FRAME, ...OF_DAYS]) $(selector).hidden = true;
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
  if (!(from <= to)) return trouble('The first day is after the last one.');
  shown = undefined; // the same days are asked for once more
  goToRange({ from, to });
});
for (const button of document.querySelectorAll('[data-days]'))
  button.addEventListener('click', () => goToRange(lastDays(Number(button.dataset.days))));
$('#logout').addEventListener('click', async () => {
  asking.abort();
  clearTimeout(again);
  await fetch('logout', { method: 'POST' }).catch(() => {});
  askForToken();
});
document.addEventListener('visibilitychange', () => {
  if (document.hidden || isWanted) return;
  isWanted = true;
  showAll();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showAll);
