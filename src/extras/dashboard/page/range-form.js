// The form for the days. Dates are typed as 2026-03-01. A browser's date field would show them in the format of its
// country, so only its calendar is used.

import { goToRange, lastDays, linkTo } from './address.js';
import { $, iso } from './shared.js';

export function beginRangeForm(again, refuse) {
  const form = $('#range');
  const choose = (range) => {
    if (!goToRange(range)) again();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const [from, to] = [form.from, form.to].map((input) => Date.parse(input.value));
    if (Number.isNaN(from + to)) return refuse('Days are written like 2026-03-01.');
    if (from > to) return refuse('The first day is after the last one.');
    choose({ from, to });
  });
  for (const button of form.querySelectorAll('[data-days]'))
    button.addEventListener('click', () => choose(lastDays(Number(button.dataset.days))));
  const dates = $('#dates');
  dates.addEventListener('click', () => {
    dates.setAttribute('aria-expanded', String(dates.getAttribute('aria-expanded') !== 'true'));
  });
  for (const button of form.querySelectorAll('[data-calendar]'))
    beginCalendar(button, form[button.dataset.calendar]);
}

function beginCalendar(button, input) {
  const calendar = button.nextElementSibling;
  button.addEventListener('click', () => {
    calendar.value = input.value;
    calendar.showPicker();
  });
  calendar.addEventListener('change', () => {
    input.value = calendar.value;
  });
}

export function showRange({ from, to }) {
  const form = $('#range');
  form.from.value = iso(from);
  form.to.value = iso(to);
  let isOther = true;
  for (const button of form.querySelectorAll('[data-days]')) {
    const last = lastDays(Number(button.dataset.days));
    const is = to === last.to && from === last.from;
    isOther &&= !is;
    button.setAttribute('aria-pressed', String(is));
  }
  $('#dates').setAttribute('aria-pressed', String(isOther));
  for (const link of document.querySelectorAll('nav a')) link.href = linkTo(link.dataset.page);
}
