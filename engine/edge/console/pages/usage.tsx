import { type ReactNode, useMemo } from 'react';
import { REPORT_TIMES, type ReportTime } from '../../../base/contract/windows.ts';
import { type PageSearch, type ResponseOf, usePageSearch, useSession } from '../api.ts';
import { OPERATIONS } from '../operations.ts';
import { type Bar, BarChart } from '../parts/bar-chart.tsx';
import { Button, Query } from '../parts/basic.tsx';
import { Field, type Filter, Filters, filtersIn, PERIOD, titleOf } from '../parts/field.tsx';
import { Card, EmptyState, Figures, PageHead, To } from '../parts/page.tsx';
import { type Column, type Columns, DataTable, Files } from '../parts/table.tsx';
import { below, num, say, share, short, shortUsd, soft, Trend, trendWords, usd } from '../parts/words.tsx';
import { dayAfter, periodOf, RANGE_TITLES, rangeOf, today } from '../ranges.ts';
import { beginningOfStep, periodOfStep, stepOf, stepsBetween, stepWords } from '../steps.ts';

const DIMENSIONS = {
  user: 'Person',
  team: 'Team',
  project: 'Project',
  model: 'Model',
  upstream: 'Upstream',
  upstream_model: 'Upstream model',
  protocol: 'Protocol',
  token: 'Token',
  token_group: 'Token group',
  answered_model: 'Responding model, if different',
  service_tier: 'Service tier',
  speed: 'Speed',
  status: 'Status',
  estimated: 'Estimated',
  ...(Object.fromEntries(REPORT_TIMES.map((time) => [time, titleOf(time)])) as Record<ReportTime, string>),
} as const;
type Dimension = keyof typeof DIMENSIONS;

const FILTERS: readonly Filter[] = OPERATIONS.getUsage.query
  .filter(isDimension)
  .map((name, i) => ({ name, label: DIMENSIONS[name], is_minor: i > 4 }));

const MOST = 4;

function isDimension(text: string): text is Dimension {
  return Object.hasOwn(DIMENSIONS, text);
}

function isTime(name: string): name is ReportTime {
  return (REPORT_TIMES as readonly string[]).includes(name);
}

function dimensionsOf({ by }: PageSearch, fallback: Dimension): Dimension[] {
  const named = (by ?? '').split(',').filter(isDimension);
  return named.length === 0 ? [fallback] : [...new Set(named)].slice(0, MOST);
}

function finer(by: readonly Dimension[], name: Dimension): Dimension {
  const order: readonly Dimension[] = ['team', 'user', 'model', 'token', 'upstream'];
  const rest = order.filter((each) => each !== name && !by.includes(each));
  return rest.find((each) => name !== 'token' || each !== 'user') ?? 'day';
}

const ESTIMATES: Readonly<Record<string, string>> = {
  yes: 'Estimated',
  no: 'Reported by the upstream',
  clamped: 'Reported usage impossible; capped',
};

function valueWords(name: Dimension, value: string | null | undefined): string {
  if (value === null || value === undefined) {
    return name === 'answered_model' ? '(as sent)' : `(no ${DIMENSIONS[name].toLowerCase()})`;
  }
  return (name === 'estimated' && ESTIMATES[value]) || value;
}

function Ranges() {
  const [search] = usePageSearch();
  const { time_zone } = useSession();
  const range = rangeOf(search);
  const now = today(time_zone);
  const searchFor = (name: string) =>
    name === 'custom'
      ? { range: '', since: dayAfter(now, -13), until: dayAfter(now, 1) }
      : { range: name, since: '', until: '' };
  const time: Filter = {
    name: 'range',
    label: 'Time',
    options: Object.entries(RANGE_TITLES),
    value: range,
    searchFor,
  };
  return <Filters of={range === 'custom' ? [time, ...PERIOD] : [time]} />;
}

function Grouping({ by }: { by: readonly Dimension[] }) {
  const [, change] = usePageSearch();
  const put = (i: number, name: string) => {
    const next = name === '' ? by.toSpliced(i, 1) : by.toSpliced(i, 1, name as Dimension);
    change({ by: next.join(','), rows: undefined });
  };
  const places = by.length < MOST ? [...by, undefined] : by;
  return (
    <div className="filters">
      {places.map((name, i) => {
        const free = (Object.keys(DIMENSIONS) as Dimension[]).filter((each) => each === name || !by.includes(each));
        const options = free.map((value) => [value, DIMENSIONS[value]] as const);
        return (
          <Field
            // biome-ignore lint/suspicious/noArrayIndexKey: a place keeps its focus when what is in it changes.
            key={i}
            label={i === 0 ? 'Group by' : 'then by'}
            value={name ?? ''}
            onValue={(value) => put(i, value)}
            options={i === 0 && by.length === 1 ? options : [['', '–'], ...options]}
          />
        );
      })}
    </div>
  );
}

