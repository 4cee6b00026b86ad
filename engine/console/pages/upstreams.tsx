import { type ReactNode, useId, useMemo, useState } from 'react';
import { type AnswerOf, useOperation, usePageSearch, useSession } from '../api.ts';
import { BarChart } from '../parts/bar-chart.tsx';
import {
  Badge,
  Button,
  Card,
  Count,
  EmptyState,
  Facts,
  Loaded,
  PageHead,
  ProblemBox,
  relativeTime,
  Share,
  shortTime,
  TimeText,
  To,
  type Tone,
  took,
} from '../parts/basic.tsx';
import { ChangeDialog } from '../parts/dialog.tsx';
import { SelectField, TextField, useFields } from '../parts/field.tsx';
import { type Column, DataTable, List } from '../parts/table.tsx';

type Upstream = AnswerOf<'listUpstreams'>['upstreams'][number];
type Traffic = AnswerOf<'getUpstreamTraffic'>['upstreams'][number];
type Trouble = AnswerOf<'listUpstreamTroubles'>['troubles'][number];

const STATES: Readonly<Record<Upstream['state'], { word: string; tone: Tone; means: string }>> = {
  closed: { word: 'As it should be', tone: 'good', means: 'Requests pass.' },
  open: { word: 'Breaker open', tone: 'alarm', means: 'It failed too often and is left out' },
  half_open: { word: 'Being tried', tone: 'warn', means: 'One request at a time tries whether it serves again' },
  limited: { word: 'Limited', tone: 'warn', means: 'It answered 429: the account has no room there' },
  credential: { word: 'Credential refused', tone: 'alarm', means: 'It refused the credential of the gateway' },
  model_missing: { word: 'Model missing', tone: 'warn', means: 'It does not have this model' },
  drained: { word: 'Drained', tone: 'info', means: 'It gets no new requests' },
  unknown: { word: 'Unknown', tone: 'plain', means: 'Nothing is known of it here' },
};

const TROUBLES: Readonly<Record<Trouble['kind'], string>> = {
  open: 'Failed too often',
  unreachable: 'No connection',
  credential: 'Credential refused',
  limited: 'Limited (429)',
};

const SECOND = 1000;
const UNITS = [
  ['d', 86_400 * SECOND],
  ['h', 3600 * SECOND],
  ['min', 60 * SECOND],
  ['s', SECOND],
] as const;

