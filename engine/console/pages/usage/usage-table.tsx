import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { PageSearch } from '../../api/page-search.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { trendWords } from '../../parts/figures.tsx';
import { Count, Share, ShortCount, Usd } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { DIMENSIONS, type Dimension, FILTERS, finer, isDimension, isTime, requestsOf, valueWords } from './question.ts';
import { periodOfStep, type Step } from './range.ts';

type Usage = AnswerOf<'getUsage'>;
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
export function UsageTable({ usage }: { usage: Usage }) {
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
    <Link to="/usage" search={{ ...search, ...to } as never} className={style ?? ''} title={`Usage of ${words} alone`}>
      {words}
    </Link>
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
    <Link to={'/requests' as never} search={to as never} title="Show these requests">
      <Count of={sums.requests} />
    </Link>
  );
}
