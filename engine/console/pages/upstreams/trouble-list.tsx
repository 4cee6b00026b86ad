import { useMemo } from 'react';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Badge } from '../../parts/badge.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { duration, TROUBLES, type Trouble } from './words.ts';

const PAGE = 25;

const COLUMNS: readonly Column<Trouble>[] = [
  { id: 'began', title: 'Began', cell: ({ began_at }) => <TimeText at={began_at} />, sort: (row) => row.began_at },
  {
    id: 'where',
    title: 'Where',
    cell: ({ upstream, upstream_model }) => (
      <>
        {upstream}
        {upstream_model === null ? ', all models' : <code> {upstream_model}</code>}
      </>
    ),
    sort: (row) => `${row.upstream} ${row.upstream_model}`,
  },
  {
    id: 'what',
    title: 'What',
    cell: ({ kind, last }) => (
      <>
        {TROUBLES[kind]} {kind !== 'limited' && <span className="soft">{last}</span>}
      </>
    ),
    sort: (row) => row.kind,
  },
  { id: 'lasted', title: 'Lasted', cell: (row) => <Lasted trouble={row} /> },
  {
    id: 'times',
    title: 'Tried in vain',
    cell: ({ times }) =>
      times === 1 ? <span className="soft">never</span> : times === 2 ? 'once' : `${times - 1} times`,
    sort: (row) => row.times,
    is_number: true,
  },
  { id: 'replica', title: 'Seen by', cell: ({ replica }) => <code>{replica}</code> },
];

function Lasted({ trouble: { began_at, until, ended_at } }: { trouble: Trouble }) {
  const from = Date.parse(began_at);
  if (ended_at !== null) return <>{duration(Date.parse(ended_at) - from)}</>;
  if (Date.parse(until) > Date.now()) return <Badge tone="warn">goes on</Badge>;
  return (
    <span title="Nothing was sent there since, or the replica is gone.">
      {duration(Date.parse(until) - from)} or more
    </span>
  );
}

/** Breakers that opened and accounts that were limited, at all replicas, the latest first. */
export function TroubleList({ names }: { names: readonly string[] }) {
  const [{ upstream, after }, change] = usePageSearch();
  const input = { limit: PAGE, ...(upstream && { upstream }), ...(after && { after }) };
  const query = useOperation('listUpstreamTroubles', input, { every_seconds: 15 });
  const options = useMemo(
    () => [{ value: '', text: 'All upstreams' }, ...names.map((name) => ({ value: name, text: name }))],
    [names],
  );
  return (
    <Card
      title="What kept requests away"
      actions={
        <SelectField
          label="Upstream"
          options={options}
          value={upstream ?? ''}
          onChange={(event) => change({ upstream: event.target.value, after: undefined })}
        />
      }
    >
      <p className="soft small">
        Breakers that opened and accounts that were limited in the last 30 days, as each replica saw them itself.
      </p>
      <Loaded query={query}>
        {({ troubles, next }) => (
          <>
            {troubles.length === 0 ? (
              <EmptyState title="Nothing kept requests away.">Whatever does is written down here.</EmptyState>
            ) : (
              <DataTable
                label="What kept requests away"
                columns={COLUMNS}
                rows={troubles}
                keyOf={({ id }) => String(id)}
              />
            )}
            <Turn next={next} />
          </>
        )}
      </Loaded>
    </Card>
  );
}
