import { type ReactNode, useId } from 'react';
import { type ResponseOf, useOperation, usePageSearch, useSession } from '../api.ts';
import { WORDS } from '../operations.ts';
import { BarChart } from '../parts/bar-chart.tsx';
import { Badge, Loaded, Opens, ProblemBox, type Tone } from '../parts/basic.tsx';
import { OperationForm } from '../parts/dialog.tsx';
import { Filters, type Option } from '../parts/field.tsx';
import { EmptyState, Facts, Lines, PageHead, To } from '../parts/page.tsx';
import { type Column, type Columns, DataTable, ListPage } from '../parts/table.tsx';
import { ago, counted, mono, num, say, share, shortTime, soft, strong, timeAt, took } from '../parts/words.tsx';

type Upstream = ResponseOf<'listUpstreams'>['upstreams'][number];
type Traffic = ResponseOf<'getUpstreamTraffic'>['upstreams'][number];
type Incident = ResponseOf<'listUpstreamIncidents'>['incidents'][number];

const STATES: Readonly<Record<Upstream['state'], readonly [word: string, tone: Tone, means: string]>> = {
  closed: ['Available', 'good', 'Circuit breaker closed'],
  open: ['Breaker open', 'alarm', 'Circuit breaker open after repeated failures'],
  half_open: ['Probing', 'warn', 'Circuit breaker half-open: probe requests only'],
  limited: ['Rate-limited', 'warn', 'It responded 429: the rate limit of the account is exhausted'],
  credential: ['Credential rejected', 'alarm', 'It rejected the credential of the gateway'],
  model_missing: ['Model missing', 'warn', 'It does not serve this model'],
  drained: ['Drained', 'info', 'It gets no new requests'],
  unknown: ['Unknown', 'plain', 'This replica has no state of it'],
};

const UNITS = { d: 86_400_000, h: 3_600_000, min: 60_000, s: 1000, ms: 1 } as const;

/** A duration in its two largest units: `2 min 5 s`. */
function duration(ms: number): string {
  const sizes = Object.entries(UNITS);
  const at = sizes.findIndex(([, size]) => ms >= size);
  let left = ms;
  const parts = sizes.slice(at, ms < UNITS.min ? at + 1 : at + 2).flatMap(([unit, size]) => {
    const whole = Math.floor(left / size);
    left -= whole * size;
    return whole === 0 ? [] : `${whole} ${unit}`;
  });
  return parts.join(' ') || '0 ms';
}

const routeNames = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ');

function DrainDialog({ upstream: { name, routes, in_flight } }: { upstream: Upstream }) {
  const left_alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  const finish = in_flight ? `${counted(in_flight, 'request')} in flight at this replica` : 'Requests in flight';
  return (
    <OperationForm
      operation="drainUpstream"
      input={{ name }}
      fields={{ reason: { hint: 'Optional; shown to all administrators.' } }}
      done={({ routes_without_upstream: none }) =>
        none.length === 0
          ? [`Drained ${name}. Its routes use their other upstreams.`]
          : [`Drained ${name}. No upstream is left for ${routeNames(none)}: their requests are rejected.`, 'warn']
      }
      title={`Drain ${name}?`}
      action={`Drain ${name}`}
      kind={left_alone.length > 0 ? 'danger' : 'primary'}
      intro={`No replica sends it new requests until it is resumed. ${finish} will finish.`}
    >
      {left_alone.length > 0 && (
        <div className="problem" role="alert">
          <p>
            <strong>No other upstream for {left_alone.length === 1 ? 'the route' : 'the routes'}</strong>{' '}
            {routeNames(left_alone)}: their requests are rejected until it is resumed.
          </p>
        </div>
      )}
    </OperationForm>
  );
}

