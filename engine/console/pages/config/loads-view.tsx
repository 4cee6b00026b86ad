import { useMemo } from 'react';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { SelectField } from '../../parts/field.tsx';
import { counted } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { longTime, TimeText } from '../../parts/times.tsx';
import { Turn } from '../../parts/turn.tsx';
import { DiffView } from './diff-view.tsx';
import { CAUSES, Here, type Load } from './links.tsx';

const PAGE = 50;

/** What was loaded when and why, and what differs between any two versions. */
export function LoadsView() {
  const [{ before, from, to }] = usePageSearch();
  const loads = useOperation('listConfigLoads', {
    limit: PAGE,
    ...(before !== undefined && /^\d{1,15}$/.test(before) && { before: Number(before) }),
  });
  return (
    <Loaded query={loads}>
      {(page) => (
        <div className="config-view">
          <Compare loads={page.loads} from={from} to={to} />
          {from !== undefined && to !== undefined && <DiffView from={from} to={to} />}
          <Card title="Loads">
            {page.loads.length === 0 ? (
              <EmptyState title="Nothing was loaded yet">
                <p>Each start and each reload of a gateway on this database appears here.</p>
              </EmptyState>
            ) : (
              <LoadTable loads={page.loads} />
            )}
            <Turn name="before" next={page.next} />
          </Card>
          <p className="soft small">Kept for 90 days: the last 50 versions, and at most 1000 loads.</p>
        </div>
      )}
    </Loaded>
  );
}

function LoadTable({ loads }: { readonly loads: readonly Load[] }) {
  const columns = useMemo(() => columnsOf(loads), [loads]);
  return <DataTable label="Loads of configurations" columns={columns} rows={loads} keyOf={({ id }) => String(id)} />;
}

function columnsOf(loads: readonly Load[]): readonly Column<Load>[] {
  return [
    { id: 'at', title: 'When', cell: ({ at }) => <TimeText at={at} />, sort: ({ at }) => at },
    {
      id: 'outcome',
      title: 'Outcome',
      cell: ({ failed, needs_restart }) =>
        failed ? (
          <Badge tone="alarm">Failed</Badge>
        ) : needs_restart.length > 0 ? (
          <Badge tone="warn">In force, needs a restart</Badge>
        ) : (
          <Badge tone="good">In force</Badge>
        ),
    },
    { id: 'cause', title: 'Because', cell: ({ cause }) => CAUSES[cause] },
    {
      id: 'version',
      title: 'Version',
      cell: ({ version }) =>
        version === null ? (
          'unreadable'
        ) : (
          <Here to={{ version, view: 'rules' }}>
            <code>{version}</code>
          </Here>
        ),
    },
    { id: 'changed', title: 'What changed', cell: (load) => <Changed load={load} loads={loads} /> },
    { id: 'findings', title: 'Findings', cell: (load) => <FindingCount load={load} /> },
    { id: 'replica', title: 'Replica', cell: ({ replica }) => replica, sort: ({ replica }) => replica },
  ];
}

function Changed({ load, loads }: { readonly load: Load; readonly loads: readonly Load[] }) {
  const { id, version, changed, needs_restart } = load;
  const earlier = loads.find((each) => each.id < id && !each.failed && each.version !== null);
  const differs = version !== null && earlier !== undefined && earlier.version !== version;
  const words = changed.length === 0 ? (differs ? 'other files than before' : 'nothing') : changed.join(', ');
  return (
    <>
      {differs ? (
        <Here to={{ view: 'loads', from: earlier.version!, to: version }} title="Compare with what was in force before">
          {words}
        </Here>
      ) : (
        words
      )}
      {needs_restart.length > 0 && <p className="small">Needs a restart: {needs_restart.join(', ')}</p>}
    </>
  );
}

function FindingCount({ load: { version, errors, warnings, problem } }: { readonly load: Load }) {
  if (errors + warnings === 0) return problem ?? 'none';
  const words = errors > 0 ? counted(errors, 'error') : counted(warnings, 'warning');
  if (version === null) return words;
  return <Here to={{ version, view: 'findings' }}>{words}</Here>;
}

function Compare({
  loads,
  from,
  to,
}: {
  readonly loads: readonly Load[];
  readonly from: string | undefined;
  readonly to: string | undefined;
}) {
  const [, change] = usePageSearch();
  const { time_zone } = useSession();
  const versions = [...new Map(loads.toReversed().map((load) => [load.version, load])).values()].toReversed();
  const options = versions.flatMap(({ version, at, failed }) => {
    if (version === null) return [];
    const text = `${version}, loaded ${longTime(new Date(at), time_zone)}${failed ? ' (failed)' : ''}`;
    return [{ value: version, text }];
  });
  const withAsked = (asked: string | undefined) => {
    const known = options.some(({ value }) => value === asked);
    const more = asked === undefined ? { value: '', text: 'Choose a version' } : { value: asked, text: asked };
    return known ? options : [more, ...options];
  };
  return (
    <div className="filters">
      <SelectField
        label="Compare"
        options={withAsked(from)}
        value={from ?? ''}
        onChange={({ target }) => change({ view: 'loads', from: target.value })}
      />
      <SelectField
        label="with"
        options={withAsked(to)}
        value={to ?? ''}
        onChange={({ target }) => change({ view: 'loads', to: target.value })}
      />
      {(from !== undefined || to !== undefined) && (
        <Button onClick={() => change({ from: undefined, to: undefined })}>End comparison</Button>
      )}
    </div>
  );
}
