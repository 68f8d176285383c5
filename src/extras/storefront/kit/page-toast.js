// Messages: announced to screen readers, and shown, with buttons.
const toastSheet = new CSSStyleSheet();
// `all`, because a theme's capitals and spacing are inherited.
toastSheet.replaceSync(
  '.t{all:initial;color-scheme:inherit;direction:inherit;font-family:inherit;font-size:1rem;line-height:1.4;position:fixed;z-index:2147483647;inset:auto 16px 16px;margin:auto;width:fit-content;display:flex;align-items:center;gap:var(--g);padding:8px 16px;border:1px solid;border-radius:var(--r);background:CanvasText;color:Canvas}',
);

/**
 * Shows a message for five seconds, ten if it has buttons, longer while the pointer or the focus is in it. It is a
 * popover, because a fixed box would move with an ancestor that has a transform.
 * @param name of a text, or a message
 * @param value replaces the text's `#`
 */
function toast(element, name, actions = {}, value = '') {
  const { make, button, text } = kit;
  const root = element.shadowRoot;
  if (!root.adoptedStyleSheets.includes(toastSheet))
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, toastSheet];
  root.querySelector('.t')?.remove();
  const message = text(element, name, isolated(value, text(element, name, '')));
  const box = make('div', { part: 'toast', class: 't', popover: 'manual' }, message);
  for (const action in actions)
    box.append(
      button('button', text(element, action), () => {
        box.remove();
        actions[action]();
      }),
    );
  root.append(box);
  try {
    box.showPopover();
  } catch {
    // The browser has no popovers, or the element has left the page.
  }
  announce(message);
  const end = () => (box.matches(':hover,:focus-within') ? setTimeout(end, 2000) : box.remove());
  setTimeout(end, box.children[0] ? 10000 : 5000);
}

let live;
function announce(message) {
  // A client-side navigation may have replaced the page. Themes hide what is empty.
  if (!live?.isConnected) {
    live = kit.make('div', { role: 'status' });
    live.style.cssText = 'position:fixed;clip-path:inset(50%);display:block!important';
    document.documentElement.append(live);
  }
  live.textContent = '';
  setTimeout(() => {
    live.textContent = message;
  }, 50);
}

/** Shows or announces the result of a click, once the service has answered. @param error of a refusal */
function say(element, name, error) {
  const message = kit.text(element, name);
  if (name === 'failed') toast(element, error ? `${message}: ${error}` : message);
  else if (name === 'added' && element.hasAttribute('toast')) toast(element, 'saved');
  else announce(message);
}