function ResumeDialog({ upstream: { name, drained, configured } }: { upstream: Upstream }) {
  const reason = drained?.reason == null ? '.' : `: ${drained.reason}`;
  const by = drained === null ? '' : `Drained by ${drained.by}${reason} `;
  return (
    <OperationForm
      operation="resumeUpstream"
      input={{ name }}
      done={() => [
        `Resumed ${name}. ${configured ? 'It gets new requests again.' : 'gateway.yaml has no such upstream.'}`,
      ]}
      title={`Resume ${name}?`}
      action={`Resume ${name}`}
      intro={`${by}Every replica sends it new requests again.`}
    />
  );
}

function StateBadge({ upstream: { state, models, configured, elsewhere } }: { upstream: Upstream }) {
  if (!configured) return <Badge tone="warn">Not in gateway.yaml</Badge>;
  const worst = models.find((model) => STATES[model.state][1] === 'alarm') ?? models[0];
  const [word, tone] = STATES[state === 'closed' && worst !== undefined ? worst.state : state];
  if (state !== 'closed' || models.length + elsewhere.length === 0) return <Badge tone={tone}>{word}</Badge>;
  if (worst === undefined) return <Badge tone="warn">Incident at another replica</Badge>;
  return <Badge tone={tone}>{`${word} for ${models.length === 1 ? 'one model' : `${models.length} models`}`}</Badge>;
}

function StateLines({ upstream }: { upstream: Upstream }) {
  const { state, drained, models, elsewhere, breaker, until, last_failure } = upstream;
  const is_well = state === 'closed' || state === 'drained' || state === 'unknown';
  return (
    <Lines
      className="bare stack near"
      of={[
        drained !== null &&
          say`Drained by ${strong(drained.by)} ${ago(drained.at)}${drained.reason === null ? '.' : `: ${drained.reason}`}`,
        !is_well && <StateWords {...{ state, until, last_failure }} />,
        ...models.map((model) => say`${mono(model.upstream_model)}: ${<StateWords {...model} />}`),
        ...elsewhere.map(({ replica, kind, upstream_model, until: end, last }) => {
          const model = upstream_model !== null && say`, ${mono(upstream_model)}`;
          const why = `${WORDS.IncidentKind[kind].toLowerCase()}${last === null ? '' : ` (${last})`}`;
          return say`Replica ${mono(replica)}${model}: ${why}; skipped until ${timeAt(end)}`;
        }),
        breaker === 'shadow' && 'Circuit breaker in shadow mode: it blocks no requests.',
        breaker === 'off' && 'Circuit breaker off.',
      ]}
    />
  );
}

function StateWords({ state, until, last_failure }: Pick<Upstream, 'state' | 'until' | 'last_failure'>) {
  const why = last_failure === null ? '' : ` (${last_failure})`;
  const end = until !== null && say`, until ${timeAt(until)} (${ago(until)})`;
  return say`${STATES[state][2]}${why}${end}`;
}

type Model = Traffic['models'][number];
type Counts = 'attempts' | 'failed' | 'limited';

const count = (title: string, name: Counts): Column<Model> => ({ title, cell: name, sort: name, is_number: true });
const time = (title: string, name: 'p50_ms' | 'p95_ms'): Column<Model> => ({
  title,
  cell: (row) => took(row[name]),
  sort: (row) => row[name] ?? -1,
  is_number: true,
});

const MODEL_COLUMNS: Columns<Model> = [
  { title: 'Upstream model', cell: ({ upstream_model }) => <code>{upstream_model}</code>, sort: 'upstream_model' },
  count('Attempts', 'attempts'),
  {
    title: 'Served',
    cell: ({ served, attempts }) => share(served / attempts),
    sort: ({ served, attempts }) => served / attempts,
    is_number: true,
  },
  count('Failed', 'failed'),
  count('Rate-limited', 'limited'),
  time('First byte p50', 'p50_ms'),
  time('First byte p95', 'p95_ms'),
];

type TrafficProps = { readonly traffic: Traffic; readonly span: ResponseOf<'getUpstreamTraffic'> };

