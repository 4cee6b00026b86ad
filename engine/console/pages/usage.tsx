import { type FormEvent, useMemo, useState } from 'react';
import { type AnswerOf, addressOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import { type Bar, BarChart } from '../parts/bar-chart.tsx';
import {
  Button,
  Card,
  Count,
  EmptyState,
  Figure,
  Figures,
  Icon,
  Loaded,
  PageHead,
  Share,
  ShortCount,
  shortUsd,
  To,
  Trend,
  trendWords,
  Usd,
} from '../parts/basic.tsx';
import { SelectField, TextField } from '../parts/field.tsx';
import { type Column, DataTable } from '../parts/table.tsx';
import {
  dayAfter,
  isDay,
  momentWords,
  periodOf,
  periodOfStep,
  placesOf,
  RANGE_TITLES,
  RANGES,
  type RangeName,
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
const OF_REQUESTS = new Set<Dimension>([
  'user',
  'team',
  'project',
  'token',
  'token_group',
  'model',
  'upstream',
  'status',
]);

/** At most as many dimensions at once. */
const MOST = 4;

function isDimension(text: string): text is Dimension {
  return Object.hasOwn(DIMENSIONS, text);
}

function isTime(name: string): boolean {
  return ['hour', 'day', 'week', 'month'].includes(name);
}

/** What usage is grouped by, as an address says it. */
function dimensionsOf({ by }: PageSearch, fallback: Dimension): Dimension[] {
  const named = (by ?? '').split(',').filter(isDimension);
  return named.length === 0 ? [fallback] : [...new Set(named)].slice(0, MOST);
}

/** What usage is narrowed down by, as an address says it. */
function filtersOf(search: PageSearch): Readonly<Partial<Record<Dimension, string>>> {
  return Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
}

/** Values of some dimensions; null for requests that have none. */
type Names = Readonly<Partial<Record<Dimension, string | null>>>;

/** The address of the requests that are meant; `undefined` where the list of requests cannot tell them apart. */
function requestsOf(
  names: Names,
  period: { readonly since: string | null; readonly until: string },
): PageSearch | undefined {
  const parts = Object.entries(names) as [Dimension, string | null][];
  if (parts.some(([name, value]) => value === null || !OF_REQUESTS.has(name))) return undefined;
  return { ...(names as PageSearch), ...(period.since !== null && { since: period.since }), until: period.until };
}

/** What to group by once one knows which of something it is. */
function finer(by: readonly Dimension[], name: Dimension): Dimension {
  const order: readonly Dimension[] = ['team', 'user', 'model', 'token', 'upstream'];
  const rest = order.filter((each) => each !== name && !by.includes(each));
  return rest.find((each) => name !== 'token' || each !== 'user') ?? 'day';
}

function valueWords(name: Dimension, value: string | null | undefined): string {
  if (value === null || value === undefined) return `(no ${DIMENSIONS[name].toLowerCase()})`;
  if (name === 'estimated')
    return { yes: 'Estimated', no: 'Told by the upstream', clamped: 'More than possible' }[value] ?? value;
  return value;
}

type Filters = Readonly<Partial<Record<Dimension, string>>>;

/** What is asked for: a time, what to group by, and what to leave out. */
function Controls({ by, filters, is_admin }: { by: readonly Dimension[]; filters: Filters; is_admin: boolean }) {
  return (
    <div className="usage-controls">
      <Ranges />
      <Grouping by={by} />
      <FilterBy filters={filters} is_admin={is_admin} />
    </div>
  );
}

function Ranges() {
  const [search, change] = usePageSearch();
  const { time_zone } = useSession();
  const range = rangeOf(search);
  const choose = (name: RangeName) => {
    if (name !== 'custom') change({ range: name, since: undefined, until: undefined });
    else change({ range: undefined, since: dayAfter(today(time_zone), -13), until: dayAfter(today(time_zone), 1) });
  };
  return (
    <div className="usage-range filters">
      <fieldset className="choice">
        <legend className="unseen">Time</legend>
        {RANGES.map((name) => (
          <label key={name}>
            <input type="radio" name="range" value={name} checked={range === name} onChange={() => choose(name)} />
            <span>{RANGE_TITLES[name]}</span>
          </label>
        ))}
      </fieldset>
      {range === 'custom' && <Days />}
    </div>
  );
}

/** The first and the last day; an address says the day after the last. */
function Days() {
  const [{ since, until }, change] = usePageSearch();
  const last = isDay(until) ? dayAfter(until, -1) : '';
  return (
    <div className="filters">
      <TextField
        label="From"
        type="date"
        value={isDay(since) ? since : ''}
        {...(isDay(until) && { max: last })}
        onChange={({ target }) => change({ since: target.value || undefined }, { replace: true })}
        hint={since !== undefined && !isDay(since) ? since : undefined}
      />
      <TextField
        label="To (included)"
        type="date"
        value={last}
        {...(isDay(since) && { min: since })}
        onChange={({ target }) =>
          change({ until: isDay(target.value) ? dayAfter(target.value, 1) : undefined }, { replace: true })
        }
        hint={until !== undefined && !isDay(until) ? until : undefined}
      />
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
        const none = i === 0 && by.length === 1 ? [] : [{ value: '', text: '–' }];
        return (
          <SelectField
            // biome-ignore lint/suspicious/noArrayIndexKey: a place keeps its focus when what is in it changes.
            key={i}
            label={i === 0 ? 'Group by' : 'and by'}
            value={name ?? ''}
            onChange={({ target }) => put(i, target.value)}
            options={[...none, ...free.map((value) => ({ value, text: DIMENSIONS[value] }))]}
          />
        );
      })}
    </div>
  );
}

