import { useEffect, useRef, useState } from 'react';
import { addressOf, type InputOf, type PageSearch, type ResponseOf, usePageSearch, useSession } from '../api.ts';
import { Badge, Button, CopyBlock, CopyButton, Icon, Meter, Query, type Tone } from '../parts/basic.tsx';
import { Panel } from '../parts/dialog.tsx';
import { type Filter, filtersIn, type Option, PERIOD } from '../parts/field.tsx';
import { Facts, Lines, PageHead, Part, To } from '../parts/page.tsx';
import { type Columns, Files, ListPage } from '../parts/table.tsx';
import { longAt, num, say, short, small, soft, strong, TimeText, took, usd } from '../parts/words.tsx';

const RESULTS: readonly Option[] = [
  ['', 'Any'],
  ['refused', 'Errors from the gateway'],
  ['failed', 'Errors from gateway or upstream'],
  '2xx',
  '4xx',
  '429',
  '5xx',
];

function filtersFor({ outcome, status = '' }: PageSearch): readonly Filter[] {
  const value = outcome ?? status;
  const is_listed = RESULTS.some((each) => [each].flat()[0] === value);
  return [
    { name: 'user', label: 'Person' },
    { name: 'model' },
    { name: 'upstream' },
    {
      name: 'result',
      options: is_listed ? RESULTS : [...RESULTS, value],
      value,
      searchFor: (result) =>
        result === 'refused' || result === 'failed' ? { outcome: result, status: '' } : { outcome: '', status: result },
    },
    ...PERIOD,
    { name: 'team', is_minor: true },
    { name: 'project', is_minor: true },
    { name: 'token', label: 'Token id', is_minor: true },
    { name: 'token_group', is_minor: true },
    { name: 'client', is_minor: true },
    { name: 'error', label: 'Error code', is_minor: true },
  ];
}

type RequestRow = ResponseOf<'listRequests'>['requests'][number];

const KEPT_MAX = 200;

type LiveState = 'off' | 'opening' | 'live' | 'reconnecting' | 'ended';

/** New matching requests, newest first, while `is_on`. After a reconnect the server sends the missed ones. */
function useLive(
  filters: PageSearch,
  is_on: boolean,
): { readonly rows: readonly RequestRow[]; readonly state: LiveState } {
  const [rows, setRows] = useState<readonly RequestRow[]>([]);
  const [state, setState] = useState<LiveState>('off');
  const { since: _since, until: _until, ...live_filters } = filters;
  const address = addressOf('watchRequests', live_filters as InputOf<'watchRequests'>);
  const waiting = useRef<RequestRow[]>([]);
  useEffect(() => {
    setRows([]);
    waiting.current = [];
    if (!is_on) return setState('off');
    setState('opening');
    const source = new EventSource(address);
    // Batches renders when many requests arrive at once.
    const timer = setInterval(() => {
      const fresh = waiting.current.splice(0).reverse();
      if (fresh.length > 0) setRows((before) => [...fresh, ...before].slice(0, KEPT_MAX));
    }, 400);
    source.onopen = () => setState('live');
    source.onerror = () => setState(source.readyState === EventSource.CLOSED ? 'ended' : 'reconnecting');
    source.addEventListener('request', ({ data }) => {
      try {
        waiting.current.push(JSON.parse(data) as RequestRow);
      } catch {
        // A truncated event of a closed connection.
      }
    });
    source.addEventListener('ended', () => {
      source.close();
      setState('ended');
    });
    return () => {
      clearInterval(timer);
      source.close();
    };
  }, [address, is_on]);
  return { rows, state };
}

function Result({ request: { status, error, aborted } }: { request: RequestRow }) {
  if (aborted || status === null) return <Badge>{aborted ? 'disconnected' : 'no status'}</Badge>;
  if (status < 400) return <Badge tone="good">{status}</Badge>;
  if (error !== null && status < 500) return <Badge tone="warn">{`${status} rejected`}</Badge>;
  return <Badge tone="alarm">{`${status} failed`}</Badge>;
}