function TrafficBars({ traffic: { upstream, parts }, span }: TrafficProps) {
  const { time_zone } = useSession();
  const timeOf = (part: number) =>
    shortTime(new Date(Date.parse(span.since) + part * span.part_seconds * 1000), time_zone);
  const bars = parts.map(({ attempts, failed, limited }, n) => ({
    key: String(n),
    name: /\d\d:\d\d/.exec(timeOf(n))![0],
    title: timeOf(n),
    values: [attempts - failed - limited, limited, failed],
  }));
  return (
    <div className="upstream-bars stack">
      <BarChart
        label={`Attempts at ${upstream}`}
        series={['Served', 'Rate-limited', 'Failed']}
        bars={bars}
        format={String}
      />
      <p className="small soft">{`From ${timeOf(0)} to ${timeOf(parts.length)}, ${time_zone}`}</p>
    </div>
  );
}

function UpstreamCard({ upstream, span }: { upstream: Upstream; span: ResponseOf<'getUpstreamTraffic'> | undefined }) {
  const { name, drained, in_flight, routes } = upstream;
  const traffic = span?.upstreams.find((each) => each.upstream === name);
  const id = useId();
  return (
    <section className="card stack" aria-labelledby={id}>
      <header className="row spread">
        <h2 id={id} className="row any">
          {name} <StateBadge upstream={upstream} />
        </h2>
        {drained === null ? (
          <Opens aria-label={`Drain ${name}`} shows={<DrainDialog upstream={upstream} />}>
            Drain
          </Opens>
        ) : (
          <Opens kind="primary" aria-label={`Resume ${name}`} shows={<ResumeDialog upstream={upstream} />}>
            Resume
          </Opens>
        )}
      </header>
      <StateLines upstream={upstream} />
      {span !== undefined && traffic === undefined && <p className="soft">No requests in this period.</p>}
      {span !== undefined && traffic !== undefined && (
        <>
          <Figures traffic={traffic} span={span} in_flight={in_flight} />
          {traffic.models.length > 0 && (
            <DataTable
              label={`Models at ${name}`}
              columns={MODEL_COLUMNS}
              rows={traffic.models}
              keyOf={({ upstream_model }) => upstream_model}
            />
          )}
          {traffic.outcomes.length > 0 && <Outcomes traffic={traffic} span={span} />}
        </>
      )}
      <Routes routes={routes} />
    </section>
  );
}

function Figures({ traffic, span, in_flight }: TrafficProps & { in_flight: number | null }) {
  const { upstream, attempts, served, limited, failed, p50_ms, p95_ms, turns, turns_stayed } = traffic;
  const { since, until } = span;
  const ofAll = (of: number, words = '') => soft(say` (${share(of)}${words})`);
  return (
    <div className="upstream-traffic">
      <Facts
        look="cells"
        of={{
          Attempts: say`${num(attempts)}${ofAll(traffic.share, ' of all')}`,
          Served: say`${<To page={['/requests', { upstream, since, until }]}>{num(served)}</To>}${ofAll(served / attempts)}`,
          Failed: num(failed),
          'Rate-limited (429)': num(limited),
          'First byte p50': took(p50_ms),
          'First byte p95': took(p95_ms),
          'Sessions kept on upstream': turns === 0 ? soft('no sessions') : share(turns_stayed / turns),
          'In flight here': in_flight === null ? 'unknown' : num(in_flight),
        }}
      />
      <TrafficBars traffic={traffic} span={span} />
    </div>
  );
}

function Outcomes({ traffic: { upstream, outcomes, attempts }, span: { since, until } }: TrafficProps) {
  return (
    <div className="stack near">
      <h3>Unsuccessful attempts</h3>
      <p className="soft small">
        Another upstream may have served these requests.{' '}
        <To page={['/requests', { upstream, since, until, outcome: 'failed' }]}>Requests that failed here</To>
      </p>
      <Lines
        className="bare stack near"
        of={outcomes.map(
          ({ means, attempts: of_it }) =>
            say`${strong(num(of_it))} ${soft(say`(${share(of_it / attempts)})`)} ${means}`,
        )}
      />
    </div>
  );
}

