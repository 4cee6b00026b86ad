import { type FormEvent, type ReactNode, useMemo, useState } from 'react';
import { type AnswerOf, addressOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import { type Bar, BarChart } from '../parts/bar-chart.tsx';
import {
  Button,
  Card,
  Choice,
  EmptyState,
  Figures,
  Icon,
  Loaded,
  num,
  PageHead,
  say,
  share,
  short,
  shortUsd,
  To,
  Trend,
  trendWords,
  usd,
} from '../parts/basic.tsx';
import { Field, Filters } from '../parts/field.tsx';
import { type Column, type Columns, DataTable, Files } from '../parts/table.tsx';
import {
  dayAfter,
  momentWords,
  periodOf,
  periodOfStep,
  placesOf,
  RANGE_TITLES,
  rangeOf,
  type Step,
  stepOf,
  stepsBetween,
  stepWords,
  today,
} from '../ranges.ts';

/** What usage can be grouped by, with the words for it. */
const DIMENSIONS = {
  user: 'Person',
  team: 'Team',
  project: 'Project',
  model: 'Model',
  upstream: 'Upstream',
  upstream_model: 'Model as the upstream calls it',
  protocol: 'Protocol',
  token: 'Token',
  token_group: 'Token group',
  answered_model: 'Model that answered instead',
  service_tier: 'Service tier',
  speed: 'Speed',
  status: 'Status',
  estimated: 'Estimated',
  hour: 'Hour',
  day: 'Day',
  week: 'Week',
  month: 'Month',
} as const;
type Dimension = keyof typeof DIMENSIONS;

const NO_FILTER = new Set<Dimension>(['status', 'estimated', 'hour', 'day', 'week', 'month']);

const FILTERS = (Object.keys(DIMENSIONS) as Dimension[]).filter((name) => !NO_FILTER.has(name));

/** What the list of requests can be narrowed down by. */
const OF_REQUESTS = ['user', 'team', 'project', 'token', 'token_group', 'model', 'upstream', 'status'];

/** At most as many dimensions at once. */
const MOST = 4;

function isDimension(text: string): text is Dimension {
  return Object.hasOwn(DIMENSIONS, text);
}

function isTime(name: string): name is Step {
  return ['hour', 'day', 'week', 'month'].includes(name);
}

/** What usage is grouped by, as an address says it. */
function dimensionsOf({ by }: PageSearch, fallback: Dimension): Dimension[] {
  const named = (by ?? '').split(',').filter(isDimension);
  return named.length === 0 ? [fallback] : [...new Set(named)].slice(0, MOST);
}

type Filtered = Readonly<Partial<Record<Dimension, string>>>;

/** What usage is narrowed down by, as an address says it. */
function filtersOf(search: PageSearch): Filtered {
  return Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
}

/** What to group by once one knows which of something it is. */
function finer(by: readonly Dimension[], name: Dimension): Dimension {
  const order: readonly Dimension[] = ['team', 'user', 'model', 'token', 'upstream'];
  const rest = order.filter((each) => each !== name && !by.includes(each));
  return rest.find((each) => name !== 'token' || each !== 'user') ?? 'day';
}

const ESTIMATES: Readonly<Record<string, string>> = {
  yes: 'Estimated',
  no: 'Told by the upstream',
  clamped: 'More than possible',
};

function valueWords(name: Dimension, value: string | null | undefined): string {
  if (value === null || value === undefined) return `(no ${DIMENSIONS[name].toLowerCase()})`;
  return (name === 'estimated' && ESTIMATES[value]) || value;
}

function Ranges() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const range = rangeOf(search);
  const now = today(time_zone);
  const choose = (name: string) => {
    if (name !== 'custom') change({ range: name, since: undefined, until: undefined });
    else change({ range: undefined, since: dayAfter(now, -13), until: dayAfter(now, 1) });
  };
  return (
    <div className="usage-range filters">
      <Choice label="Time" options={RANGE_TITLES} value={range} onValue={choose} />
      {range === 'custom' && (
        <Filters
          of={[
            { name: 'since', label: 'From', is_date: true },
            { name: 'until', label: 'To (included)', is_date: true, is_end: true },
          ]}
        />
      )}
    </div>
  );
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
            label={i === 0 ? 'Group by' : 'and by'}
            value={name ?? ''}
            onValue={(value) => put(i, value)}
            options={i === 0 && by.length === 1 ? options : [['', '–'], ...options]}
          />
        );
      })}
    </div>
  );
}

