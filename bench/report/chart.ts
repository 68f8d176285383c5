// Requests per second of visits, reads and the peers as a chart, SVG, drawn without a browser.

import { init } from 'echarts';
import type { Results } from '../results.js';
import { medianOf } from '../slice.js';

const COLOURS = { limit: '#9aa0a6', floor: '#9aa0a6', peer: '#d08a3c', ours: '#2f6f9f' } as const;
const ROW = 30;
/** Width of the names, fixed: text can't be measured without a browser. */
const NAMES = 250;

export function chart({ groups }: Results): string {
  const cases = Object.values(groups?.visits ?? {});
  const canvas = init(null, null, {
    renderer: 'svg',
    ssr: true,
    width: 860,
    height: 84 + ROW * cases.length,
  });
  canvas.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    title: { text: 'Requests per second', left: 16, top: 12, textStyle: { fontSize: 16 } },
    grid: { left: NAMES, right: 90, top: 44, bottom: 28 },
    xAxis: { type: 'value', axisLabel: { formatter: (value: number) => value.toLocaleString('en') } },
    yAxis: {
      type: 'category',
      inverse: true,
      data: cases.map(({ title }) => title),
      axisTick: { show: false },
    },
    series: [
      {
        type: 'bar',
        barWidth: '62%',
        data: cases.map(({ slices, who }) => ({
          value: Math.round(medianOf([slices], ({ perSecond }) => perSecond).value),
          itemStyle: { color: COLOURS[who] },
        })),
        label: {
          show: true,
          position: 'right',
          formatter: ({ value }: { value?: unknown }) => Number(value).toLocaleString('en'),
        },
      },
    ],
  });
  const svg = canvas.renderToSVGString();
  canvas.dispose();
  return svg;
}
