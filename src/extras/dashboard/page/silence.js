// What the page says while no answer comes: what is shown, since when, and for how long ClickHouse has not answered. Before
// SILENT_MS it says nothing: most statements take less.

import { $, inDays, number, timeOf } from './shared.js';

const SILENT_MS = 5_000;

/** When the silence began: the oldest request without an answer, or the last answer after it. */
let since;
let chosen;
let name = 'ClickHouse';
let timer;
/** Sections -> the days that they show, and when those were asked for. */
const drawn = new WeakMap();

/** @param range of the address */
export function asked(range) {
  chosen = range;
  since ??= Date.now();
  timer ??= setInterval(say, 1_000);
}

/** The answer of a section came and was drawn. */
export function answered(section, range) {
  since = Date.now();
  name = 'ClickHouse';
  drawn.set(section, { range, at: Date.now() });
  say();
}

/** @param who does not answer: an Away's name */
export function notAnswered(who) {
  name = who;
}

/** All has come, or nothing is waited for any more. */
export function over() {
  since = undefined;
  clearInterval(timer);
  timer = undefined;
  $('#silence').hidden = true;
}

function say() {
  const box = $('#silence');
  const ms = Date.now() - since;
  box.hidden = ms < SILENT_MS;
  if (box.hidden) return;
  const words = `${whatIsShown()}; ${name} has not answered`;
  // A screen reader says the words once, not every second.
  if ($('#silence-words').textContent !== words) $('#silence-words').textContent = words;
  $('#silence-seconds').textContent = ` for ${number.format(Math.round(ms / 1_000))} s`;
}

function whatIsShown() {
  const sections = [...document.querySelectorAll('[data-panel]')];
  if (!sections.some((section) => drawn.has(section))) return 'Nothing is shown yet';
  const waiting = sections.filter((section) => section.getAttribute('aria-busy') === 'true');
  if (waiting.some((section) => !drawn.has(section))) return 'Not all is shown yet';
  const oldest = waiting.map((section) => drawn.get(section)).toSorted((a, b) => a.at - b.at)[0];
  const isPart = waiting.length < sections.length;
  const days = inDays(oldest.range) === inDays(chosen) ? '' : ` ${inDays(oldest.range)}`;
  return `${isPart ? 'Grey is shown' : 'Shown'}${days ? ` is${days},` : ''} as of ${timeOf(oldest.at)}`;
}