function Routes({ routes }: { routes: Upstream['routes'] }) {
  if (routes.length === 0) return <p className="soft">No route uses it.</p>;
  return (
    <p className="row">
      <span className="soft">Routes:</span>{' '}
      {routes.map(({ name, order, is_last }) => (
        <span key={name} className="row">
          <code>{name}</code> {ORDINALS[order - 1] ?? `place ${order}`}
          {is_last && <Badge tone="warn">no other upstream</Badge>}
        </span>
      ))}
    </p>
  );
}

const ORDINALS = ['first', 'second', 'third', 'fourth'];

const INCIDENT_COLUMNS: Columns<Incident> = [
  { title: 'Began', cell: 'began_at', sort: 'began_at' },
  {
    title: 'Where',
    cell: ({ upstream, upstream_model }) =>
      say`${upstream}${upstream_model === null ? ', all models' : say` ${mono(upstream_model)}`}`,
    sort: (row) => `${row.upstream} ${row.upstream_model}`,
  },
  {
    title: 'What',
    cell: ({ kind, last }) => say`${WORDS.IncidentKind[kind]} ${kind !== 'limited' && soft(last)}`,
    sort: 'kind',
  },
  { title: 'Lasted', cell: lasted },
  {
    title: 'Failed probes',
    cell: ({ times }) => (times === 1 ? soft('never') : times === 2 ? 'once' : `${times - 1} times`),
    sort: 'times',
    is_number: true,
  },
  { title: 'Seen by', cell: ({ replica }) => <code>{replica}</code> },
];

function lasted({ began_at, until, ended_at }: Incident): ReactNode {
  const from = Date.parse(began_at);
  if (ended_at !== null) return duration(Date.parse(ended_at) - from);
  if (Date.parse(until) > Date.now()) return <Badge tone="warn">ongoing</Badge>;
  const words = `${duration(Date.parse(until) - from)} or more`;
  return <span title="End unknown: no request since, or the replica stopped.">{words}</span>;
}

const TRAFFIC: readonly Option[] = [
  ['', 'Last hour'],
  ['day', 'Last day'],
];

/** Upstreams page: states, traffic, incidents, drain and resume. */
export function Page() {
  const [search] = usePageSearch();
  const window = search.window === 'day' ? 'day' : 'hour';
  const states = useOperation('listUpstreams', {}, { every_seconds: 5 });
  const traffic = useOperation('getUpstreamTraffic', { window }, { every_seconds: 30 });
  const names = states.data?.upstreams.map(({ name }) => name) ?? [];
  return (
    <>
      <PageHead title="Upstreams" intro="States, traffic and incidents of upstreams.">
        <Filters of={[{ name: 'window', label: 'Traffic', options: TRAFFIC }]} />
      </PageHead>
      <Loaded query={states}>
        {({ replica, upstreams }) => (
          <div className="stack apart">
            <p className="soft small">
              {replica === null
                ? 'Read from the database; no gateway is connected. Only drained upstreams are known.'
                : say`States as seen by replica ${mono(replica)}, refreshed every 5 seconds. Drains and traffic are of all replicas.`}
            </p>
            {traffic.error !== null && <ProblemBox problem={traffic.error} onRetry={() => void traffic.refetch()} />}
            {upstreams.length === 0 && (
              <EmptyState title="No upstreams">Add them under upstreams in gateway.yaml.</EmptyState>
            )}
            {upstreams.map((upstream) => (
              <UpstreamCard key={upstream.name} upstream={upstream} span={traffic.data} />
            ))}
          </div>
        )}
      </Loaded>
      <ListPage
        operation="listUpstreamIncidents"
        title="Incidents"
        note="Open breakers, unreachable upstreams, rejected credentials and rate limits (429) in the last 30 days, as seen by each replica."
        filters={[{ name: 'upstream', options: [['', 'All upstreams'], ...names] }]}
        every_seconds={15}
        page={25}
        columns={INCIDENT_COLUMNS}
        empty={['No incidents']}
      />
    </>
  );
}