function FilterBy({ filters }: { filters: Filtered }) {
  const [, change] = usePageSearch();
  const { is_admin } = useSession().person;
  const [name, setName] = useState<Dimension>('model');
  const [value, setValue] = useState('');
  const add = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() === '') return;
    change({ [name]: value.trim(), rows: undefined });
    setValue('');
  };
  return (
    <div className="usage-filters filters">
      <form className="filters" onSubmit={add}>
        <Field
          label="Only"
          value={name}
          onValue={(chosen) => setName(chosen as Dimension)}
          options={FILTERS.filter((each) => is_admin || each !== 'user').map((each) => [each, DIMENSIONS[each]])}
        />
        <Field label="is" value={value} onValue={setValue} placeholder={PLACEHOLDERS[name] ?? ''} />
        <Button type="submit">Add filter</Button>
      </form>
      {Object.keys(filters).length > 0 && (
        <ul className="row bare" aria-label="Filters">
          {(Object.entries(filters) as [Dimension, string][]).map(([each, wanted]) => (
            <li key={each}>
              <Button className="any" onClick={() => change({ [each]: undefined, rows: undefined })}>
                <span>
                  {DIMENSIONS[each]}: <strong>{wanted}</strong>
                </span>
                <span className="unseen">, take this filter away</span>
                <Icon name="close" />
              </Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const PLACEHOLDERS: Readonly<Partial<Record<Dimension, string>>> = {
  user: 'ana@example.com',
  protocol: 'messages',
  token: 'tok_…',
};

type Usage = AnswerOf<'getUsage'>;

const SERIES = 4;

interface ChartProps {
  readonly question: object;
  readonly first: Dimension;
  readonly step: Step;
  readonly since: string | null;
}

/** Cost over time, split by what the table is grouped by first. */
function UsageChart({ question, first, step, since }: ChartProps) {
  const split = isTime(first) ? undefined : first;
  const by = split === undefined ? step : `${step},${split}`;
  const compare = since === null ? {} : ({ compare: 'previous' } as const);
  const usage = useOperation('getUsage', { ...question, ...compare, by, limit: SERIES });
  return (
    <Card>
      <Loaded query={usage} lines={6}>
        {(answer) => <Drawn usage={answer} split={split} step={step} />}
      </Loaded>
    </Card>
  );
}

function Drawn({ usage, split, step }: { usage: Usage; split: Dimension | undefined; step: Step }) {
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
      {...(bars.some(({ before }) => before !== undefined) && { before_name: 'The period before' })}
      {...(step !== 'hour' && { onChoose: choose })}
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

type Sums = Usage['total'];

/** The total of a period in figures, each beside that of the period before. */
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
        { title: 'Tokens in', figure: short(tokensIn(total)), below: trend(tokensIn) },
        {
          title: 'Tokens out',
          figure: short(total.output_tokens),
          below: trend((of) => of.output_tokens),
        },
        {
          title: 'Cache hits',
          figure: <Ratio of={total.cache_hit_ratio} />,
          below: cached === 0 ? 'no caching' : 'of the tokens in',
        },
        {
          title: 'Estimated',
          figure: <Ratio of={total.cost_usd === 0 ? null : total.estimated_usd / total.cost_usd} />,
          below: possible > 0 ? say`failures may add ${usd(possible)}` : 'of the cost',
        },
      ]}
    />
  );
}

/** A share, or a dash where there is none. */
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
  /** Of the total cost, from 0 to 1. */
  readonly share: number;
}

/** A row for each of what usage is grouped by, with what else is worth knowing of it. */
function UsageTable({ usage }: { usage: Usage }) {
  const [search, change] = usePageSearch();
  const by = useMemo(() => usage.by.filter(isDimension), [usage]);
  const rows = useMemo(() => rowsOf(usage), [usage]);
  const columns = useMemo(() => columnsOf(usage, by, search), [usage, by, search]);
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

/** A column of numbers; a count unless it says otherwise. */
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
  search: PageSearch,
): Columns<Row> {
  const estimated = ({ cost_usd, estimated_usd }: Sums) => (cost_usd > 0 ? estimated_usd / cost_usd : 0);
  const period = { ...(since !== null && { since }), until };
  return [
    ...by.map(
      (name, i): Column<Row> => ({
        title: DIMENSIONS[name],
        sort: ({ of }) => of[name] ?? '',
        cell: (row) => <Name row={row} name={name} is_first={i === 0} by={by} />,
      }),
    ),
    numbers(
      'Cost',
      ({ cost_usd }) => cost_usd,
      (row) => <Cost row={row} />,
    ),
    previous !== null &&
      !by.some(isTime) && {
        title: 'Change',
        is_number: true,
        sort: ({ sums, before }) => sums.cost_usd - (before ?? 0),
        cell: ({ sums, before }) => <ToBefore now={sums.cost_usd} before={before} />,
      },
    numbers(
      'Requests',
      ({ requests }) => requests,
      ({ of, others, sums: { requests } }) => {
        const count = num(requests);
        const to = others > 0 ? undefined : requestsOf({ ...filtersOf(search), ...of });
        if (to === undefined) return count;
        return (
          <To page={['/requests', { ...to, ...period }]} title="Show these requests">
            {count}
          </To>
        );
      },
    ),
    // What nobody had needs no column; it would push others out of sight.
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

/** The address of requests of these values; `undefined` where the list of requests cannot tell them apart. */
function requestsOf(names: UsageRow['of']): PageSearch | undefined {
  const is_known = ([name, value]: [string, string | null]) => value !== null && OF_REQUESTS.includes(name);
  return Object.entries(names).every(is_known) ? (names as PageSearch) : undefined;
}

interface NameProps {
  readonly row: Row;
  readonly name: Dimension;
  readonly is_first: boolean;
  readonly by: readonly Dimension[];
}

/** What a row is about: a link to a finer report of it alone. */
function Name({ row, name, is_first, by }: NameProps) {
  const [search] = usePageSearch();
  if (row.others > 0) return is_first ? <em>{`${row.others} others`}</em> : null;
  const value = row.of[name];
  const words = valueWords(name, value);
  const to = value === null || value === undefined ? undefined : narrowed(name, value, by);
  const style = isTime(name) ? 'time' : value === null ? 'soft' : '';
  if (to === undefined) return <span className={style}>{words}</span>;
  return (
    <To page={['/usage', { ...search, ...to }]} className={style} title={`Usage of ${words} alone`}>
      {words}
    </To>
  );
}

function narrowed(name: Dimension, value: string, by: readonly Dimension[]): PageSearch | undefined {
  const rest = by.filter((each) => each !== name);
  const next = (rest.length > 0 ? rest : [finer(by, name)]).join(',');
  if (FILTERS.includes(name)) return { [name]: value, by: next, rows: undefined };
  const period = isTime(name) ? periodOfStep(value, name) : undefined;
  return period && { ...period, range: undefined, by: next, rows: undefined };
}

function Cost({ row: { sums, share } }: { row: Row }) {
  return (
    <span className="usage-cost">
      {usd(sums.cost_usd)}
      <span className="usage-share" aria-hidden="true">
        <span style={{ inlineSize: `${Math.max(0, Math.min(1, share)) * 100}%` }} />
      </span>
    </span>
  );
}

function ToBefore({ now, before }: { now: number; before: number | undefined }) {
  if (before === undefined) return null;
  if (before === 0) return <span className="soft">{now === 0 ? '–' : 'new'}</span>;
  return (
    <span className="number" title={`Before: ${before} USD`}>
      {trendWords(now, before)}
    </span>
  );
}

/** As many rows as one looks at; the others are summed up. */
const ROWS = 50;
const ALL_ROWS = 1000;

/** What requests used and cost, by up to four dimensions, beside the period before. */
export function Page() {
  const [search] = usePageSearch();
  const { time_zone, person } = useSession();
  const by = dimensionsOf(search, person.is_admin ? 'user' : 'model');
  const filters = filtersOf(search);
  const period = periodOf(search, time_zone);
  const compare = period.since === undefined ? {} : ({ compare: 'previous' } as const);
  const question = { ...period, ...filters, by: by.join(',') };
  const limit = search.rows === 'all' ? ALL_ROWS : ROWS;
  const usage = useOperation('getUsage', { ...question, ...compare, limit });
  return (
    <>
      <PageHead
        title="Usage"
        intro={`${person.is_admin ? 'What requests used and cost' : 'What your requests used and cost'}, from the ledger. Days begin at midnight, ${time_zone}.`}
      >
        <Files of={{ 'Download CSV': addressOf('exportUsage', question) }} />
      </PageHead>
      {/* What is asked for: a time, what to group by, and what to leave out. */}
      <div className="usage-controls">
        <Ranges />
        <Grouping by={by} />
        <FilterBy filters={filters} />
      </div>
      <Loaded query={usage} lines={8}>
        {(answer) =>
          answer.total.requests === 0 && answer.total.cost_usd === 0 && answer.rows.length === 0 ? (
            <Card>
              <EmptyState title="No requests in this time">
                Choose a longer time or take a filter away. Requests appear here as soon as they are over.
              </EmptyState>
            </Card>
          ) : (
            <div className="stack apart">
              <p className="soft small">
                {words(answer, time_zone)}
                {answer.previous !== null && `, compared with ${words(answer.previous, time_zone)}`}
              </p>
              <Summary usage={answer} />
              <UsageChart
                question={question}
                first={answer.by[0] as Dimension}
                step={stepOf(answer.since, answer.until)}
                since={answer.since}
              />
              <UsageTable usage={answer} />
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function words({ since, until }: { readonly since: string | null; readonly until: string }, time_zone: string): string {
  if (since === null) return `everything up to ${momentWords(until, time_zone)}`;
  return `${momentWords(since, time_zone)} to ${momentWords(until, time_zone, since)}`;
}
