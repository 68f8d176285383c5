// The notice that is shown while no answer comes. It says which days are shown, as of when, and for how many seconds
// there has been no answer.

import { $, inDays, number, timeOf } from './shared.js';

const SILENT_MS = 5_000; // most statements take less

/** Time of the oldest unanswered request, or of a newer answer. */
let since;
let chosen;
let name = 'ClickHouse';
let timer;
const drawn = new WeakMap();

export function asked(range) {
  chosen = range;
  since ??= Date.now();
  timer ??= setInterval(say, 1_000);
}

export function answered(section, range) {
  since = Date.now();
  name = 'ClickHouse';
  drawn.set(section, { range, at: Date.now() });
  say();
}

export function notAnswered(who) {
  name = who;
}

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
  // Unchanged words are left alone, because a screen reader would repeat them every second.
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
