import { type PointerEvent, useId, useMemo, useState } from 'react';
import { roundSteps } from '../ranges.ts';
import { Button } from './basic.tsx';
import { type Column, DataTable } from './table.tsx';

/** One bar of a chart: a value for each series, one upon the other. */
export interface Bar {
  readonly key: string;
  /** What stands below it. */
  readonly name: string;
  /** What it is called in full. */
  readonly title: string;
  readonly values: readonly number[];
  /** What it was before, as a line across the bar; absent where that is not known. */
  readonly before?: number;
}

interface ChartProps {
  /** What the chart shows, as a sentence without its end. */
  readonly label: string;
  /** At most five names; the colours are told apart by the order in which they stand. */
  readonly series: readonly string[];
  readonly bars: readonly Bar[];
  /** A value in words; with the distance of two lines across the chart, as exact as that. */
  readonly format: (value: number, step?: number) => string;
  /** What `before` is called. */
  readonly before_name?: string;
  /** What is done when a bar is pressed; in the table the same is offered by a button. */
  readonly onChoose?: (bar: Bar) => void;
}

const total = ({ values }: Bar) => values.reduce((sum, value) => sum + value, 0);

/** Bars over time, with a table that says the same to whoever cannot see them or wants the numbers. */
export function BarChart(props: ChartProps) {
  const { label, series, bars, format, before_name } = props;
  const [is_table, showTable] = useState(false);
  const id = useId();
  return (
    <figure className="chart stack" aria-labelledby={id}>
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
        <ul className="chart-legend">
          {series.length > 1 &&
            series.map((name, i) => (
              <li key={name}>
                <span className={`chart-swatch of-${i + 1}`} aria-hidden="true" />
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
  if (first === undefined) return 'there is nothing to show.';
  const highest = rest.reduce((found, bar) => (total(bar) > total(found) ? bar : found), first);
  return `the highest is ${highest.title} with ${format(total(highest))}. "Show as table" has all of them.`;
}

const NAMES_MAX = 8;

function ChartBars({ bars, series, format, before_name, onChoose }: ChartProps) {
  const [at, setAt] = useState<number | undefined>();
  const steps = useMemo(
    () => roundSteps(Math.max(...bars.map((bar) => Math.max(total(bar), bar.before ?? 0)))),
    [bars],
  );
  const top = steps.at(-1)!;
  const width = 100 / Math.max(1, bars.length);
  const height = (value: number) => (value / top) * 100;
  const every = Math.ceil(bars.length / NAMES_MAX);
  const point = ({ currentTarget, clientX }: PointerEvent) => {
    const { left, width: all } = currentTarget.getBoundingClientRect();
    setAt(Math.min(bars.length - 1, Math.max(0, Math.floor(((clientX - left) / all) * bars.length))));
  };
  const pointed = at === undefined ? undefined : bars[at];
  return (
    <div className="chart-area" aria-hidden="true">
      <div className="chart-steps">
        {steps.map((step) => (
          <span key={step} style={{ insetBlockEnd: `${height(step)}%` }}>
            {format(step, steps[1])}
          </span>
        ))}
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: hidden from screen readers, which have the table. */}
      {/* biome-ignore lint/a11y/useKeyWithClickEvents: whoever has a keyboard chooses in the table. */}
      <div
        className={onChoose === undefined ? 'chart-plot' : 'chart-plot can-choose'}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={() => setAt(undefined)}
        onClick={() => pointed !== undefined && onChoose?.(pointed)}
      >
        <svg className="chart-svg" aria-hidden="true" focusable="false">
          {steps.map((step) => (
            <line
              key={step}
              className="chart-step"
              x1="0"
              x2="100%"
              y1={`${100 - height(step)}%`}
              y2={`${100 - height(step)}%`}
            />
          ))}
          {bars.map((bar, i) => (
            <Stack key={bar.key} bar={bar} x={i * width} width={width} height={height} is_pointed={i === at} />
          ))}
        </svg>
        {pointed !== undefined && (
          <div
            className={at! * 2 < bars.length ? 'chart-tip' : 'chart-tip left'}
            style={{ insetInlineStart: `${(at! + 0.5) * width}%` }}
          >
            <strong>{pointed.title}</strong>
            <span>{format(total(pointed))}</span>
            {series.length > 1 &&
              series.map((name, i) =>
                pointed.values[i] === 0 ? null : (
                  <span key={name} className="soft">
                    <span className={`chart-swatch of-${i + 1}`} /> {name}: {format(pointed.values[i]!)}
                  </span>
                ),
              )}
            {pointed.before !== undefined && (
              <span className="soft">{`${before_name}: ${format(pointed.before)}`}</span>
            )}
          </div>
        )}
      </div>
      <div className="chart-names">
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

function Stack({
  bar,
  x,
  width,
  height,
  is_pointed,
}: {
  bar: Bar;
  x: number;
  width: number;
  height: (value: number) => number;
  is_pointed: boolean;
}) {
  const gap = width * 0.16;
  let below = 0;
  return (
    <g>
      {is_pointed && <rect className="chart-pointed" x={`${x}%`} width={`${width}%`} y="0" height="100%" />}
      {bar.values.map((value, i) => {
        const part = height(value);
        below += part;
        return (
          <rect
            // biome-ignore lint/suspicious/noArrayIndexKey: the series is the index.
            key={i}
            className={`of-${i + 1}`}
            x={`${x + gap}%`}
            width={`${width - 2 * gap}%`}
            y={`${100 - below}%`}
            height={`${part}%`}
          />
        );
      })}
      {bar.before !== undefined && (
        <line
          className="chart-before"
          x1={`${x + gap / 2}%`}
          x2={`${x + width - gap / 2}%`}
          y1={`${100 - height(bar.before)}%`}
          y2={`${100 - height(bar.before)}%`}
        />
      )}
    </g>
  );
}

function ChartTable({ label, series, bars, format, before_name, onChoose }: ChartProps) {
  const columns = useMemo((): Column<Bar>[] => {
    const number = (id: string, title: string, value: (bar: Bar) => number | undefined): Column<Bar> => ({
      id,
      title,
      is_number: true,
      sort: (bar) => value(bar) ?? 0,
      cell: (bar) => (value(bar) === undefined ? '' : format(value(bar)!)),
    });
    return [
      { id: 'time', title: 'Time', cell: ({ title }) => title, sort: ({ key }) => key },
      number('total', 'Total', total),
      ...(series.length > 1 ? series.map((name, i) => number(`series ${i}`, name, ({ values }) => values[i])) : []),
      ...(before_name === undefined ? [] : [number('before', before_name, ({ before }) => before)]),
    ];
  }, [series, format, before_name]);
  const told = bars.filter((bar) => total(bar) !== 0 || (bar.before ?? 0) !== 0);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={told}
      keyOf={({ key }) => key}
      {...(onChoose && { onOpen: onChoose })}
    />
  );
}