function FilterBy({ filters, is_admin }: { filters: Filters; is_admin: boolean }) {
  const [, change] = usePageSearch();
  const [name, setName] = useState<Dimension>('model');
  const [value, setValue] = useState('');
  const names = FILTERS.filter((each) => is_admin || each !== 'user');
  const add = (event: FormEvent) => {
    event.preventDefault();
    if (value.trim() === '') return;
    change({ [name]: value.trim(), rows: undefined });
    setValue('');
  };
  return (
    <div className="usage-filters filters">
      <form className="filters" onSubmit={add}>
        <SelectField
          label="Only"
          value={name}
          onChange={({ target }) => setName(target.value as Dimension)}
          options={names.map((each) => ({ value: each, text: DIMENSIONS[each] }))}
        />
        <TextField
          label="is"
          value={value}
          onChange={({ target }) => setValue(target.value)}
          placeholder={PLACEHOLDERS[name] ?? ''}
        />
        <Button type="submit">Add filter</Button>
      </form>
      {Object.keys(filters).length > 0 && (
        <ul className="row bare" aria-label="Filters">
          {(Object.entries(filters) as [Dimension, string][]).map(([each, wanted]) => (
            <li key={each}>
              <button
                type="button"
                className="usage-chip boxed"
                onClick={() => change({ [each]: undefined, rows: undefined })}
              >
                <span>
                  {DIMENSIONS[each]}: <strong>{wanted}</strong>
                </span>
                <span className="unseen">, take this filter away</span>
                <Icon name="close" />
              </button>
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
const STEPS: Readonly<Record<Step, string>> = {
  hour: 'Cost per hour',
  day: 'Cost per day',
  week: 'Cost per week',
  month: 'Cost per month',
};

/** Cost over time, split by what the table is grouped by first. */
function UsageChart({
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

type Sums = Usage['total'];

/** The total of a period in figures, each beside that of the period before. */
function Summary({ usage: { total, previous } }: { usage: Usage }) {
  const before = previous?.total;
  const cached = total.cache_read_tokens + total.cache_write_5m_tokens + total.cache_write_1h_tokens;
  const possible = total.possibly_billed_usd ?? 0;
  return (
    <Figures>
      <Figure title="Cost" below={<Trend now={total.cost_usd} before={before?.cost_usd} />}>
        <Usd amount={total.cost_usd} />
      </Figure>
      <Figure title="Requests" below={<Trend now={total.requests} before={before?.requests} />}>
        <Count of={total.requests} />
      </Figure>
      <Figure title="Tokens in" below={<Trend now={tokensIn(total)} before={before && tokensIn(before)} />}>
        <ShortCount of={tokensIn(total)} />
      </Figure>
      <Figure title="Tokens out" below={<Trend now={total.output_tokens} before={before?.output_tokens} />}>
        <ShortCount of={total.output_tokens} />
      </Figure>
      <Figure
        title="Cache hits"
        below={<span className="soft">{cached === 0 ? 'no caching' : 'of the tokens in'}</span>}
      >
        {total.cache_hit_ratio === null ? '–' : <Share of={total.cache_hit_ratio} />}
      </Figure>
      <Figure
        title="Estimated"
        below={
          <span className="soft">
            {possible > 0 ? (
              <>
                failures may add <Usd amount={possible} />
              </>
            ) : (
              'of the cost'
            )}
          </span>
        }
      >
        {total.cost_usd === 0 ? '–' : <Share of={total.estimated_usd / total.cost_usd} />}
      </Figure>
    </Figures>
  );
}

function tokensIn(sums: Sums): number {
  return sums.input_tokens + sums.cache_read_tokens + sums.cache_write_5m_tokens + sums.cache_write_1h_tokens;
}

interface Row {
  readonly key: string;
  readonly of: Usage['rows'][number]['of'];
  readonly others: number;
  readonly sums: Usage['total'];
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
  const others = rows.find((row) => row.others > 0);
  return (
    <Card title={`By ${by.map((name) => DIMENSIONS[name].toLowerCase()).join(', ')}`}>
      <DataTable label="Usage" columns={columns} rows={rows} keyOf={({ key }) => key} />
      {others !== undefined && search.rows !== 'all' && (
        <Button kind="quiet" onClick={() => change({ rows: 'all' })}>
          Show up to 1,000 rows
        </Button>
      )}
    </Card>
  );
}

function rowsOf({ rows, previous, total }: Usage): Row[] {
  const keyOf = (row: Usage['rows'][number]) => JSON.stringify([row.others > 0, row.of]);
  const before = new Map(previous?.rows.map((row) => [keyOf(row), row.sums.cost_usd]));
  return rows.map((row) => ({
    ...row,
    key: keyOf(row),
    before: previous === null ? undefined : (before.get(keyOf(row)) ?? 0),
    share: total.cost_usd === 0 ? 0 : row.sums.cost_usd / total.cost_usd,
  }));
}

function columnsOf(usage: Usage, by: readonly Dimension[], search: PageSearch): Column<Row>[] {
  const has_time = by.some(isTime);
  const number = (id: string, title: string, value: (sums: Usage['total']) => number): Column<Row> => ({
    id,
    title,
    is_number: true,
    sort: ({ sums }) => value(sums),
    cell: ({ sums }) => <ShortCount of={value(sums)} />,
  });
  const names = by.map(
    (name, i): Column<Row> => ({
      id: name,
      title: DIMENSIONS[name],
      sort: ({ of }) => of[name] ?? '',
      cell: (row) => <Name row={row} name={name} is_first={i === 0} by={by} search={search} />,
    }),
  );
  const before: Column<Row> = {
    id: 'before',
    title: 'Change',
    is_number: true,
    sort: ({ sums, before: was }) => sums.cost_usd - (was ?? 0),
    cell: ({ sums, before: was }) => <ToBefore now={sums.cost_usd} before={was} />,
  };
  const columns: Column<Row>[] = [
    ...names,
    {
      id: 'cost',
      title: 'Cost',
      is_number: true,
      sort: ({ sums }) => sums.cost_usd,
      cell: (row) => <Cost row={row} />,
    },
    ...(usage.previous === null || has_time ? [] : [before]),
    {
      id: 'requests',
      title: 'Requests',
      is_number: true,
      sort: ({ sums }) => sums.requests,
      cell: (row) => <Requests row={row} usage={usage} search={search} />,
    },
    {
      id: 'estimated',
      title: 'Estimated',
      is_number: true,
      sort: ({ sums }) => estimatedShare(sums),
      cell: ({ sums }) => (sums.estimated_usd === 0 ? '–' : <Share of={estimatedShare(sums)} />),
    },
    number('input', 'Input', ({ input_tokens }) => input_tokens),
    number('output', 'Output', ({ output_tokens }) => output_tokens),
    number('read', 'Cache read', ({ cache_read_tokens }) => cache_read_tokens),
    number('5m', 'Written 5m', ({ cache_write_5m_tokens }) => cache_write_5m_tokens),
    number('1h', 'Written 1h', ({ cache_write_1h_tokens }) => cache_write_1h_tokens),
    {
      id: 'hit',
      title: 'Cache hits',
      is_number: true,
      sort: ({ sums }) => sums.cache_hit_ratio ?? -1,
      cell: ({ sums }) => (sums.cache_hit_ratio === null ? '–' : <Share of={sums.cache_hit_ratio} />),
    },
  ];
  // What nobody had needs no column; it would push others out of sight.
  const empty = new Set([
    ...(usage.total.estimated_usd === 0 ? ['estimated'] : []),
    ...(usage.total.cache_write_5m_tokens === 0 ? ['5m'] : []),
    ...(usage.total.cache_write_1h_tokens === 0 ? ['1h'] : []),
  ]);
  return columns.filter(({ id }) => !empty.has(id));
}

/** How much of the cost is estimated, from 0 to 1. */
function estimatedShare({ cost_usd, estimated_usd }: Row['sums']): number {
  return cost_usd > 0 ? estimated_usd / cost_usd : 0;
}

/** What a row is about: a link to a finer report of it alone. */
function Name({
  row,
  name,
  is_first,
  by,
  search,
}: {
  row: Row;
  name: Dimension;
  is_first: boolean;
  by: readonly Dimension[];
  search: PageSearch;
}) {
  if (row.others > 0) return is_first ? <em>{`${row.others} others`}</em> : null;
  const value = row.of[name];
  const words = valueWords(name, value);
  const to = value === null || value === undefined ? undefined : narrowed(name, value, by);
  const style = isTime(name) ? 'time' : value === null ? 'soft' : undefined;
  if (to === undefined) return <span className={style}>{words}</span>;
  return (
    <To page={['/usage', { ...search, ...to }]} className={style ?? ''} title={`Usage of ${words} alone`}>
      {words}
    </To>
  );
}

function narrowed(name: Dimension, value: string, by: readonly Dimension[]): PageSearch | undefined {
  const rest = by.filter((each) => each !== name);
  const next = rest.length > 0 ? rest : [finer(by, name)];
  if (FILTERS.includes(name)) return { [name]: value, by: next.join(','), rows: undefined };
  const period = isTime(name) ? periodOfStep(value, name as Step) : undefined;
  return period && { ...period, range: undefined, by: next.join(','), rows: undefined };
}

function Cost({ row: { sums, share } }: { row: Row }) {
  return (
    <span className="usage-cost">
      <Usd amount={sums.cost_usd} />
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

function Requests({ row: { of, others, sums }, usage, search }: { row: Row; usage: Usage; search: PageSearch }) {
  const filters = Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]]] : [])));
  const to = others > 0 ? undefined : requestsOf({ ...filters, ...of }, usage);
  if (to === undefined) return <Count of={sums.requests} />;
  return (
    <To page={['/requests', to]} title="Show these requests">
      <Count of={sums.requests} />
    </To>
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
        <a className="button secondary" href={addressOf('exportUsage', question)} download="usage.csv">
          <Icon name="down" />
          Download CSV
        </a>
      </PageHead>
      <Controls by={by} filters={filters} is_admin={person.is_admin} />
      <Loaded query={usage} lines={8}>
        {(answer) => <Answered usage={answer} question={question} time_zone={time_zone} />}
      </Loaded>
    </>
  );
}

function Answered({ usage, question, time_zone }: { usage: Usage; question: object; time_zone: string }) {
  if (usage.total.requests === 0 && usage.total.cost_usd === 0 && usage.rows.length === 0) {
    return (
      <Card>
        <EmptyState title="No requests in this time">
          <p>Choose a longer time or take a filter away. Requests appear here as soon as they are over.</p>
        </EmptyState>
      </Card>
    );
  }
  return (
    <div className="stack apart">
      <p className="soft small">
        {words(usage, time_zone)}
        {usage.previous !== null && `, compared with ${words(usage.previous, time_zone)}`}
      </p>
      <Summary usage={usage} />
      <UsageChart
        question={question}
        first={usage.by[0]!}
        step={stepOf(usage.since, usage.until)}
        since={usage.since}
      />
      <UsageTable usage={usage} />
    </div>
  );
}

function words({ since, until }: { readonly since: string | null; readonly until: string }, time_zone: string): string {
  if (since === null) return `everything up to ${momentWords(until, time_zone)}`;
  return `${momentWords(since, time_zone)} to ${momentWords(until, time_zone, since)}`;
}
