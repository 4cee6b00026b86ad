import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { PageSearch } from '../../api/page-search.ts';
import { useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Figure, Figures, Trend } from '../../parts/figures.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Count, Usd } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';

type Home = AnswerOf<'getHome'>;
type LookAt = Home['look_at'][number];

const AT_ONCE = 3;

/** How the gateway is: what to look at, and today in figures. */
export function State() {
  const home = useOperation('getHome', {}, { every_seconds: 30 });
  return (
    <Loaded query={home} lines={8}>
      {(answer) => (
        <div className="home-state">
          <ToLookAt home={answer} />
          <Today home={answer} />
          {answer.refused.requests > 0 && <Refused home={answer} />}
        </div>
      )}
    </Loaded>
  );
}

function ToLookAt({ home: { look_at, since } }: { home: Home }) {
  const [is_long, setLong] = useState(false);
  const shown = is_long ? look_at : look_at.slice(0, AT_ONCE);
  const left = look_at.length - shown.length;
  return (
    <Card title="To look at">
      {look_at.length === 0 ? (
        <p className="home-quiet">
          <Icon name="check" />
          Nothing. Upstreams serve, the configuration is loaded, and no limit is near its end.
        </p>
      ) : (
        <ol className="home-list">
          {shown.map((each) => (
            <li key={`${each.kind} ${each.subject}`}>
              <Badge tone={each.level}>{each.level === 'alarm' ? 'Now' : 'Soon'}</Badge>
              <span className="home-text">
                {each.text}
                {each.at !== null && (
                  <span className="soft small">
                    {' '}
                    <TimeText at={each.at} form="relative" />
                  </span>
                )}
              </span>
              <Link {...(linkOf(each, since) as { to: never; search: never })}>{PLACES[each.kind].words}</Link>
            </li>
          ))}
        </ol>
      )}
      {left > 0 && (
        <div>
          <Button kind="quiet" onClick={() => setLong(true)}>{`Show ${left} more`}</Button>
        </div>
      )}
    </Card>
  );
}

/** Where each is seen in full, and by which part of the address its subject is found there. */
const PLACES: Readonly<
  Record<
    LookAt['kind'],
    { readonly to: string; readonly words: string; readonly subject?: string; readonly search?: PageSearch }
  >
> = {
  configuration_failed: { to: '/config', words: 'See the findings' },
  configurations_differ: { to: '/config', words: 'See who runs what' },
  route_without_upstream: { to: '/upstreams', words: 'See upstreams' },
  upstream_closed: { to: '/upstreams', words: 'See upstreams' },
  upstream_drained: { to: '/upstreams', words: 'See upstreams' },
  limit_near: { to: '/limits', words: 'See the limit', subject: 'user' },
  many_refused: { to: '/requests', words: 'See these requests', subject: 'error' },
  sign_ins_refused: { to: '/people', words: 'See people', subject: 'user' },
  cost_grows: { to: '/usage', words: 'See what costs', search: { range: 'today', by: 'user,model' } },
  estimates_grow: { to: '/usage', words: 'See where', search: { range: 'today', by: 'upstream,estimated' } },
};

function linkOf({ kind, subject }: LookAt, since: string): { readonly to: string; readonly search: PageSearch } {
  const { to, subject: name, search = {} } = PLACES[kind];
  const found = name === undefined || subject === null ? {} : { [name]: subject };
  return { to, search: { ...search, ...found, ...(to === '/requests' && { since }) } };
}

function Today({ home: { today, yesterday, refused, upstreams, configuration, since } }: { home: Home }) {
  const out = new Set([...upstreams.closed, ...upstreams.drained]);
  return (
    <Figures>
      <Figure
        title={
          <Link to="/usage" search={{ range: 'today' } as never}>
            Cost today
          </Link>
        }
        below={<Trend now={today.cost_usd} before={yesterday.total.cost_usd} than="yesterday by now" />}
      >
        <Usd amount={today.cost_usd} />
      </Figure>
      <Figure
        title={
          <Link to={'/requests' as never} search={{ since, outcome: 'refused' } as never}>
            Refused or given up today
          </Link>
        }
        below={<span className="soft">beside {<Count of={today.requests} />} sent on</span>}
      >
        <Count of={refused.requests} />
      </Figure>
      <Figure
        title={<Link to="/upstreams">Upstreams</Link>}
        below={<Out closed={upstreams.closed} drained={upstreams.drained} />}
      >
        {`${upstreams.all - out.size} of ${upstreams.all}`}
      </Figure>
      <Figure
        title={<Link to={'/config' as never}>Configuration</Link>}
        below={
          <>
            {configuration.is_failing && <Badge tone="alarm">The last load failed</Badge>}{' '}
            <span className="soft">
              {configuration.loaded_at !== null && <TimeText at={configuration.loaded_at} form="relative" />}
              {configuration.replicas === 1 ? '' : `, ${configuration.replicas} replicas`}
            </span>
          </>
        }
      >
        {configuration.is_failing ? 'Failed' : configuration.loaded_at === null ? '–' : 'Loaded'}
      </Figure>
    </Figures>
  );
}

function Out({ closed, drained }: { closed: readonly string[]; drained: readonly string[] }): ReactNode {
  if (closed.length + drained.length === 0) return <Badge tone="good">All serve</Badge>;
  return (
    <>
      {closed.length > 0 && <Badge tone="alarm">{`Failing: ${closed.join(', ')}`}</Badge>}
      {drained.length > 0 && <Badge tone="warn">{`Drained: ${drained.join(', ')}`}</Badge>}
    </>
  );
}

type Reason = Home['refused']['by_error'][number];

function Refused({ home: { refused, since } }: { home: Home }) {
  const columns: readonly Column<Reason>[] = [
    { id: 'meaning', title: 'Why', cell: ({ meaning, error }) => meaning ?? error },
    { id: 'error', title: 'Code', cell: ({ error }) => <code>{error}</code> },
    {
      id: 'requests',
      title: 'Requests',
      is_number: true,
      cell: ({ error, requests }) => (
        <Link to={'/requests' as never} search={{ error, since } as never} title="Show these requests">
          <Count of={requests} />
        </Link>
      ),
    },
    { id: 'people', title: 'People', is_number: true, cell: ({ people }) => <Count of={people} /> },
  ];
  return (
    <Card title="Refused or given up today, and why">
      <DataTable
        label="Refused or given up today"
        columns={columns}
        rows={refused.by_error}
        keyOf={({ error }) => error}
      />
    </Card>
  );
}