const NOTHING = <span className="soft">–</span>;
const count = (of: number | null) => (of === null ? NOTHING : short(of));

const columnsFor = (is_admin: boolean): Columns<RequestRow> => [
  { title: 'Time', cell: 'at' },
  is_admin
    ? {
        title: 'Person and client',
        cell: ({ user, client }) =>
          say`${user ?? soft('unknown')}${client !== null && <span className="line soft small any">{client}</span>}`,
      }
    : { title: 'Client', cell: ({ client }) => client ?? NOTHING },
  { title: 'Result', cell: (request) => <Result request={request} /> },
  { title: 'Model', cell: (request) => <ModelPath request={request} /> },
  {
    title: 'Upstream',
    cell: ({ upstream, attempts }) =>
      upstream === null ? NOTHING : say`${upstream}${attempts > 1 && soft(` after ${attempts - 1} failed`)}`,
  },
  { title: 'In', cell: ({ input_tokens }) => count(input_tokens), is_number: true },
  {
    title: 'Cache',
    cell: ({ cache_read_tokens: read, cache_write_tokens }) =>
      count(read === null ? null : read + (cache_write_tokens ?? 0)),
    is_number: true,
  },
  { title: 'Out', cell: ({ output_tokens }) => count(output_tokens), is_number: true },
  {
    title: 'Cost',
    cell: ({ cost_usd, cost_estimated }) =>
      cost_usd === null
        ? NOTHING
        : say`${cost_estimated && <span title="Estimated: the upstream did not report usage">≈ </span>}${usd(cost_usd)}`,
    is_number: true,
  },
  { title: 'First byte', cell: ({ ttfb_ms }) => took(ttfb_ms), is_number: true },
];
const COLUMNS = { admin: columnsFor(true), own: columnsFor(false) };

function ModelPath({ request: { asked_model, sent_model, answered_model } }: { request: RequestRow }) {
  const all = [asked_model, sent_model, answered_model].filter((name) => name !== null);
  const names = all.filter((name, i) => i === 0 || name !== all[i - 1]);
  if (names.length === 0) return NOTHING;
  const words = 'Model: requested → sent → reported by the upstream';
  return (
    <span className="any" title={names.length === 1 ? undefined : words}>
      {names.join(' → ')}
    </span>
  );
}

type Trace = ResponseOf<'getRequest'>['trace'];
type Reason = Trace['stages'][number]['reasons'][number];

const ENDS: Readonly<Record<Trace['stages'][number]['end'], readonly [words: string, tone: Tone]>> = {
  ran: ['ran', 'plain'],
  answered: ['answered', 'good'],
  skipped: ['skipped', 'plain'],
  shadow: ['shadow', 'info'],
  refused: ['rejected', 'warn'],
  failed: ['failed', 'alarm'],
  left_out: ['failed; request continued', 'alarm'],
};

function TraceView({ trace, refused_by }: { trace: Trace; refused_by: string | null }) {
  const { rules, attempts, dropped, shadow, config } = trace;
  const routing = rules.filter(({ kind }) => kind === 'routing');
  const spending = rules.filter(({ kind, held }) => kind === 'spend' && held !== null);
  const decided = routing.find(({ held, mode }) => held && mode === 'enforce')?.name;
  return (
    <>
      <Limits trace={trace} />
      <Stages trace={trace} />
      {attempts.length + dropped.length > 0 && (
        <Part title="Attempts">
          <Lines of={attempts.map(({ words }) => words)} />
          <Lines of={dropped.map((words) => `Not tried: ${words}`)} className="bare stack any soft" />
        </Part>
      )}
      <Rules title="Routing rules" rules={routing} version={config} decided={decided} />
      <Rules title="Spend rules" rules={spending} version={config} decided={refused_by ?? undefined} />
      {shadow.length > 0 && (
        <Part title="Matched in shadow mode">
          <Lines of={shadow} />
        </Part>
      )}
      <Version trace={trace} />
    </>
  );
}

