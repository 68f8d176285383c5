// Shared by all pages. For each section with `data-panel="<name>"`, visible ones first, the page asks for the panel of
// the address's days; the section is `aria-busy` until the answer is drawn. Sections of one panel, which
// `data-part` distinguishes, share its answer.

import { onAddress, range } from './address.js';
import { Away, ask as askPanel, BadRange, LoggedOut } from './ask.js';
import { beginRangeForm, showRange } from './range-form.js';
import './search.js';
import { askForToken, beginSession, reveal } from './session.js';
import { $, make, number } from './shared.js';
import * as silence from './silence.js';

const RETRY_MS = 5_000;
const REFRESH_MS = 60_000;
/** Milliseconds until the page is shown without data, unless the answer is a 401. */
const REVEAL_MS = 1_000;

let page;
let asking = new AbortController();
let again;
let late;
let isDue = false;
let shown;

/**
 * @param draw part, or else panel -> (answer, range, needed) => children of its `.body`, or undefined if it has drawn them itself;
 *   `needed` has the answers of the panels that `data-needs` names
 * @param parameters () => more parameters of each panel's request
 */
export function openPage({ draw, parameters = () => ({}), done = () => {}, ask = askPanel }) {
  page = { draw, parameters, done, ask };
  onAddress(() => {
    if (asked() !== shown) showAll();
  });
  beginRangeForm(showAll, trouble);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && isDue) showAll();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showAll);
  beginSession(showAll, stop);
}

/** The address's query without sorting. */
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
    const { panel } = section.dataset;
    answers[panel] ??= page.ask(panel, chosen, page.parameters(), signal);
    // The request may fail before `show` awaits it.
    answers[panel].catch(() => {});
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
  const { panel, part = panel, needs } = section.dataset;
  try {
    const answer = await answers[panel];
    const needed = {};
    for (const other of needs?.split(' ') ?? []) needed[other] = await answers[other];
    if (signal.aborted) return;
    clearTimeout(late);
    reveal();
    const body = page.draw[part](answer, chosen, needed);
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
  $('main').hidden = true; // it still shows other days than the form
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

function drawRefusal(section, text) {
  section.querySelector('.refused')?.remove();
  section.classList.toggle('is-refused', text !== undefined);
  if (text !== undefined) section.append(make('p', { class: 'refused' }, text));
}

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