type Usage = ResponseOf<'getUsage'>;

const SERIES = 4;

function UsageChart({ query, usage: { by, since, until } }: { query: object; usage: Usage }) {
  const step = stepOf(since, until);
  const split = isTime(by[0]!) ? undefined : (by[0] as Dimension);
  const compare = since === null ? {} : ({ compare: 'previous' } as const);
  const input = { ...query, ...compare, by: split === undefined ? step : `${step},${split}`, limit: SERIES };
  return (
    <Card>
      <Query operation="getUsage" input={input}>
        {(usage) => <Drawn usage={usage} split={split} step={step} />}
      </Query>
    </Card>
  );
}

function Drawn({ usage, split, step }: { usage: Usage; split: Dimension | undefined; step: ReportTime }) {
  const [, change] = usePageSearch();
  const { time_zone } = useSession();
  const { series, bars } = useMemo(() => barsOf(usage, split, step, time_zone), [usage, split, step, time_zone]);
  const choose = (bar: Bar) => {
    const period = periodOfStep(bar.key, step);
    if (period !== undefined) change({ ...period, range: undefined });
  };
  return (
    <BarChart
      label={`Cost per ${step}`}
      series={series}
      bars={bars}
      format={usdWords}
      {...(bars.some(({ before }) => before !== undefined) && { before_name: 'Previous period' })}
      {...(step !== 'hour' && { onChoose: choose })}
    />
  );
}

/** A bar for each step, including empty ones, and the series, the most expensive first. */
function barsOf(usage: Usage, split: Dimension | undefined, step: ReportTime, time_zone: string) {
  const { rows, previous } = usage;
  const nameOf = (row: Usage['rows'][number]) =>
    split === undefined ? '' : row.others > 0 ? OTHERS : valueWords(split, row.of[split]);
  const by_name = [...Map.groupBy(rows, nameOf)].map(([name, own]) => ({ name, cost: sumOf(own) }));
  const series = by_name
    .toSorted((a, b) => Number(a.name === OTHERS) - Number(b.name === OTHERS) || b.cost - a.cost)
    .map(({ name }) => name);
  const by_step = rowsByStep(rows, step);
  const [first] = by_step.keys();
  const since = usage.since ?? (first === undefined ? usage.until : `${first.slice(0, 10)}T12:00:00Z`);
  const steps = stepsBetween(since, usage.until, step, time_zone);
  const before =
    previous === null || previous.total.cost_usd === 0 ? undefined : costsBefore(previous, step, time_zone);
  const bars = steps.map((key, i): Bar => {
    const own = by_step.get(key) ?? [];
    const values = series.map((name) => sumOf(own.filter((row) => nameOf(row) === name)));
    return { key, ...stepWords(key, step), values, ...(before?.[i] !== undefined && { before: before[i] }) };
  });
  return { series: series.length === 0 ? [''] : series, bars };
}

const OTHERS = 'Others';
const sumOf = (rows: Usage['rows']) => rows.reduce((sum, { sums }) => sum + sums.cost_usd, 0);

/** An amount in USD; on the axis exact: round values have at most three digits. */
function usdWords(amount: number, step?: number): string {
  return step === undefined ? shortUsd(amount) : `$${amount.toLocaleString('en', { maximumSignificantDigits: 3 })}`;
}

function rowsByStep(rows: Usage['rows'], step: ReportTime): Map<string, Usage['rows'][number][]> {
  return Map.groupBy(rows, ({ of }) => beginningOfStep(of[step]!, step));
}

function costsBefore(
  { since, until, rows }: NonNullable<Usage['previous']>,
  step: ReportTime,
  time_zone: string,
): number[] {
  const by_step = rowsByStep(rows, step);
  return stepsBetween(since, until, step, time_zone).map((key) => sumOf(by_step.get(key) ?? []));
}

type Sums = Usage['total'];