function Limits({ trace: { limits } }: { trace: Trace }) {
  const { is_admin } = useSession().person;
  if (limits.length === 0) return null;
  return (
    <Part title={limits.every(({ refused }) => refused) ? 'Exceeded limits' : 'Limits'}>
      <ul className="bare stack">
        {limits.map(({ rule, scope, key, limit, spent, reserved, after, resets_at, words, changed }) => (
          <li key={`${rule} ${scope} ${key}`}>
            <Meter label={rule} words={words} share={limit > 0 ? (after ?? spent + reserved) / limit : 1} />
            {changed !== null && <p className="small">{changed}</p>}
            <p className="soft small">
              {resets_at !== null && say`Resets ${longAt(resets_at)}. `}
              {(scope === 'user' || scope === 'team') && is_admin && (
                <To page={['/limits', { [scope]: key }]}>Show or change this limit</To>
              )}
              {!is_admin && <To page={['/limits']}>Show your limits</To>}
            </p>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Stages({ trace: { stages, pipeline } }: { trace: Trace }) {
  if (stages.length === 0) return null;
  return (
    <Part title={pipeline === null ? 'Stages' : `Stages of pipeline ${pipeline}`}>
      <ol className="requests-stages bare ruled">
        {stages.map(({ id, end, ms, condition, reasons, file, line }) => {
          const [words, tone] = ENDS[end];
          return (
            <li key={id} className={end}>
              <div className="row any">
                <code>{id}</code>
                {tone === 'plain' ? soft(words) : <Badge tone={tone}>{words}</Badge>}
                <span className="at-end number soft">{ms === null ? '' : took(ms)}</span>
              </div>
              {condition !== null && small(say`only when ${condition}${file !== null && ` (${file}:${line})`}`)}
              <Reasons reasons={reasons} />
            </li>
          );
        })}
      </ol>
    </Part>
  );
}

function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  const lines = reasons.map(({ held, words }) => say`${strong(held ? 'yes' : 'no')} ${words}`);
  return <Lines of={lines} className="requests-reasons bare any" />;
}

const matchWords = (held: boolean | null) => (held === null ? 'not evaluated' : held ? 'matched' : 'did not match');

function Rules(props: {
  readonly title: string;
  readonly rules: Trace['rules'];
  readonly version: string | null;
  readonly decided: string | undefined;
}) {
  const { title, rules, version, decided } = props;
  const { is_admin } = useSession().person;
  if (rules.length === 0) return null;
  return (
    <Part title={title}>
      <ol className="requests-stages bare ruled">
        {rules.map(({ name, mode, held, condition, effect, reasons, file, line }) => {
          const search = { rule: name, ...(version !== null && { version }) };
          const place = `${file}:${line}`;
          return (
            <li key={name} className={name === decided ? 'decided' : undefined}>
              <p>
                {name === decided ? <Badge tone="info">decided</Badge> : soft(matchWords(held))} {strong(name)}{' '}
                {mode === 'shadow' && '(shadow) '}
                {effect}
              </p>
              {condition !== 'always' && condition !== 'otherwise' && <p className="soft small">when {condition}</p>}
              <Reasons reasons={reasons} />
              {file !== null && (
                <p className="small">{is_admin ? <To page={['/config', search]}>{place}</To> : soft(place)}</p>
              )}
            </li>
          );
        })}
      </ol>
    </Part>
  );
}

function Version({ trace: { config, rules_known } }: { trace: Trace }) {
  const { is_admin } = useSession().person;
  if (config === null) {
    return <p className="soft small">Recorded by an older version, without stages and limits.</p>;
  }
  const name = <code>{config}</code>;
  return (
    <p className="soft small">
      Decided by configuration{' '}
      {is_admin && rules_known ? <To page={['/config', { version: config }]}>{name}</To> : name}
      {rules_known ? '.' : ', which is no longer active; its rules are not available.'}
    </p>
  );
}

function WhatIf({ id }: { id: string }) {
  const [is_enabled, enable] = useState(false);
  return (
    <Part title="Dry run">
      {is_enabled ? (
        <div aria-live="polite">
          <Query operation="explainRequest" input={{ id }}>
            {(replay) => <Replay replay={replay} />}
          </Query>
        </div>
      ) : (
        <>
          <p className="soft">Evaluates the request with the current rules and limits. Nothing is sent.</p>
          <div>
            <Button onClick={() => enable(true)}>What would happen now?</Button>
          </div>
        </>
      )}
    </Part>
  );
}

function Replay({ replay: { words, limits, rules, upstreams } }: { replay: ResponseOf<'explainRequest'> }) {
  return (
    <div className="stack boxed">
      <p>{strong(words)}</p>
      <Lines of={limits.map((limit) => `${limit.rule}: ${limit.words}`)} />
      <Lines
        of={rules
          .filter(({ held }) => held !== null)
          .map(({ name, held, effect, reasons }) => (
            <>
              Rule {name} {held ? `matches: ${effect}` : 'does not match'}
              <Reasons reasons={reasons} />
            </>
          ))}
      />
      {upstreams.length > 1 && <p className="soft">Tried in this order: {upstreams.join('; ')}.</p>}
    </div>
  );
}

type Found = ResponseOf<'getRequest'>;

function RequestDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  return (
    <Panel kind="drawer" onClose={onClose} title="Request">
      <Query operation="getRequest" input={{ id }}>
        {({ request, trace, ledger, record }) => (
          <div key={id} className="stack far any">
            <p className="requests-why large">
              <Result request={request} /> {trace.why}
            </p>
            <div className="row">
              <CopyButton text={request.id} label="Copy id" />
              <CopyButton text={window.location.href} label="Copy link" />
            </div>
            <RequestFacts request={request} />
            <Path request={request} bytes={trace.bytes} />
            <TraceView trace={trace} refused_by={request.refused_by} />
            <WhatIf id={request.id} />
            <Ledger rows={ledger} />
            <details>
              <summary>Audit record</summary>
              <p className="soft small">It contains no prompt text.</p>
              <CopyBlock label="Audit record" text={JSON.stringify(record, null, 2)} />
            </details>
          </div>
        )}
      </Query>
    </Panel>
  );
}

function RequestFacts({ request }: { request: RequestRow }) {
  const { is_admin } = useSession().person;
  const { at, user, team, project, token_id, token_name, client, client_version, duration_ms, ttfb_ms } = request;
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, cost_usd, cost_estimated } = request;
  return (
    <Facts
      look="cells"
      of={{
        Ended: <TimeText at={at} form="long" />,
        Person: user !== null && is_admin ? <To page={['/people', { user }]}>{user}</To> : (user ?? 'unknown'),
        'Team and project':
          (team !== null || project !== null) && [team ?? 'no team', project ?? 'no project'].join(', '),
        Token: token_id !== null && user !== null && <To page={['/tokens', { user }]}>{token_name ?? token_id}</To>,
        Client: client !== null && `${client} ${client_version ?? ''}`,
        Duration: `${took(duration_ms)}${ttfb_ms === null ? '' : `, first byte after ${took(ttfb_ms)}`}`,
        Tokens:
          input_tokens === null
            ? 'not counted'
            : say`${num(input_tokens)} input, ${num(cache_read_tokens ?? 0)} cache read, ${num(cache_write_tokens ?? 0)} cache write, ${num(output_tokens ?? 0)} output`,
        Cost: cost_usd !== null && say`${usd(cost_usd)}${cost_estimated && ' (estimated)'}`,
      }}
    />
  );
}

function Path({ request, bytes }: { request: RequestRow; bytes: string | null }) {
  const { asked_model, sent_model, answered_model, upstream, client, attempts } = request;
  const steps = [
    [`${client ?? 'Client'} requested`, asked_model],
    // A rejected request may have a route without having been sent.
    ...(attempts === 0
      ? [upstream === null ? ['Upstream', 'none'] : [`Routed to ${upstream}`, 'not sent']]
      : [
          [`Sent to ${upstream ?? 'no upstream'}`, sent_model],
          [`Reported by ${upstream ?? 'no upstream'}`, answered_model],
        ]),
  ];
  return (
    <Part title="Models">
      <ol className="bare fitted any">
        {steps.map(([who, what]) => (
          <li key={who} className="stack top framed">
            <span className="soft small">{who}</span>
            <strong>{what ?? 'none'}</strong>
          </li>
        ))}
      </ol>
      {bytes !== null && <p className="soft">{bytes}</p>}
    </Part>
  );
}

function Ledger({ rows: [first, ...later] }: { rows: Found['ledger'] }) {
  if (first === undefined) return null;
  const { cost_from } = first;
  const source = cost_from === 'upstream' ? 'usage of the upstream' : (cost_from ?? 'unknown source');
  const total = later.reduce((sum, { cost_usd }) => sum + cost_usd, first.cost_usd);
  const line = ({ cost_usd, at }: Found['ledger'][number], words: string) =>
    say`${usd(cost_usd)}${words}, ${longAt(at)}`;
  return (
    <Part title="Charged">
      <Lines
        of={[line(first, `, by ${source}`), ...later.map((row) => line(row, ` adjusted by ${row.by ?? 'unknown'}`))]}
      />
      {later.length > 0 && <p>Total {usd(total)}.</p>}
    </Part>
  );
}

/** Requests page: the list with filters, a live view, and decision traces. */
export function Page() {
  const { person, time_zone } = useSession();
  const [search, change] = usePageSearch();
  const filters = filtersFor(search);
  const input = filtersIn(search, filters);
  const is_live = search.live === 'yes';
  const live = useLive(input, is_live);
  const [tone, words] = LIVE_WORDS[live.state];
  return (
    <>
      <PageHead
        title="Requests"
        intro={`${person.is_admin ? 'All requests' : 'Your requests'} with their routing, rejections and costs. Times are in ${time_zone}.`}
      >
        <Button aria-pressed={is_live} onClick={() => change({ live: is_live ? undefined : 'yes' })}>
          <Icon name={is_live ? 'pause' : 'play'} />
          {is_live ? 'Stop live view' : 'Watch live'}
        </Button>
        <Files of={{ CSV: 'exportRequestsCsv', 'JSON lines': 'exportRequests' }} input={input} />
      </PageHead>
      {is_live && (
        <p className="requests-live badges" role="status">
          <Badge tone={tone}>{live.rows.length > 0 ? `${words} ${live.rows.length} so far.` : words}</Badge>
        </p>
      )}
      <ListPage
        operation="listRequests"
        // Developers get an error for a link to the requests of others.
        input={{ user: search.user }}
        title="Requests, the newest first"
        is_part
        filters={filters.filter(({ name }) => person.is_admin || name !== 'user')}
        clear="Clear filters"
        rows={({ requests }) => (search.after === undefined ? withLive(live.rows, requests) : requests)}
        page={50}
        columns={person.is_admin ? COLUMNS.admin : COLUMNS.own}
        opens="request"
        empty={({ searched_to }) => {
          if (searched_to !== null)
            return ['No matching requests so far', say`Searched back to ${longAt(searched_to)}.`];
          return Object.keys(input).length > 0
            ? ['No matching requests', 'Remove a filter or choose a longer period.']
            : ['No requests yet', 'Set up a client; its first request appears here within a second.'];
        }}
      />
      {search.request !== undefined && (
        <RequestDrawer id={search.request} onClose={() => change({ request: undefined })} />
      )}
    </>
  );
}

function withLive(live: readonly RequestRow[], listed: readonly RequestRow[]): readonly RequestRow[] {
  const known = new Set(listed.map(({ id }) => id));
  return [...live.filter(({ id }) => !known.has(id)), ...listed];
}

const LIVE_WORDS: Readonly<Record<LiveState, readonly [tone: Tone, words: string]>> = {
  off: ['plain', ''],
  opening: ['plain', 'Connecting.'],
  live: ['good', 'Live: new requests appear at the top.'],
  reconnecting: ['warn', 'Connection lost, reconnecting. Missed requests will follow.'],
  ended: [
    'alarm',
    'The live view has ended: your session is over, or too many live views are open. Sign in again or close another live view, then stop and start this one.',
  ],
};
