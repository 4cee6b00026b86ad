import { useId, useMemo, useState } from 'react';
import { roundSteps } from '../steps.ts';
import { Button } from './basic.tsx';
import { type Column, type Columns, DataTable } from './table.tsx';

/** A stacked bar with a value per series. */
export interface Bar {
  readonly key: string;
  readonly name: string;
  readonly title: string;
  readonly values: readonly number[];
  /** Value of the previous period, drawn as a line; absent if unknown. */
  readonly before?: number;
}

interface ChartProps {
  readonly label: string;
  /** Names of at most five series, in the order of the colours. */
  readonly series: readonly string[];
  readonly bars: readonly Bar[];
  /** Formats a value; for the axis with the distance of the grid lines, which decides the precision. */
  readonly format: (value: number, step?: number) => string;
  readonly before_name?: string;
  readonly onChoose?: (bar: Bar) => void;
}

const colourOf = (series: number) => ({ background: `var(--chart-${series + 1})` });
const total = ({ values }: Bar) => values.reduce((sum, value) => sum + value, 0);

/** Stacked bars over time, with the same data as an accessible table. */
export function BarChart(props: ChartProps) {
  const { label, series, bars, format, before_name } = props;
  const [is_table, showTable] = useState(false);
  const id = useId();
  return (
    <figure className="stack" aria-labelledby={id}>
      <figcaption className="row spread">
        <span id={id} className="chart-label">
          {label}
        </span>
        <Button kind="quiet" aria-pressed={is_table} onClick={() => showTable(!is_table)}>
          Show as table
        </Button>
      </figcaption>
      {is_table ? (
        <ChartTable {...props} />
      ) : (
        <>
          <ChartBars {...props} />
          <p className="unseen">{`${bars.length} bars; ${describe(bars, format)}`}</p>
        </>
      )}
      {!is_table && (series.length > 1 || before_name !== undefined) && (
        <ul className="small row bare">
          {series.length > 1 &&
            series.map((name, i) => (
              <li key={name}>
                <span className="chart-swatch" style={colourOf(i)} aria-hidden="true" />
                {name}
              </li>
            ))}
          {before_name !== undefined && (
            <li>
              <span className="chart-swatch before" aria-hidden="true" />
              {before_name}
            </li>
          )}
        </ul>
      )}
    </figure>
  );
}

function describe(bars: readonly Bar[], format: (value: number) => string): string {
  const [first, ...rest] = bars;
  if (first === undefined) return 'no data.';
  const highest = rest.reduce((found, bar) => (total(bar) > total(found) ? bar : found), first);
  return `the highest is ${highest.title} with ${format(total(highest))}. "Show as table" has all of them.`;
}

const NAMES_MAX = 8;

function ChartBars({ bars, series, format, before_name, onChoose }: ChartProps) {
  const steps = useMemo(
    () => roundSteps(Math.max(...bars.map((bar) => Math.max(total(bar), bar.before ?? 0)))),
    [bars],
  );
  const top = steps.at(-1)!;
  const width = 100 / Math.max(1, bars.length);
  const height = (value: number) => (value / top) * 100;
  const every = Math.ceil(bars.length / NAMES_MAX);
  const wordsOf = (bar: Bar) => {
    const parts = series.length > 1 ? bar.values.map((value, i) => value > 0 && `${series[i]}: ${format(value)}`) : [];
    const before = bar.before !== undefined && `${before_name}: ${format(bar.before)}`;
    return [`${bar.title}: ${format(total(bar))}`, ...parts, before].filter((line) => line !== false).join('\n');
  };
  return (
    <div className="chart-area" aria-hidden="true">
      <div className="chart-steps soft small number">
        {steps.map((step) => (
          <span key={step} style={{ insetBlockEnd: `${height(step)}%` }}>
            {format(step, steps[1])}
          </span>
        ))}
      </div>
      <div className={onChoose === undefined ? 'chart-plot' : 'chart-plot can-choose'}>
        {steps.map((step) => (
          <div key={step} className="chart-step" style={{ insetBlockEnd: `${height(step)}%` }} />
        ))}
        {bars.map((bar, i) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: hidden from screen readers, which have the table.
          // biome-ignore lint/a11y/useKeyWithClickEvents: keyboard users choose in the table.
          <div
            key={bar.key}
            className="chart-bar"
            title={wordsOf(bar)}
            style={{ insetInlineStart: `${i * width}%`, inlineSize: `${width}%` }}
            onClick={() => onChoose?.(bar)}
          >
            {bar.values.map((value, part) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the series is the index.
              <div key={part} className="chart-part" style={{ ...colourOf(part), blockSize: `${height(value)}%` }} />
            ))}
            {bar.before !== undefined && (
              <div className="chart-before" style={{ insetBlockEnd: `${height(bar.before)}%` }} />
            )}
          </div>
        ))}
      </div>
      <div className="chart-names soft small">
        {bars.map((bar, i) =>
          i % every === 0 ? (
            <span
              key={bar.key}
              className={(i / every) % 2 === 1 ? 'minor' : undefined}
              style={{ insetInlineStart: `${(i + 0.5) * width}%` }}
            >
              {bar.name}
            </span>
          ) : null,
        )}
      </div>
    </div>
  );
}

function ChartTable({ label, series, bars, format, before_name, onChoose }: ChartProps) {
  const number = (id: string, title: string, value: (bar: Bar) => number | undefined): Column<Bar> => ({
    id,
    title,
    is_number: true,
    sort: (bar) => value(bar) ?? 0,
    cell: (bar) => (value(bar) === undefined ? '' : format(value(bar)!)),
  });
  const parts = series.length > 1 ? series : [];
  const columns: Columns<Bar> = [
    { title: 'Time', id: 'time', cell: 'title', sort: 'key' },
    number('total', 'Total', total),
    ...parts.map((name, i) => number(`series ${i}`, name, ({ values }) => values[i])),
    before_name !== undefined && number('before', before_name, ({ before }) => before),
  ];
  const shown = bars.filter((bar) => total(bar) !== 0 || (bar.before ?? 0) !== 0);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={shown}
      keyOf={({ key }) => key}
      {...(onChoose && { onOpen: onChoose })}
    />
  );
}
