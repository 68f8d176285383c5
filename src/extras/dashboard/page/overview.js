// The overview: the shop's figures and panels.

import { goToRange, lastDays } from './address.js';
import { beginComparison, showCompared } from './comparison.js';
import { drawFigures } from './figures.js';
import { openPage } from './frame.js';
import { DRAW } from './panels.js';
import { $, inDays, today } from './shared.js';
import { WISHES } from './wishes.js';

function showEmpty(range, isEmpty) {
  $('main').classList.toggle('is-empty', isEmpty);
  const isUpToToday = range.to >= today();
  $('#no-figures').hidden = !isEmpty || !isUpToToday;
  $('#none-then').hidden = !isEmpty || isUpToToday;
  $('#none-then-days').textContent = inDays(range);
  $('#beacon-tag').textContent = `<script defer src="${beacon()}" data-product-handle="red-shoe"></script>`;
}

/** @returns the beacon's URL, with a placeholder if the dashboard is opened from another machine */
function beacon() {
  const { servicePort, basePath } = document.documentElement.dataset;
  const isHere = ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname);
  const service = isHere ? `http://${location.hostname}:${servicePort}` : 'https://your-wishmeter.example';
  return `${service}${basePath}/beacon.js`;
}

$('#to-last-days').addEventListener('click', () => goToRange(lastDays(28)));

beginComparison();
openPage({
  draw: {
    ...DRAW,
    ...WISHES,
    days({ rows }, range, { revenue }) {
      // The page must be visible first, because the chart takes its width from it.
      showEmpty(range, false);
      showEmpty(range, !drawFigures(range, rows, revenue.rows));
    },
  },
  done: showCompared,
});
