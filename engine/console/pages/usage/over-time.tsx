import { useMemo } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { type Bar, BarChart } from '../../parts/bar-chart.tsx';
import { shortUsd } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { placesOf } from '../../parts/round-steps.ts';
import { Loaded } from '../../parts/states.tsx';
import { type Dimension, isTime, valueWords } from './question.ts';
import { periodOfStep, type Step, stepsBetween, stepWords } from './range.ts';

type Usage = AnswerOf<'getUsage'>;

const SERIES = 4;
const STEPS: Readonly<Record<Step, string>> = {
  hour: 'Cost per hour',
  day: 'Cost per day',
  week: 'Cost per week',
  month: 'Cost per month',
};

/** Cost over time, split by what the table is grouped by first. */
export function UsageChart({
  question,
  first,
  step,
  since,
}: {
  question: object;
  first: string;
  step: Step;
  since: string | null;
}) {
  const [, change] = usePageSearch();
  const { time_zone } = useSession();
  const split = isTime(first) ? undefined : (first as Dimension);
  const by = split === undefined ? step : `${step},${split}`;
  const compare = since === null ? {} : ({ compare: 'previous' } as const);
  const usage = useOperation('getUsage', { ...question, ...compare, by, limit: SERIES });
  const choose = (bar: Bar) => {
    const period = periodOfStep(bar.key, step);
    if (period !== undefined) change({ ...period, range: undefined });
  };
  return (
    <Card>
      <Loaded query={usage} lines={6}>
        {(answer) => (
          <Drawn
            usage={answer}
            split={split}
            step={step}
            time_zone={time_zone}
            {...(step !== 'hour' && { onChoose: choose })}
          />
        )}
      </Loaded>
    </Card>
  );
}

function Drawn({
  usage,
  split,
  step,
  time_zone,
  onChoose,
}: {
  usage: Usage;
  split: Dimension | undefined;
  step: Step;
  time_zone: string;
  onChoose?: (bar: Bar) => void;
}) {
  const { series, bars } = useMemo(() => barsOf(usage, split, step, time_zone), [usage, split, step, time_zone]);
  return (
    <BarChart
      label={STEPS[step]}
      series={series}
      bars={bars}
      format={usdWords}
      {...(bars.some(({ before }) => before !== undefined) && { before_name: 'The period before' })}
      {...(onChoose && { onChoose })}
    />
  );
}

/** A bar for each step, whether anything happened in it or not, and the names of its parts: the most expensive first. */
function barsOf(usage: Usage, split: Dimension | undefined, step: Step, time_zone: string) {
  const { rows, previous } = usage;
  const nameOf = (row: Usage['rows'][number]) =>
    split === undefined ? '' : row.others > 0 ? OTHERS : valueWords(split, row.of[split]);
  const costs = new Map<string, number>();
  for (const row of rows) costs.set(nameOf(row), (costs.get(nameOf(row)) ?? 0) + row.sums.cost_usd);
  const series = [...costs.keys()].toSorted(
    (a, b) => Number(a === OTHERS) - Number(b === OTHERS) || costs.get(b)! - costs.get(a)!,
  );
  const by_step = Map.groupBy(rows, (row) => row.of[step]);
  const since = usage.since ?? momentOf(rows[0]?.of[step], step) ?? usage.until;
  const steps = stepsBetween(since, usage.until, step, time_zone);
  const before =
    previous === null || previous.total.cost_usd === 0 ? undefined : costsBefore(previous, step, time_zone);
  const bars = steps.map((key, i): Bar => {
    const own = by_step.get(key) ?? [];
    const values = series.map((name) =>
      own.filter((row) => nameOf(row) === name).reduce((sum, { sums }) => sum + sums.cost_usd, 0),
    );
    return { key, ...stepWords(key, step), values, ...(before?.[i] !== undefined && { before: before[i] }) };
  });
  return { series: series.length === 0 ? [''] : series, bars };
}

const OTHERS = 'Others';

/** An amount in USD; beside a line of the chart exactly, with the places of all others there. */
function usdWords(amount: number, step?: number): string {
  if (step === undefined) return shortUsd(amount);
  const exact = placesOf(step);
  const places = exact === 1 ? 2 : exact;
  return `$${amount.toLocaleString('en', { minimumFractionDigits: places, maximumFractionDigits: places })}`;
}

function momentOf(name: string | null | undefined, step: Step): string | undefined {
  if (name === null || name === undefined) return undefined;
  const day = step === 'hour' ? name.slice(0, 10) : periodOfStep(name, step)?.since;
  return day === undefined ? undefined : `${day}T12:00:00Z`;
}

function costsBefore({ since, until, rows }: NonNullable<Usage['previous']>, step: Step, time_zone: string): number[] {
  return stepsBetween(since, until, step, time_zone).map((key) =>
    rows.filter(({ of }) => of[step] === key).reduce((sum, { sums }) => sum + sums.cost_usd, 0),
  );
}
