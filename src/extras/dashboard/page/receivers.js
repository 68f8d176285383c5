// The page of receivers: their state, counts and last failure, and a test of each.

import { askFor } from './ask.js';
import { openPage } from './frame.js';
import { make, number, timeOf } from './shared.js';

const tests = new Map();

function draw({ receivers }) {
  if (receivers.length === 0)
    return [
      make(
        'p',
        { class: 'notice' },
        'There are no receivers yet. Make one with ',
        make('code', {}, 'wishmeter receivers add https://hooks.shop.example/wishes add,purchase'),
      ),
    ];
  // The focused button is drawn again, so the new one gets the focus.
  const focused = document.activeElement?.closest('[data-receiver]')?.dataset.receiver;
  queueMicrotask(() => document.querySelector(`[data-receiver="${focused}"] button`)?.focus());
  return [make('ul', { class: 'receivers' }, ...receivers.map(drawReceiver))];
}

const STATES = { on: 'On', paused: 'Paused', disabled: 'Disabled' };

function drawReceiver(receiver) {
  const { id, host, types, state, why, delivered, failures, pending } = receiver;
  return make(
    'li',
    { class: 'panel', 'data-receiver': id },
    make(
      'div',
      { class: 'title' },
      make('h3', {}, host),
      make('span', { class: `state ${state}` }, STATES[state]),
      make('small', {}, types.includes('*') ? 'all types' : types.join(', ')),
    ),
    ...(state === 'on' ? [] : halted(state, why, id)),
    make(
      'dl',
      {},
      figure('Delivered', delivered),
      figure('Failed', failures, failures > 0),
      figure('Waiting', pending, false, 'now'),
    ),
    make('p', { class: 'none' }, ...lastOf(receiver)),
    make('div', { class: 'test' }, ...testOf(id)),
  );
}

const figure = (name, n, isBad = false, when = 'last hour') =>
  make(
    'div',
    {},
    make('dt', {}, name, ' ', make('small', {}, when)),
    make('dd', isBad ? { class: 'down' } : {}, number.format(n)),
  );

const halted = (state, why, id) => [
  make(
    'p',
    {},
    state === 'paused' ? 'It was paused by hand. ' : `It was disabled, because ${why}. `,
    'Deliveries wait until it is resumed:',
  ),
  make('code', {}, `wishmeter receivers resume ${id}`),
];

function lastOf({ lastSuccessAt, lastFailureAt, lastError }) {
  const success =
    lastSuccessAt > 0
      ? ['Last delivery: ', make('time', {}, timeOf(lastSuccessAt)), '. ']
      : ['Nothing was delivered yet. '];
  return lastFailureAt > 0
    ? [...success, 'Last error: ', make('time', {}, timeOf(lastFailureAt)), `, ${lastError}.`]
    : success;
}

function testOf(id) {
  const said = make('span', { role: 'status' }, tests.get(id) ?? '');
  const button = make('button', { type: 'button', onclick: () => sendTest(id) }, 'Send a test');
  button.disabled = tests.get(id) === SENDING;
  return [button, said];
}

const SENDING = 'Sending …';

async function sendTest(id) {
  show(id, SENDING);
  const answer = await fetch(`receivers/${id}/test`, { method: 'POST' }).catch(() => undefined);
  const body = await answer?.json().catch(() => undefined);
  show(id, `${timeOf(Date.now())}: ${outcomeOf(body)}`);
}

function outcomeOf({ status, error } = { error: 'the dashboard does not answer' }) {
  if (status === undefined) return `no answer: ${error}`;
  if (status >= 200 && status < 300) return `it took the test (${status}).`;
  return `it answered ${status}, which counts as a failure.`;
}

function show(id, text) {
  tests.set(id, text);
  const place = document.querySelector(`[data-receiver="${id}"] .test`);
  if (place === null) return;
  const [button, said] = place.children;
  said.textContent = text;
  button.disabled = text === SENDING;
}

openPage({
  draw: { receivers: draw },
  ask: (_panel, _range, _parameters, signal) => askFor('receivers.json', 'Redis', signal),
});
