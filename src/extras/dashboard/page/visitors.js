// The page of visitors, for support: it finds, shows, downloads and erases a visitor's data. Requests are POSTs, so that
// no e-mail address is in a URL, a history or an access log. Nothing of a visitor is in this page's address or title.

import './search.js';
import { askForToken, beginSession, reveal } from './session.js';
import { $, count, make } from './shared.js';
import { drawVisitor, nameOf } from './visitor.js';

const KINDS = { customerId: 'customer id', sessionId: 'session id', email: 'e-mail address' };

let asking = new AbortController();
/** {by, text, visitor} */
let shown;

class Refused extends Error {}

const post = (action, body, signal) =>
  fetch(`visitors/${action}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });

async function refusalOf(answer) {
  if (answer.status === 401) {
    clear();
    askForToken();
    return new Refused('');
  }
  const { error } = await answer.json().catch(() => ({}));
  return new Refused(error ?? `The dashboard, or a proxy before it, answered ${answer.status}.`);
}

function say(text, isBad = false) {
  $('#outcome').textContent = text;
  $('#outcome').classList.toggle('down', isBad);
}

function clear() {
  asking.abort();
  shown = undefined;
  if ($('#erasing').open) $('#erasing').close('keep');
  $('#visitor').replaceChildren();
  say('');
}

/** Runs one request at a time; a newer one aborts it. */
async function during(text, act) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  say(text);
  $('#visitor').setAttribute('aria-busy', 'true');
  try {
    await act(signal);
  } catch (error) {
    if (signal.aborted) return;
    say(error instanceof Refused ? error.message : 'The dashboard does not answer.', true);
  } finally {
    if (!signal.aborted) $('#visitor').removeAttribute('aria-busy');
  }
}

function find(by, text) {
  clear();
  return during('Looking …', async (signal) => {
    const answer = await post('find', { by, text }, signal);
    if (!answer.ok) throw await refusalOf(answer);
    const visitor = await answer.json();
    if (signal.aborted) return;
    shown = { by: visitor.by, text, visitor };
    const names = nameOf(shown);
    say(visitor.others.count === 0 ? `Found by ${KINDS[visitor.by]}: ${names}.` : '');
    $('#visitor').replaceChildren(...drawVisitor(shown, { show: showOther, download, askToErase }));
  });
}

function showOther(by, text) {
  $('#find').text.value = text;
  $('#find').by.value = by;
  return find(by, text);
}

const profilesOf = ({ visitor }) => [visitor, ...visitor.others.rows].map(({ profileId }) => profileId);

function download() {
  const { by, text, visitor } = shown;
  return during('Reading the whole export …', async (signal) => {
    const answer = await post('export', { by, text, profiles: profilesOf(shown) }, signal);
    if (!answer.ok) throw await refusalOf(answer);
    const whole = await answer.blob().catch(() => {
      throw new Refused('The export was cut off, and nothing was saved. Find the visitor again.');
    });
    const href = URL.createObjectURL(whole);
    make('a', { href, download: `wishmeter-visitor-${visitor.profileId}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
    say(`The export was downloaded (${count(Math.ceil(whole.size / 1_024))} KB).`);
  });
}

function askToErase() {
  const { visitor } = shown;
  const others = visitor.others.count;
  $('#t-erasing').textContent = `Erase ${others === 0 ? nameOf(shown) : `${count(others + 1)} visitors`}?`;
  $('#erasing-what').replaceChildren(
    make(
      'p',
      {},
      others === 0
        ? `The list of ${count(visitor.items.count)} products, the visits, shares, events and orders are erased. This can't be undone.`
        : `This address leads to ${count(others + 1)} visitors, and all of them are erased, with their lists, visits, shares, events and orders. This can't be undone. To erase one of them, show that one first.`,
    ),
  );
  $('#erasing').returnValue = 'keep';
  $('#erasing').showModal();
}

function erase() {
  const { by, text } = shown;
  return during('Erasing …', async (signal) => {
    const answer = await post('erase', { by, text, profiles: profilesOf(shown) }, signal);
    if (!answer.ok) throw await refusalOf(answer);
    const name = nameOf(shown);
    clear();
    say(
      `Erased: ${name}. The shop's figures lose the rows within the hour, unless ERASURE_INTERVAL_S says otherwise.`,
    );
    $('#find').text.value = '';
    $('#find').text.focus();
  });
}

async function begin() {
  clear();
  const answer = await fetch('visitors.json').catch(() => undefined);
  if (answer?.status === 401) return askForToken();
  const { name, error } = (await answer?.json().catch(() => undefined)) ?? {};
  $('#own-login').hidden = answer?.status !== 403;
  $('#finding').hidden = name === undefined;
  $('#person').textContent = name ?? '';
  if (name === undefined && answer?.status !== 403) {
    $('#trouble').textContent = error ?? 'The dashboard does not answer.';
    $('#trouble').hidden = false;
  } else $('#trouble').hidden = true;
  reveal();
  if (name !== undefined) $('#find').text.focus();
}

$('#find').addEventListener('submit', (event) => {
  event.preventDefault();
  find(event.target.by.value, event.target.text.value.trim());
});
$('#erasing').addEventListener('close', () => {
  if ($('#erasing').returnValue === 'erase' && shown !== undefined) erase();
});
$('#as-yourself').addEventListener('click', async () => {
  await fetch('logout', { method: 'POST' }).catch(() => {});
  askForToken();
});
beginSession(begin, clear);
