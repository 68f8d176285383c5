// The product search in the header, an ARIA combobox.

import { linkTo, range } from './address.js';
import { ask } from './ask.js';
import { $, make, number } from './shared.js';

const TYPING_MS = 150;

const [field, list] = [$('#search input'), $('#suggestions')];
let asking = new AbortController();
let typing;
let suggested = '';
let chosen = -1;

const options = () => [...list.querySelectorAll('[role="option"]')];

function close() {
  clearTimeout(typing);
  asking.abort();
  suggested = '';
  list.hidden = true;
  list.replaceChildren();
  field.setAttribute('aria-expanded', 'false');
  choose(-1);
}

function choose(at) {
  chosen = at;
  for (const [i, option] of options().entries()) option.setAttribute('aria-selected', String(i === chosen));
  const option = options()[chosen];
  if (option === undefined) return field.removeAttribute('aria-activedescendant');
  field.setAttribute('aria-activedescendant', option.id);
  option.scrollIntoView({ block: 'nearest' });
}

function show(rows) {
  list.replaceChildren(
    ...rows.map(({ product_handle, product_title, visits }, i) =>
      make(
        'div',
        { role: 'option', id: `suggestion-${i}`, 'aria-selected': 'false' },
        make(
          'a',
          { href: linkTo('./product', { handle: product_handle }), tabindex: '-1' },
          make('span', { dir: 'auto' }, product_title || product_handle),
          make('small', { dir: 'auto' }, product_title ? product_handle : ''),
          make('small', {}, `${number.format(Number(visits))} visits`),
        ),
      ),
    ),
  );
  if (rows.length === 0)
    list.append(make('p', { class: 'none' }, 'No product of these days has this in its title or handle.'));
  list.hidden = false;
  field.setAttribute('aria-expanded', 'true');
  choose(-1);
}

async function suggest() {
  const text = field.value.trim();
  if (text === '') return close();
  clearTimeout(typing);
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    const { rows } = await ask('search', range(), { text }, signal);
    if (signal.aborted) return;
    suggested = text;
    show(rows);
  } catch {
    // The page's own requests show the error.
    if (!signal.aborted) close();
  }
}

field.addEventListener('input', () => {
  clearTimeout(typing);
  typing = setTimeout(suggest, TYPING_MS);
});
field.addEventListener('keydown', (event) => {
  const all = options().length;
  if (event.key === 'Escape') close();
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || all === 0) return;
  event.preventDefault();
  choose(chosen === -1 && step === -1 ? all - 1 : (chosen + step + all) % all);
});
$('#search').addEventListener('submit', async (event) => {
  event.preventDefault();
  if (suggested !== field.value.trim()) await suggest();
  options()[Math.max(chosen, 0)]?.querySelector('a').click();
});
$('#search').addEventListener('focusout', ({ relatedTarget }) => {
  if (!$('#search').contains(relatedTarget)) close();
});
