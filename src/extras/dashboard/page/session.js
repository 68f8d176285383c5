// Log-in and log-out.

import { $, number } from './shared.js';

const BEHIND_LOGIN = ['nav', '#search', '#range', '#logout', 'main', 'footer'];

let loggedIn;

/** Logs in by the token in the address, and removes it there. @param onLoggedOut aborts requests */
export function beginSession(onLoggedIn, onLoggedOut) {
  loggedIn = onLoggedIn;
  $('#login').addEventListener('submit', (event) => {
    event.preventDefault();
    $('#login-trouble').textContent = 'Looking …';
    logIn(event.target.token.value);
  });
  $('#logout').addEventListener('click', async () => {
    onLoggedOut();
    await fetch('logout', { method: 'POST' }).catch(() => {});
    askForToken();
  });
  const token = new URLSearchParams(location.hash.slice(1)).get('token');
  if (token) {
    history.replaceState(null, '', location.pathname + location.search);
    logIn(token);
  } else onLoggedIn();
}

export function reveal() {
  $('#login').hidden = true;
  for (const selector of BEHIND_LOGIN) $(selector).hidden = false;
}

export function askForToken(why = '') {
  for (const selector of BEHIND_LOGIN) $(selector).hidden = true;
  $('#login').hidden = false;
  $('#login-trouble').textContent = why;
  $('#login').token.focus();
}

async function logIn(token) {
  try {
    const answer = await fetch('login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    });
    const body = await answer.json();
    if (!answer.ok) return askForToken(body.error);
    $('#wrong').textContent =
      body.wrongTokens > 0
        ? `Wrong tokens tried since it was started: ${number.format(body.wrongTokens)}.`
        : '';
    $('#login').reset();
    reveal();
  } catch {
    return askForToken('The dashboard does not answer.');
  }
  loggedIn();
}
