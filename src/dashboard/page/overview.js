// The first page: the shop's figures, and a panel for each question.

import { drawFigures } from './figures.js';
import { openPage } from './frame.js';
import { DRAW } from './panels.js';
import { $, compared, iso } from './shared.js';

function whatIsCompared(range) {
  const [shown, times] = [inDays(range), compared(range)];
  if (times === undefined) return `${shown}: today is not over, and is compared with no other day`;
  if (times.now.to === range.to) return `${shown}, compared with ${inDays(times.was)}`;
  return `${shown}; today is not over: ${inDays(times.now)} is compared with ${inDays(times.was)}`;
}

const inDays = ({ from, to }) => (from === to ? iso(from) : `${iso(from)} to ${iso(to)}`);

openPage({
  draw: {
    ...DRAW,
    days({ rows }, range, { revenue }) {
      $('#empty').hidden = drawFigures(range, rows, revenue.rows);
    },
  },
  done(range) {
    $('#compared').textContent = whatIsCompared(range);
  },
});
