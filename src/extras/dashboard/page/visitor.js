// Draws the data of one visitor. All texts of a visitor become text nodes; links and pictures come from the server,
// which makes them from the shop's settings.

import { count, make, money, note } from './shared.js';
import {
  drawAlerts,
  drawEvents,
  drawPurchases,
  drawShares,
  drawVisitLog,
  drawVisits,
  learnTitles,
  outward,
  PLACES,
  when,
  wordOf,
} from './visitor-tables.js';

export const nameOf = ({ by, text, visitor }) => {
  const [customer] = visitor.customerIds.rows;
  if (customer !== undefined) return `customer ${customer}`;
  if (by === 'customerId') return `customer ${text}`;
  return by === 'sessionId' ? `guest with the session ${text}` : 'guest';
};

export function drawVisitor(shown, { show, download, askToErase }) {
  const { visitor } = shown;
  learnTitles(visitor);
  const panels = [
    ['What happened', visitor.events, drawEvents, 'events'],
    ['Orders', visitor.purchases, drawPurchases, 'lines of orders'],
    ['Visit counts', visitor.visits, drawVisits, 'products'],
    ['Latest visits', visitor.visitLog, drawVisitLog, 'visits'],
    ['Shared lists', visitor.shares, drawShares, 'share links'],
    ['Alerts', visitor.productAlerts, drawAlerts, 'alerts'],
  ];
  const empty = panels.filter(([, list]) => list?.count === 0).map(([title]) => title.toLowerCase());
  return [
    ...(visitor.others.count > 0 ? [drawOthers(shown, show)] : []),
    drawWho(shown, download, askToErase),
    drawItems(visitor.items),
    ...panels.filter(([, list]) => list?.count !== 0).map((one) => panel(...one)),
    ...(empty.length > 0 ? [make('p', { class: 'none' }, `Nothing here: ${empty.join(', ')}.`)] : []),
  ];
}

function section(title, ...children) {
  const id = `t-${title.toLowerCase().replaceAll(' ', '-')}`;
  return make(
    'section',
    { class: 'panel wide', 'aria-labelledby': id },
    make('h2', { id }, title),
    ...children,
  );
}

/** @param list {count, rows}; null if the service has no ClickHouse */
function panel(title, list, draw, what) {
  if (list === null) return section(title, note('Not known here: the service has no CLICKHOUSE_URL.'));
  const more =
    list.count > list.rows.length
      ? [note(`${count(list.rows.length)} of ${count(list.count)} ${what}. The download has all of them.`)]
      : [];
  return section(title, ...draw(list.rows), ...more);
}

function drawOthers({ by, text, visitor }, show) {
  const nameIn = ({ customerIds, sessionIds }) => {
    const [customer, session] = [customerIds?.rows[0], sessionIds?.rows[0]];
    return customer !== undefined ? ['customerId', customer] : ['sessionId', session];
  };
  const others = [visitor, ...visitor.others.rows].map((one) => {
    const [kind, id] = nameIn(one);
    const name = kind === 'customerId' ? `Customer ${id}` : `Guest with the session ${id}`;
    return make(
      'li',
      {},
      id === undefined
        ? `A visitor with the profile ${one.profileId}`
        : make('button', { type: 'button', onclick: () => show(kind, id) }, name),
      one === visitor ? ' (shown below)' : '',
    );
  });
  return make(
    'section',
    { class: 'notice', id: 'others' },
    make('h2', {}, `${count(others.length)} visitors gave ${by === 'email' ? text : 'this'}`),
    make(
      'p',
      {},
      'One is shown below; download and erasure take all of them. Show one to act on that one alone:',
    ),
    make('ul', {}, ...others),
  );
}

function drawWho({ by, text, visitor }, download, askToErase) {
  const { profile, customerIds, sessionIds, profileId, firstAt, lastAt } = visitor;
  const isCustomer = customerIds.count > 0 || by === 'customerId';
  const name = [profile.firstName, profile.lastName].filter(Boolean).join(' ');
  const facts = [
    ['Customer id', ...(isCustomer ? idsOf(customerIds, text) : [])],
    ['Name', name],
    ['E-mail address', profile.email],
    ['Known since', firstAt && when(firstAt)],
    ['Last seen', lastAt && when(lastAt)],
    ['Device', profile.device],
    ['Language', profile.locale],
    [sessionIds.count === 1 ? 'Session' : `Sessions (${count(sessionIds.count)})`, ...idsOf(sessionIds)],
    ['Profile', make('code', {}, profileId)],
  ].filter(([, value]) => value);
  return section(
    isCustomer ? `Customer ${customerIds.rows[0] ?? text}` : 'Guest',
    ...(isCustomer ? [] : [note('Nobody has logged in with this session, so no customer is known.')]),
    make(
      'dl',
      { class: 'facts' },
      ...facts.map(([term, ...values]) =>
        make('div', {}, make('dt', {}, term), ...values.map((value) => make('dd', { dir: 'auto' }, value))),
      ),
    ),
    make(
      'div',
      { class: 'actions' },
      make('button', { type: 'button', onclick: download }, 'Download all data'),
      make('button', { type: 'button', class: 'danger', onclick: askToErase }, 'Erase …'),
    ),
  );
}

function idsOf({ count: all, rows }, otherwise) {
  const ids = rows.length === 0 && otherwise !== undefined ? [otherwise] : rows;
  return all > rows.length ? [...ids, `and ${count(all - rows.length)} more`] : ids;
}

function drawItems(items) {
  const list = make('ul', { class: 'items' }, ...items.rows.map(drawItem));
  const title = `Wishlist: ${count(items.count)} ${items.count === 1 ? 'product' : 'products'}`;
  if (items.count === 0) return section('Wishlist', note('The list is empty.'));
  const more =
    items.count > items.rows.length
      ? [note(`The newest ${count(items.rows.length)}; the download has all.`)]
      : [];
  return section(title, list, ...more);
}

const from = (source) => (source && source !== 'other' ? ` from ${wordOf(PLACES, source)}` : '');

function drawItem(item) {
  const { productTitle, productHandle, variantTitle, image, link, quantity } = item;
  const variant = variantTitle === 'Default Title' ? null : variantTitle;
  return make(
    'li',
    {},
    image === null
      ? make('span', { class: 'picture' })
      : make('img', {
          class: 'picture',
          src: image,
          alt: '',
          loading: 'lazy',
          referrerpolicy: 'no-referrer',
        }),
    make(
      'div',
      {},
      outward(link, productTitle),
      make('small', { dir: 'auto' }, [variant, productHandle].filter(Boolean).join(' · ')),
      make(
        'small',
        {},
        [
          money(Number(item.price), item.currencyCode),
          quantity > 1 ? `${count(quantity)} pieces` : undefined,
          item.inventoryAvailable ? undefined : 'out of stock when it was saved',
        ]
          .filter(Boolean)
          .join(' · '),
      ),
      make('small', {}, 'saved ', when(item.addedAt), from(item.source)),
    ),
  );
}
