// What all pages do. A page has sections `data-panel="<name>"`; each is asked for with the days of the address, those first that
// are in sight, and drawn when its answer comes. While it waits it has `aria-busy`, and what it shows is greyed.

import { onAddress, range } from './address.js';
import { Away, ask as askPanel, BadRange, LoggedOut } from './ask.js';
import { beginRangeForm, showRange } from './range-form.js';
import './search.js';
import { askForToken, beginSession, reveal } from './session.js';
import { $, make, number } from './shared.js';
import * as silence from './silence.js';

const RETRY_MS = 5_000;
const REFRESH_MS = 60_000;
/** After this long without a refusal the page is shown, if without figures. */
const REVEAL_MS = 1_000;

/** What the page gave to `openPage`. */
let page;
let asking = new AbortController();
let again;
let late;
/** Whether there was no refresh while the page was hidden. */
let isDue = false;
/** The address that the panels were last asked for. */
let shown;

/**
 * Opens a page, after a log-in where one is needed.
 * @param draw panel -> (answer, range, needed) => what its `.body` has then; undefined where it has drawn by itself. `needed` are
 *   the answers of the panels in the section's `data-needs`
 * @param parameters () => those of the page, which each panel is asked with beside the days
 * @param done (range) => … when all is drawn
 * @param ask for what is not the rows of a panel; as that of ask.js
 */
export function openPage({ draw, parameters = () => ({}), done = () => {}, ask = askPanel }) {
  page = { draw, parameters, done, ask };
  onAddress(() => {
    // Tables sort themselves.
    if (asked() !== shown) showAll();
  });
  beginRangeForm(showAll, trouble);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && isDue) showAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showAll);
  beginSession(showAll, stop);
}

/** The address without what no panel depends on. */
function asked() {
  const query = new URLSearchParams(location.search);
  for (const name of [...query.keys()]) if (name.startsWith('sort.')) query.delete(name);
  return String(query);
}

function stop() {
  asking.abort();
  clearTimeout(again);
  clearTimeout(late);
  silence.over();
  trouble();
}

const isInSight = (section) => {
  const { top, bottom } = section.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
};

async function showAll() {
  shown = asked();
  isDue = false;
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  clearTimeout(again);
  clearTimeout(late);
  late = setTimeout(reveal, REVEAL_MS);
  const chosen = range();
  showRange(chosen);
  trouble();
  silence.asked(chosen);
  const sections = [...document.querySelectorAll('[data-panel]')].toSorted(
    (a, b) => isInSight(b) - isInSight(a),
  );
  const answers = {};
  for (const section of sections) {
    section.setAttribute('aria-busy', 'true');
    answers[section.dataset.panel] = page.ask(section.dataset.panel, chosen, page.parameters(), signal);
    // It may fail before its section waits for it.
    answers[section.dataset.panel].catch(() => {});
  }
  try {
    await Promise.all(sections.map((section) => show(section, chosen, answers, signal)));
    if (signal.aborted) return;
    silence.over();
    page.done(chosen);
    again = setTimeout(refresh, REFRESH_MS);
  } catch (error) {
    if (!signal.aborted) fail(error);
  }
}

async function show(section, chosen, answers, signal) {
  const { panel, needs } = section.dataset;
  try {
    const answer = await answers[panel];
    const needed = {};
    for (const other of needs?.split(' ') ?? []) needed[other] = await answers[other];
    // A later choice may have begun meanwhile.
    if (signal.aborted) return;
    clearTimeout(late);
    reveal();
    const body = page.draw[panel](answer, chosen, needed);
    if (body !== undefined) section.querySelector('.body').replaceChildren(...body);
    if (answer.sql !== undefined) drawTools(section, answer);
    drawRefusal(section);
  } catch (error) {
    if (signal.aborted || [LoggedOut, Away, BadRange].some((kind) => error instanceof kind)) throw error;
    drawRefusal(section, error.message);
  }
  section.setAttribute('aria-busy', 'false');
  silence.answered(section, chosen);
}

/** Of the whole page: no panel can be asked for. */
function fail(error) {
  asking.abort();
  clearTimeout(late);
  if (error instanceof LoggedOut) {
    stop();
    return askForToken();
  }
  reveal();
  if (error instanceof Away) {
    silence.notAnswered(error.name);
    again = setTimeout(showAll, RETRY_MS);
    return;
  }
  silence.over();
  $('main').hidden = true; // it would show other days than those of the form
  trouble(error.message);
}

function refresh() {
  if (document.hidden) isDue = true;
  else showAll();
}

function trouble(text = '') {
  $('#trouble').textContent = text;
  $('#trouble').hidden = text === '';
}

/** A panel that is refused says so in its place; the others stand. */
function drawRefusal(section, text) {
  section.querySelector('.refused')?.remove();
  section.classList.toggle('is-refused', text !== undefined);
  if (text !== undefined) section.append(make('p', { class: 'refused' }, text));
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