function Summary({ usage: { total, previous } }: { usage: Usage }) {
  const before = previous?.total;
  const cached = total.cache_read_tokens + total.cache_write_5m_tokens + total.cache_write_1h_tokens;
  const possible = total.possibly_billed_usd ?? 0;
  const trend = (of: (sums: Sums) => number) => <Trend now={of(total)} before={before && of(before)} />;
  return (
    <Figures
      of={[
        { title: 'Cost', figure: usd(total.cost_usd), below: trend((sums) => sums.cost_usd) },
        { title: 'Requests', figure: num(total.requests), below: trend((sums) => sums.requests) },
        { title: 'Input tokens', figure: short(tokensIn(total)), below: trend(tokensIn) },
        { title: 'Output tokens', figure: short(total.output_tokens), below: trend((of) => of.output_tokens) },
        {
          title: 'Cache hits',
          figure: <Ratio of={total.cache_hit_ratio} />,
          below: cached === 0 ? 'no caching' : 'of the input tokens',
        },
        {
          title: 'Estimated',
          figure: <Ratio of={total.cost_usd === 0 ? null : total.estimated_usd / total.cost_usd} />,
          below: possible > 0 ? say`failed attempts may add ${usd(possible)}` : 'of the cost',
        },
      ]}
    />
  );
}

function Ratio({ of }: { of: number | null }) {
  return of === null ? '–' : share(of);
}

function tokensIn(sums: Sums): number {
  return sums.input_tokens + sums.cache_read_tokens + sums.cache_write_5m_tokens + sums.cache_write_1h_tokens;
}

type UsageRow = Usage['rows'][number];

interface Row extends UsageRow {
  readonly key: string;
  readonly before: number | undefined;
  readonly share: number;
}

function UsageTable({ usage, filters }: { usage: Usage; filters: PageSearch }) {
  const [search, change] = usePageSearch();
  const by = useMemo(() => usage.by.filter(isDimension), [usage]);
  const rows = useMemo(() => rowsOf(usage), [usage]);
  const columns = useMemo(() => columnsOf(usage, by, filters), [usage, by, filters]);
  return (
    <Card title={`By ${by.map((name) => DIMENSIONS[name].toLowerCase()).join(', ')}`}>
      <DataTable label="Usage" columns={columns} rows={rows} keyOf={({ key }) => key} />
      {rows.some(({ others }) => others > 0) && search.rows !== 'all' && (
        <Button kind="quiet" onClick={() => change({ rows: 'all' })}>
          Show up to 1,000 rows
        </Button>
      )}
    </Card>
  );
}

function rowsOf({ rows, previous, total }: Usage): Row[] {
  const keyOf = (row: UsageRow) => JSON.stringify([row.others > 0, row.of]);
  const before = new Map(previous?.rows.map((row) => [keyOf(row), row.sums.cost_usd]));
  return rows.map((row) => ({
    ...row,
    key: keyOf(row),
    before: previous === null ? undefined : (before.get(keyOf(row)) ?? 0),
    share: total.cost_usd === 0 ? 0 : row.sums.cost_usd / total.cost_usd,
  }));
}

function numbers(title: string, of: (sums: Sums) => number, cell?: (row: Row) => ReactNode): Column<Row> {
  return {
    title,
    is_number: true,
    sort: ({ sums }) => of(sums),
    cell: cell ?? (({ sums }) => short(of(sums))),
  };
}

function columnsOf(
  { previous, total, since, until }: Usage,
  by: readonly Dimension[],
  filters: PageSearch,
): Columns<Row> {
  const estimated = ({ cost_usd, estimated_usd }: Sums) => (cost_usd > 0 ? estimated_usd / cost_usd : 0);
  const period = { ...(since !== null && { since }), until };
  return [
    ...by.map(
      (name): Column<Row> => ({
        title: DIMENSIONS[name],
        sort: ({ of }) => of[name] ?? '',
        cell: (row) => <Name row={row} name={name} by={by} />,
      }),
    ),
    numbers(
      'Cost',
      ({ cost_usd }) => cost_usd,
      ({ sums, share: of_all }) => say`${usd(sums.cost_usd)}${below(share(of_all))}`,
    ),
    previous !== null &&
      !by.some(isTime) && {
        title: 'Change',
        is_number: true,
        sort: ({ sums, before }) => sums.cost_usd - (before ?? 0),
        cell: ({ sums: { cost_usd }, before }) =>
          before === undefined
            ? null
            : before === 0
              ? soft(cost_usd === 0 ? '–' : 'new')
              : trendWords(cost_usd, before),
      },
    numbers(
      'Requests',
      ({ requests }) => requests,
      ({ of, others, sums: { requests } }) => {
        const count = num(requests);
        const to = others > 0 ? undefined : requestsOf({ ...filters, ...of });
        if (to === undefined) return count;
        return (
          <To page={['/requests', { ...to, ...period }]} title="Show these requests">
            {count}
          </To>
        );
      },
    ),
    // Empty columns would push others out of sight.
    total.estimated_usd > 0 &&
      numbers('Estimated', estimated, ({ sums }) => <Ratio of={sums.estimated_usd === 0 ? null : estimated(sums)} />),
    numbers('Input', ({ input_tokens }) => input_tokens),
    numbers('Output', ({ output_tokens }) => output_tokens),
    numbers('Cache read', ({ cache_read_tokens }) => cache_read_tokens),
    total.cache_write_5m_tokens > 0 && numbers('Written 5m', (sums) => sums.cache_write_5m_tokens),
    total.cache_write_1h_tokens > 0 && numbers('Written 1h', (sums) => sums.cache_write_1h_tokens),
    numbers(
      'Cache hits',
      ({ cache_hit_ratio }) => cache_hit_ratio ?? -1,
      ({ sums }) => <Ratio of={sums.cache_hit_ratio} />,
    ),
  ];
}