/** How long something lasted, in its two largest units, such as `2 min 5 s`. */
function duration(ms: number): string {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at]!;
  const next = UNITS[at + 1];
  const whole = Math.floor(ms / size);
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1]);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${next![0]}`;
}

interface Asked {
  readonly upstream: Upstream;
  readonly onClose: () => void;
}

const routeNames = (names: readonly string[]) => names.map((name) => `"${name}"`).join(', ');

/** Asks why an upstream is to get no new requests, and says first what that leaves without one. */
function DrainDialog({ upstream: { name, routes, in_flight }, onClose }: Asked) {
  const [{ reason }, field] = useFields({ reason: '' });
  const left_alone = routes.filter(({ is_last }) => is_last).map((route) => route.name);
  return (
    <ChangeDialog
      operation="drainUpstream"
      input={{ name, reason: reason.trim() || undefined }}
      done={({ routes_without_upstream: none }) =>
        none.length === 0
          ? [`Drained ${name}. Its routes go on with their other upstreams.`]
          : [`Drained ${name}. Refused from now on: requests of ${routeNames(none)}.`, 'warn']
      }
      onClose={onClose}
      title={`Drain ${name}?`}
      action={`Drain ${name}`}
      kind={left_alone.length > 0 ? 'danger' : 'primary'}
    >
      <p>
        It gets no new requests at any replica until somebody resumes it.
        {in_flight !== null && in_flight > 0
          ? ` ${in_flight} under way at this replica go on to their end.`
          : ' Requests under way go on to their end.'}
      </p>
      {left_alone.length > 0 && (
        <p className="upstream-warning" role="alert">
          <strong>No other upstream is left in {left_alone.length === 1 ? 'the route' : 'the routes'}</strong>{' '}
          {routeNames(left_alone)}: all requests there are refused until it is resumed.
        </p>
      )}
      <TextField
        label="Reason"
        hint="Everybody who administers the gateway reads it here. You may leave it out."
        {...field('reason')}
        maxLength={200}
      />
    </ChangeDialog>
  );
}

function ResumeDialog({ upstream: { name, drained, configured }, onClose }: Asked) {
  const told = configured ? 'It gets new requests again.' : 'gateway.yaml has no such upstream.';
  return (
    <ChangeDialog
      operation="resumeUpstream"
      input={{ name }}
      done={() => [`Resumed ${name}. ${told}`]}
      onClose={onClose}
      title={`Resume ${name}?`}
      action={`Resume ${name}`}
    >
      <p>
        {drained !== null && `Drained by ${drained.by}${drained.reason === null ? '.' : `: ${drained.reason}`} `}
        Every replica sends it new requests again.
      </p>
    </ChangeDialog>
  );
}

type Stated = Pick<Upstream, 'state' | 'until' | 'last_failure'>;

/** The state of an upstream as a badge; where some of its models are not as they should be, that is said. */
function StateBadge({ upstream: { state, models, configured, elsewhere } }: { upstream: Upstream }) {
  if (!configured) return <Badge tone="warn">Not in gateway.yaml</Badge>;
  const worst = models.find((model) => STATES[model.state].tone === 'alarm') ?? models[0];
  if (state === 'closed' && worst !== undefined) {
    const { word, tone } = STATES[worst.state];
    return <Badge tone={tone}>{`${word} for ${models.length === 1 ? 'one model' : `${models.length} models`}`}</Badge>;
  }
  if (state === 'closed' && elsewhere.length > 0) return <Badge tone="warn">Trouble at another replica</Badge>;
  return <Badge tone={STATES[state].tone}>{STATES[state].word}</Badge>;
}

/** Everything that is the matter with an upstream, a line each; nothing where all is as it should be. */
function StateLines({ upstream }: { upstream: Upstream }) {
  const { state, drained, models, elsewhere, breaker, until, last_failure } = upstream;
  const is_well = state === 'closed' || state === 'drained' || state === 'unknown';
  const lines = [
    drained !== null && (
      <li key="drained">
        Drained by <strong>{drained.by}</strong> <TimeText at={drained.at} form="relative" />
        {drained.reason === null ? '.' : `: ${drained.reason}`}
      </li>
    ),
    !is_well && (
      <li key="whole">
        <StateWords {...{ state, until, last_failure }} />
      </li>
    ),
    ...models.map((model) => (
      <li key={model.upstream_model}>
        <code>{model.upstream_model}</code>: <StateWords {...model} />
      </li>
    )),
    ...elsewhere.map(({ replica, kind, upstream_model, until: end, last }) => (
      <li key={`${replica} ${kind} ${upstream_model}`}>
        Replica <code>{replica}</code>
        {upstream_model !== null && (
          <>
            , <code>{upstream_model}</code>
          </>
        )}
        : {TROUBLES[kind].toLowerCase()}
        {last !== null && ` (${last})`}; left out there until <TimeText at={end} />
      </li>
    )),
    breaker === 'shadow' && <li key="shadow">Its breakers only tell: requests pass whatever they say.</li>,
    breaker === 'off' && <li key="off">It has no breakers.</li>,
  ].filter((line) => line !== false);
  return lines.length === 0 ? null : <ul className="stack near">{lines}</ul>;
}

function StateWords({ state, until, last_failure }: Stated) {
  return (
    <>
      {STATES[state].means}
      {last_failure !== null && ` (${last_failure})`}
      {until !== null && (
        <>
          , until <TimeText at={until} /> ({relativeTime(new Date(until))})
        </>
      )}
    </>
  );
}

type Model = Traffic['models'][number];

const number = (
  title: string,
  sort: (row: Model) => number,
  cell: (row: Model) => ReactNode = (row) => <Count of={sort(row)} />,
): Column<Model> => ({ id: title, title, sort, cell, is_number: true });

const MODEL_COLUMNS: readonly Column<Model>[] = [
  {
    id: 'model',
    title: 'Model there',
    cell: ({ upstream_model }) => <code>{upstream_model}</code>,
    sort: (row) => row.upstream_model,
  },
  number('Attempts', (row) => row.attempts),
  number(
    'Answered',
    (row) => row.served / row.attempts,
    ({ served, attempts }) => <Share of={served / attempts} />,
  ),
  number('Failed', (row) => row.failed),
  number('Limited', (row) => row.limited),
  number(
    'Half within',
    (row) => row.p50_ms ?? -1,
    ({ p50_ms }) => took(p50_ms),
  ),
  number(
    '95 of 100 within',
    (row) => row.p95_ms ?? -1,
    ({ p95_ms }) => took(p95_ms),
  ),
];

const OUTCOMES = ['Passed', 'Limited', 'Failed'];

/** Attempts over time by what came of them; the same as a table on demand. */
function TrafficBars({ name, parts, span }: { name: string; parts: Traffic['parts']; span: Span }) {
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
      <BarChart label={`Attempts at ${name}`} series={OUTCOMES} bars={bars} format={String} />
      <p className="small soft">
        From {timeOf(0)} to {timeOf(parts.length)}, {time_zone}
      </p>
    </div>
  );
}

/** A time of which traffic is shown, as the answer tells it. */
interface Span {
  readonly since: string;
  readonly until: string;
  readonly part_seconds: number;
}

interface Shown {
  readonly upstream: Upstream;
  /** Absent until it is known. */
  readonly traffic: Traffic | undefined;
  readonly span: Span | undefined;
  readonly onDrain: () => void;
  readonly onResume: () => void;
}

/** One upstream: how it is, what went there, which routes need it, and the way to take it out. */
function UpstreamCard({ upstream, traffic, span, onDrain, onResume }: Shown) {
  const { name, drained, in_flight, routes } = upstream;
  const id = useId();
  return (
    <section className="card stack" aria-labelledby={id}>
      <header className="row spread">
        <h2 id={id} className="row any">
          {name} <StateBadge upstream={upstream} />
        </h2>
        {drained === null ? (
          <Button onClick={onDrain} aria-label={`Drain ${name}`}>
            Drain
          </Button>
        ) : (
          <Button kind="primary" onClick={onResume} aria-label={`Resume ${name}`}>
            Resume
          </Button>
        )}
      </header>
      <StateLines upstream={upstream} />
      {span !== undefined && <Figures traffic={traffic} span={span} name={name} in_flight={in_flight} />}
      {traffic !== undefined && traffic.models.length > 0 && (
        <DataTable
          label={`Models at ${name}`}
          columns={MODEL_COLUMNS}
          rows={traffic.models}
          keyOf={({ upstream_model }) => upstream_model}
        />
      )}
      {traffic !== undefined && span !== undefined && traffic.outcomes.length > 0 && (
        <Outcomes traffic={traffic} span={span} />
      )}
      <Routes routes={routes} />
    </section>
  );
}

function Figures({
  traffic,
  span,
  name,
  in_flight,
}: {
  traffic: Traffic | undefined;
  span: Span;
  name: string;
  in_flight: number | null;
}) {
  if (traffic === undefined) return <p className="soft">Nothing went there in this time.</p>;
  const { attempts, served, limited, failed, p50_ms, p95_ms, share, turns, turns_stayed, parts } = traffic;
  const { since, until } = span;
  const of_all = (of: number, words = '') => (
    <span className="soft">
      {' ('}
      <Share of={of} />
      {words})
    </span>
  );
  return (
    <div className="upstream-traffic">
      <Facts
        look="cells large"
        of={{
          Attempts: (
            <>
              <Count of={attempts} />
              {of_all(share, ' of all')}
            </>
          ),
          Answered: (
            <>
              <To page={['/requests', { upstream: name, since, until }]}>
                <Count of={served} />
              </To>
              {of_all(served / attempts)}
            </>
          ),
          Failed: <Count of={failed} />,
          'Limited (429)': <Count of={limited} />,
          'First byte, half within': took(p50_ms),
          '95 of 100 within': took(p95_ms),
          'Sessions that stayed':
            turns === 0 ? <span className="soft">none went on</span> : <Share of={turns_stayed / turns} />,
          'Under way here': in_flight === null ? 'unknown' : <Count of={in_flight} />,
        }}
      />
      <TrafficBars name={name} parts={parts} span={span} />
    </div>
  );
}

/** Why attempts were not answered, the most frequent reason first. */
function Outcomes({ traffic: { upstream, outcomes, attempts }, span }: { traffic: Traffic; span: Span }) {
  const { since, until } = span;
  return (
    <div className="stack near">
      <h3>What was not answered</h3>
      <p className="soft small">
        Most of it goes on to another upstream.{' '}
        <To page={['/requests', { upstream, since, until, outcome: 'failed' }]}>Requests that ended here and failed</To>
      </p>
      <ul className="stack near">
        {outcomes.map(({ outcome, means, attempts: of_it }) => (
          <li key={outcome}>
            <strong>
              <Count of={of_it} />
            </strong>{' '}
            <span className="soft">
              (<Share of={of_it / attempts} />)
            </span>{' '}
            {means}
          </li>
        ))}
      </ul>
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
          {is_last && <Badge tone="warn">no other left</Badge>}
        </span>
      ))}
    </p>
  );
}

const ORDINALS = ['first', 'second', 'third', 'fourth'];

const PAGE = 25;

const TROUBLE_COLUMNS: readonly Column<Trouble>[] = [
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
function TroubleList({ names }: { names: readonly string[] }) {
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
      <List
        query={query}
        rows={({ troubles }) => troubles}
        turn="after"
        label="What kept requests away"
        columns={TROUBLE_COLUMNS}
        empty={<EmptyState title="Nothing kept requests away.">Whatever does is written down here.</EmptyState>}
      />
    </Card>
  );
}

const WINDOWS = [
  { value: 'hour', text: 'Last hour' },
  { value: 'day', text: 'Last day' },
];

/** Where requests go: how each upstream is, what went there and came of it, and the way to take one out. */
export function Page() {
  const [{ window: shown }, change] = usePageSearch();
  const window = shown === 'day' ? 'day' : 'hour';
  const states = useOperation('listUpstreams', {}, { every_seconds: 5 });
  const traffic = useOperation('getUpstreamTraffic', { window }, { every_seconds: 30 });
  const [asked, ask] = useState<{ readonly about: string; readonly for: 'drain' | 'resume' }>();
  const names = useMemo(() => states.data?.upstreams.map(({ name }) => name) ?? [], [states.data]);
  const close = () => ask(undefined);
  const about = states.data?.upstreams.find(({ name }) => name === asked?.about);
  return (
    <>
      <PageHead title="Upstreams" intro="Where requests go, how each of them is, and what came of it.">
        <SelectField
          label="Traffic of"
          options={WINDOWS}
          value={window}
          onChange={(event) => change({ window: event.target.value === 'hour' ? undefined : event.target.value })}
        />
      </PageHead>
      <Loaded query={states} lines={8}>
        {({ replica, upstreams }) => (
          <div className="stack apart">
            <p className="soft small">
              {replica === null ? (
                'No gateway is asked: only what is drained is known.'
              ) : (
                <>
                  States as the replica <code>{replica}</code> sees them, asked again every 5 seconds. What is drained
                  holds for all; traffic is that of all replicas, by the ledger.
                </>
              )}
            </p>
            {traffic.error !== null && <ProblemBox problem={traffic.error} onRetry={() => void traffic.refetch()} />}
            {upstreams.length === 0 && (
              <EmptyState title="There are no upstreams.">Name them under upstreams in gateway.yaml.</EmptyState>
            )}
            {upstreams.map((upstream) => (
              <UpstreamCard
                key={upstream.name}
                upstream={upstream}
                traffic={traffic.data?.upstreams.find((each) => each.upstream === upstream.name)}
                span={traffic.data}
                onDrain={() => ask({ about: upstream.name, for: 'drain' })}
                onResume={() => ask({ about: upstream.name, for: 'resume' })}
              />
            ))}
          </div>
        )}
      </Loaded>
      <TroubleList names={names} />
      {about !== undefined && asked?.for === 'drain' && <DrainDialog upstream={about} onClose={close} />}
      {about !== undefined && asked?.for === 'resume' && <ResumeDialog upstream={about} onClose={close} />}
    </>
  );
}