/** URL parameters for the requests of a row; `undefined` if the list of requests cannot filter by its values. */
function requestsOf(names: UsageRow['of']): PageSearch | undefined {
  const is_known = ([name, value]: [string, string | null]) =>
    value !== null && OPERATIONS.listRequests.query.includes(name);
  return Object.entries(names).every(is_known) ? (names as PageSearch) : undefined;
}

function Name({ row, name, by }: { row: Row; name: Dimension; by: readonly Dimension[] }) {
  const [search] = usePageSearch();
  if (row.others > 0) return name === by[0] ? <em>{`${row.others} others`}</em> : null;
  const value = row.of[name];
  const words = valueWords(name, value);
  const to = value === null || value === undefined ? undefined : narrowed(name, value, by);
  const style = isTime(name) ? 'time' : value === null ? 'soft' : '';
  if (to === undefined) return <span className={style}>{words}</span>;
  return (
    <To page={['/usage', { ...search, ...to }]} className={style} title={`Usage of ${words} only`}>
      {words}
    </To>
  );
}

function narrowed(name: Dimension, value: string, by: readonly Dimension[]): PageSearch | undefined {
  const rest = by.filter((each) => each !== name);
  const next = (rest.length > 0 ? rest : [finer(by, name)]).join(',');
  if (OPERATIONS.getUsage.query.includes(name)) return { [name]: value, by: next, rows: undefined };
  const period = isTime(name) ? periodOfStep(beginningOfStep(value, name), name) : undefined;
  return period && { ...period, range: undefined, by: next, rows: undefined };
}

/** Rows shown by default; the rest is summed up. */
const ROWS = 50;
const ALL_ROWS = 1000;

/** Usage page: tokens and cost by up to four dimensions, compared with the previous period. */
export function Page() {
  const [search] = usePageSearch();
  const { time_zone, person } = useSession();
  const by = dimensionsOf(search, person.is_admin ? 'user' : 'model');
  const filters = filtersIn(search, FILTERS);
  const period = periodOf(search, time_zone);
  const compare = period.since === undefined ? {} : ({ compare: 'previous' } as const);
  const query = { ...period, ...filters, by: by.join(',') };
  const limit = search.rows === 'all' ? ALL_ROWS : ROWS;
  return (
    <>
      <PageHead
        title="Usage"
        intro={`${person.is_admin ? 'Tokens and cost of all requests' : 'Tokens and cost of your requests'}, from the ledger. Days begin at midnight, ${time_zone}.`}
      >
        <Files of={{ 'Download CSV': 'exportUsage' }} input={query} />
      </PageHead>
      <div className="usage-controls filters">
        <Ranges />
        <Grouping by={by} />
        <Filters
          of={FILTERS.filter(({ name }) => person.is_admin || name !== 'user')}
          clear="Clear filters"
          resets={{ rows: undefined }}
        />
      </div>
      <Query operation="getUsage" input={{ ...query, ...compare, limit }}>
        {(response) =>
          response.total.requests === 0 && response.total.cost_usd === 0 && response.rows.length === 0 ? (
            <EmptyState is_card title="No requests in this period">
              Choose a longer period or remove a filter. Requests appear here when they are finished.
            </EmptyState>
          ) : (
            <div className="stack apart">
              <p className="soft small">
                {words(response, time_zone)}
                {response.previous !== null && `, compared with ${words(response.previous, time_zone)}`}
              </p>
              <Summary usage={response} />
              <UsageChart query={query} usage={response} />
              <UsageTable usage={response} filters={filters} />
            </div>
          )
        }
      </Query>
    </>
  );
}

function words({ since, until }: { readonly since: string | null; readonly until: string }, time_zone: string): string {
  const format = new Intl.DateTimeFormat('en', {
    timeZone: time_zone,
    dateStyle: 'medium',
    timeStyle: 'short',
    hourCycle: 'h23',
  });
  const end = new Date(until);
  return since === null ? `all time until ${format.format(end)}` : format.formatRange(new Date(since), end);
}
