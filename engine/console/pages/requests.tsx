import { useInfiniteQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useId, useMemo, useRef, useState } from 'react';
import {
  type AnswerOf,
  addressOf,
  call,
  type PageSearch,
  type ProblemError,
  useOperation,
  usePageSearch,
  useSession,
} from '../api.ts';
import {
  Badge,
  Button,
  CopyBlock,
  CopyButton,
  Count,
  EmptyState,
  Facts,
  Icon,
  Loaded,
  Meter,
  PageHead,
  ProblemBox,
  ShortCount,
  Skeleton,
  TimeText,
  To,
  type Tone,
  took,
  Usd,
} from '../parts/basic.tsx';
import { Drawer } from '../parts/dialog.tsx';
import { SearchField, SelectField, TextField } from '../parts/field.tsx';
import { type Column, DataTable, Files } from '../parts/table.tsx';
import { dayAfter, isDay } from '../ranges.ts';

/** What the list can be narrowed down by, with a text of its own each. */
const TEXT_FILTERS = [
  'user',
  'team',
  'project',
  'token',
  'token_group',
  'model',
  'upstream',
  'client',
  'error',
] as const;
type TextFilter = (typeof TEXT_FILTERS)[number];

/** Filters of the address as the admin API takes them. */
type RequestFilters = Readonly<Partial<Record<TextFilter | 'status' | 'since' | 'until', string>>> & {
  readonly outcome?: 'refused' | 'failed';
};

/** How requests ended, as one can ask for it: `status` or `outcome` of the address. */
const RESULTS = [
  { value: '', text: 'Any' },
  { value: 'refused', text: 'Refused or given up' },
  { value: 'failed', text: 'Any error' },
  { value: '2xx', text: '2xx' },
  { value: '4xx', text: '4xx' },
  { value: '429', text: '429' },
  { value: '5xx', text: '5xx' },
] as const;

/** What an address asks for; what no gateway would take is left out. */
function filtersOf(search: PageSearch): RequestFilters {
  const { status, outcome, failed, since, until } = search;
  const texts = TEXT_FILTERS.flatMap((name) => (search[name]?.trim() ? [[name, search[name]]] : []));
  const wanted = failed === 'yes' ? 'failed' : outcome;
  return {
    ...Object.fromEntries(texts),
    ...(status !== undefined && /^[1-5](\d\d|xx)$/.test(status) && { status }),
    ...((wanted === 'refused' || wanted === 'failed') && { outcome: wanted }),
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
  };
}

/** The result that an address asks for, as a value of `RESULTS`, or a status of its own. */
function resultOf({ status, outcome }: RequestFilters): string {
  return outcome ?? status ?? '';
}

/** What to write into the address for a result. */
function searchForResult(value: string): PageSearch {
  const is_outcome = value === 'refused' || value === 'failed';
  return {
    outcome: is_outcome ? value : undefined,
    status: is_outcome || value === '' ? undefined : value,
    failed: undefined,
  };
}

/** An address without any filter. */
const NO_FILTERS: PageSearch = Object.fromEntries(
  [...TEXT_FILTERS, 'status', 'outcome', 'failed', 'since', 'until'].map((name) => [name, undefined]),
);

interface Filtering {
  readonly search: PageSearch;
  readonly change: (parts: PageSearch) => void;
}

const LESS_USED: readonly (readonly [TextFilter, string])[] = [
  ['team', 'Team'],
  ['project', 'Project'],
  ['token', 'Token id'],
  ['token_group', 'Token group'],
  ['client', 'Client'],
  ['error', 'Error code'],
];

/** What the list is narrowed down by; a text takes effect with Enter, or when its field is left. */
function FilterBar({ search, change }: Filtering) {
  const { person } = useSession();
  const filters = filtersOf(search);
  const result = resultOf(filters);
  const is_listed = RESULTS.some(({ value }) => value === result);
  const options = is_listed ? RESULTS : [...RESULTS, { value: result, text: result }];
  const uses_less = LESS_USED.some(([name]) => filters[name] !== undefined);
  const is_filtered = Object.keys(filters).length > 0;
  const field = (name: TextFilter, label: string) => (
    <SearchField key={name} label={label} value={search[name] ?? ''} onSet={(value) => change({ [name]: value })} />
  );
  return (
    <search className="requests-filters stack">
      <div className="filters">
        {person.is_admin && field('user', 'Person')}
        {field('model', 'Model')}
        {field('upstream', 'Upstream')}
        <SelectField
          label="Result"
          options={[...options]}
          value={result}
          onChange={(event) => change(searchForResult(event.target.value))}
        />
        <Moment label="From" value={search.since ?? ''} onSet={(since) => change({ since })} />
        <Moment label="To (included)" is_last value={search.until ?? ''} onSet={(until) => change({ until })} />
        {is_filtered && (
          <Button kind="quiet" onClick={() => change(NO_FILTERS)}>
            Clear filters
          </Button>
        )}
      </div>
      <details open={uses_less}>
        <summary>More filters</summary>
        <div className="filters">{LESS_USED.map(([name, label]) => field(name, label))}</div>
      </details>
    </search>
  );
}

interface Setting {
  readonly label: string;
  readonly value: string;
  readonly onSet: (value: string | undefined) => void;
}

/** A day, where it is the last one as people say it: the address has the day after. A link from another page may name a moment. */
function Moment({ label, value, onSet, is_last = false }: Setting & { readonly is_last?: boolean }) {
  if (value.includes('T')) return <SearchField label={label.replace(' (included)', '')} {...{ value, onSet }} />;
  const moved = (day: string, days: number) => (is_last && isDay(day) ? dayAfter(day, days) : day);
  return (
    <TextField
      label={label}
      type="date"
      value={moved(value, -1)}
      onChange={({ target }) => onSet(moved(target.value, 1) || undefined)}
    />
  );
}

type RequestRow = AnswerOf<'listRequests'>['requests'][number];

/** More than this many are not kept: the list below has them. */
const KEPT_MAX = 200;

/** How the live list is doing: `mending` while it tries to get back, `ended` where it will not. */
type LiveState = 'off' | 'opening' | 'live' | 'mending' | 'ended';

/** New requests that fit, the newest first, while `is_on`. What was missed in between comes when the connection is back. */
function useLive(
  filters: RequestFilters,
  is_on: boolean,
): { readonly rows: readonly RequestRow[]; readonly state: LiveState } {
  const [rows, setRows] = useState<readonly RequestRow[]>([]);
  const [state, setState] = useState<LiveState>('off');
  const { since: _since, until: _until, ...wanted } = filters;
  const address = addressOf('watchRequests', wanted);
  const waiting = useRef<RequestRow[]>([]);
  useEffect(() => {
    setRows([]);
    waiting.current = [];
    if (!is_on) return setState('off');
    setState('opening');
    const source = new EventSource(address);
    // Many may come at once: they are drawn together.
    const timer = setInterval(() => {
      const fresh = waiting.current.splice(0).reverse();
      if (fresh.length > 0) setRows((before) => [...fresh, ...before].slice(0, KEPT_MAX));
    }, 400);
    source.onopen = () => setState('live');
    source.onerror = () => setState(source.readyState === EventSource.CLOSED ? 'ended' : 'mending');
    source.addEventListener('request', ({ data }) => {
      try {
        waiting.current.push(JSON.parse(data) as RequestRow);
      } catch {
        // Half an event, of a connection that was cut.
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

type Ended = Pick<RequestRow, 'status' | 'error' | 'aborted'>;

function toneOf({ status, error, aborted }: Ended): Tone {
  if (aborted || status === null) return 'plain';
  if (status < 400) return 'good';
  return error !== null && status < 500 ? 'warn' : 'alarm';
}

function wordOf({ status, error, aborted }: Ended): string {
  if (aborted) return 'client left';
  if (status === null) return 'no status';
  if (status < 400) return String(status);
  return `${status} ${error === null ? 'failed' : status < 500 ? 'refused' : 'given up'}`;
}

function Result({ request }: { request: Ended }) {
  return <Badge tone={toneOf(request)}>{wordOf(request)}</Badge>;
}

/** The model a client asked for, what the upstream was asked for and what answered, each where it is another name. */
function modelPath({ asked_model, sent_model, answered_model }: RequestRow): string[] {
  const names = [asked_model, sent_model, answered_model].filter((name) => name !== null);
  return names.filter((name, i) => i === 0 || name !== names[i - 1]);
}

const NOTHING = <span className="soft">–</span>;
const count = (of: number | null) => (of === null ? NOTHING : <ShortCount of={of} />);

const PERSON: Column<RequestRow> = {
  id: 'user',
  title: 'Person and client',
  cell: ({ user, client }) => (
    <>
      {user ?? <span className="soft">unknown</span>}
      {client !== null && <span className="line soft small any">{client}</span>}
    </>
  ),
};

const COLUMNS: readonly Column<RequestRow>[] = [
  { id: 'at', title: 'Time', cell: ({ at }) => <TimeText at={at} /> },
  PERSON,
  { id: 'result', title: 'Result', cell: (request) => <Result request={request} /> },
  {
    id: 'model',
    title: 'Model',
    cell: (request) => <ModelPath names={modelPath(request)} />,
  },
  { id: 'upstream', title: 'Upstream', cell: ({ upstream, attempts }) => <Where {...{ upstream, attempts }} /> },
  { id: 'in', title: 'In', cell: ({ input_tokens }) => count(input_tokens), is_number: true },
  {
    id: 'cache',
    title: 'Cache',
    cell: ({ cache_read_tokens, cache_write_tokens }) =>
      cache_read_tokens === null ? NOTHING : <ShortCount of={cache_read_tokens + (cache_write_tokens ?? 0)} />,
    is_number: true,
  },
  { id: 'out', title: 'Out', cell: ({ output_tokens }) => count(output_tokens), is_number: true },
  {
    id: 'cost',
    title: 'Cost',
    cell: ({ cost_usd, cost_estimated }) =>
      cost_usd === null ? (
        NOTHING
      ) : (
        <>
          {cost_estimated && <span title="Estimated: the upstream did not say what was used">≈ </span>}
          <Usd amount={cost_usd} />
        </>
      ),
    is_number: true,
  },
  { id: 'ttfb', title: 'First byte', cell: ({ ttfb_ms }) => took(ttfb_ms), is_number: true },
];
const CLIENT: Column<RequestRow> = { id: 'client', title: 'Client', cell: ({ client }) => client ?? NOTHING };
const OWN_COLUMNS = COLUMNS.map((column) => (column === PERSON ? CLIENT : column));

function ModelPath({ names }: { names: readonly string[] }) {
  if (names.length === 0) return NOTHING;
  const words =
    names.length === 1 ? undefined : 'What the client asked for, and what was sent or answered under another name';
  return (
    <span className="any" title={words}>
      {names.join(' → ')}
    </span>
  );
}

function Where({ upstream, attempts }: Pick<RequestRow, 'upstream' | 'attempts'>) {
  if (upstream === null) return NOTHING;
  return (
    <>
      {upstream}
      {attempts > 1 && <span className="soft"> after {attempts - 1} other</span>}
    </>
  );
}

/** Requests, the newest first; each opens by the button of its time. */
function RequestTable({
  label,
  rows,
  is_admin,
  open_id,
  onOpen,
}: {
  label: string;
  rows: readonly RequestRow[];
  is_admin: boolean;
  open_id: string | undefined;
  onOpen: (id: string) => void;
}) {
  const columns = useMemo(() => (is_admin ? COLUMNS : OWN_COLUMNS), [is_admin]);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={rows}
      keyOf={({ id }) => id}
      onOpen={({ id }) => onOpen(id)}
      isOpen={({ id }) => id === open_id}
    />
  );
}

type Trace = AnswerOf<'getRequest'>['trace'];
type Reason = Trace['stages'][number]['reasons'][number];

const ENDS: Readonly<Record<Trace['stages'][number]['end'], readonly [words: string, tone: Tone]>> = {
  ran: ['ran', 'plain'],
  answered: ['answered', 'good'],
  skipped: ['skipped', 'plain'],
  shadow: ['shadow: only recorded', 'info'],
  refused: ['refused it', 'warn'],
  failed: ['failed', 'alarm'],
  left_out: ['failed and was left out', 'alarm'],
};

/** Every decision about a request, in the order in which it was made. */
function TraceView({ trace, refused_by }: { trace: Trace; refused_by: string | null }) {
  const routing = trace.rules.filter(({ kind }) => kind === 'routing');
  const spending = trace.rules.filter(({ kind, held }) => kind === 'spend' && held !== null);
  return (
    <>
      <Limits trace={trace} />
      <Stages trace={trace} />
      {(trace.attempts.length > 0 || trace.dropped.length > 0) && (
        <Part title="Attempts">
          <ol className="bare stack any">
            {trace.attempts.map(({ n, words }) => (
              <li key={n}>{words}</li>
            ))}
          </ol>
          {trace.dropped.length > 0 && (
            <ul className="bare stack any soft">
              {trace.dropped.map((words) => (
                <li key={words}>Not asked: {words}</li>
              ))}
            </ul>
          )}
        </Part>
      )}
      {routing.length > 0 && (
        <Part title="Routing rules">
          <Rules
            rules={routing}
            version={trace.config}
            decided={routing.find(({ held, mode }) => held && mode === 'enforce')?.name}
          />
        </Part>
      )}
      {spending.length > 0 && (
        <Part title="Spend rules">
          <Rules rules={spending} version={trace.config} decided={refused_by ?? undefined} />
        </Part>
      )}
      {trace.shadow.length > 0 && (
        <Part title="Would have acted, but is in shadow mode">
          <ul className="bare stack any">
            {trace.shadow.map((name) => (
              <li key={name}>{name}</li>
            ))}
          </ul>
        </Part>
      )}
      <Version trace={trace} />
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{title}</h3>
      {children}
    </section>
  );
}

function Limits({ trace: { limits } }: { trace: Trace }) {
  const { person } = useSession();
  if (limits.length === 0) return null;
  return (
    <Part title={limits.every(({ refused }) => refused) ? 'Limits without room' : 'Limits'}>
      <ul className="bare stack">
        {limits.map(({ rule, scope, key, limit, spent, reserved, after, resets_at, words, changed }) => (
          <li key={`${rule} ${scope} ${key}`}>
            <Meter label={rule} words={words} share={limit > 0 ? (after ?? spent + reserved) / limit : 1} />
            {changed !== null && <p className="small">{changed}</p>}
            <p className="soft small">
              {resets_at !== null && (
                <>
                  Begins again <TimeText at={resets_at} form="long" />.{' '}
                </>
              )}
              {(scope === 'user' || scope === 'team') && person.is_admin && (
                <To page={['/limits', { [scope]: key }]}>See this limit, or grant more</To>
              )}
              {!person.is_admin && <To page={['/limits']}>See your limits</To>}
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
    <Part title={pipeline === null ? 'Stages' : `Stages of the pipeline ${pipeline}`}>
      <ol className="requests-stages bare ruled">
        {stages.map(({ id, end, ms, condition, reasons, file, line }) => {
          const [words, tone] = ENDS[end];
          return (
            <li key={id} className={end}>
              <div className="row any">
                <code>{id}</code>
                {tone === 'plain' ? <span className="soft">{words}</span> : <Badge tone={tone}>{words}</Badge>}
                <span className="requests-ms number soft">{ms === null ? '' : took(ms)}</span>
              </div>
              {condition !== null && (
                <p className="soft small">
                  only when {condition}
                  {file !== null && ` (${file}:${line})`}
                </p>
              )}
              <Reasons reasons={reasons} />
            </li>
          );
        })}
      </ol>
    </Part>
  );
}

function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  if (reasons.length === 0) return null;
  return (
    <ul className="requests-reasons bare any">
      {reasons.map(({ held, words }) => (
        <li key={words}>
          <strong>{held ? 'yes' : 'no'}</strong> {words}
        </li>
      ))}
    </ul>
  );
}

const HELD = (held: boolean | null) => (held === null ? 'not asked' : held ? 'applied' : 'did not apply');

function Rules({
  rules,
  version,
  decided,
}: {
  rules: Trace['rules'];
  version: string | null;
  decided: string | undefined;
}) {
  const { person } = useSession();
  return (
    <ol className="requests-stages bare ruled">
      {rules.map(({ name, mode, held, condition, effect, reasons, file, line }) => (
        <li key={name} className={name === decided ? 'decided' : undefined}>
          <p>
            {name === decided ? <Badge tone="info">decided</Badge> : <span className="soft">{HELD(held)}</span>}{' '}
            <strong>{name}</strong> {mode === 'shadow' && '(shadow) '}
            {effect}
          </p>
          {condition !== 'always' && condition !== 'otherwise' && <p className="soft small">when {condition}</p>}
          <Reasons reasons={reasons} />
          {file !== null && (
            <p className="small">
              {person.is_admin ? (
                <To page={['/config', { rule: name, ...(version !== null && { version }) }]}>{`${file}:${line}`}</To>
              ) : (
                <span className="soft">{`${file}:${line}`}</span>
              )}
            </p>
          )}
        </li>
      ))}
    </ol>
  );
}

function Version({ trace: { config, rules_known } }: { trace: Trace }) {
  const { person } = useSession();
  if (config === null) {
    return <p className="soft small">This record is of a time when stages and limits were not kept.</p>;
  }
  return (
    <p className="soft small">
      Decided by the configuration{' '}
      {person.is_admin && rules_known ? (
        <To page={['/config', { version: config }]}>
          <code>{config}</code>
        </To>
      ) : (
        <code>{config}</code>
      )}
      {rules_known ? '.' : ', which is not in force any more: how its rules are worded is not known here.'}
    </p>
  );
}

/** What would become of the request by the configuration in force, asked for on demand. */
function WhatIf({ id }: { id: string }) {
  const [asked, ask] = useState<string | undefined>();
  const query = useOperation('explainRequest', { id }, { enabled: asked === id });
  return (
    <section>
      <h3>And now?</h3>
      {asked !== id ? (
        <>
          <p className="soft">By the rules and limits as they are at this moment. Nothing is sent.</p>
          <Button onClick={() => ask(id)}>What would happen now?</Button>
        </>
      ) : (
        <div aria-live="polite">
          <Loaded query={query} lines={3}>
            {(replay) => <Replay replay={replay} />}
          </Loaded>
        </div>
      )}
    </section>
  );
}

function Replay({ replay: { words, limits, rules, upstreams } }: { replay: AnswerOf<'explainRequest'> }) {
  const asked = rules.filter(({ held }) => held !== null);
  return (
    <div className="stack boxed">
      <p>
        <strong>{words}</strong>
      </p>
      {limits.length > 0 && (
        <ul className="bare stack any">
          {limits.map((limit) => (
            <li key={`${limit.rule} ${limit.words}`}>
              {limit.rule}: {limit.words}
            </li>
          ))}
        </ul>
      )}
      {asked.length > 0 && (
        <ul className="bare stack any">
          {asked.map(({ name, held, effect, reasons }) => (
            <li key={name}>
              The rule {name} {held ? `holds: ${effect}` : 'does not hold'}
              <Reasons reasons={reasons} />
            </li>
          ))}
        </ul>
      )}
      {upstreams.length > 1 && <p className="soft">Tried in this order: {upstreams.join('; ')}.</p>}
    </div>
  );
}

type Found = AnswerOf<'getRequest'>;

/** One request beside the list: why it ended so, then everything that decided. */
function RequestDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useOperation('getRequest', { id });
  return (
    <Drawer onClose={onClose} title="Why this request ended this way">
      <Loaded query={query} lines={12}>
        {(found) => <Details found={found} />}
      </Loaded>
    </Drawer>
  );
}

function Details({ found }: { found: Found }) {
  const { request, trace, ledger, record } = found;
  return (
    <div className="requests-details stack far">
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
        <summary>The record as it was kept</summary>
        <p className="soft small">No text of a prompt is in it.</p>
        <CopyBlock label="The record" text={JSON.stringify(record, null, 2)} />
      </details>
    </div>
  );
}

function RequestFacts({ request }: { request: RequestRow }) {
  const { person } = useSession();
  const { at, user, team, project, token_id, token_name, client, client_version, duration_ms, ttfb_ms } = request;
  const cost = request.cost_usd !== null && (
    <>
      <Usd amount={request.cost_usd} />
      {request.cost_estimated && ' (estimated)'}
    </>
  );
  const who = user !== null && person.is_admin ? <To page={['/people', { user }]}>{user}</To> : user;
  return (
    <Facts
      look="cells"
      of={{
        Ended: <TimeText at={at} form="long" />,
        Person: who ?? 'unknown',
        'Team and project':
          (team !== null || project !== null) && [team ?? 'no team', project ?? 'no project'].join(', '),
        Token: token_id !== null && user !== null && <To page={['/tokens', { user }]}>{token_name ?? token_id}</To>,
        Client: client !== null && `${client} ${client_version ?? ''}`,
        Took: `${took(duration_ms)}${ttfb_ms === null ? '' : `, first byte after ${took(ttfb_ms)}`}`,
        Tokens: <Tokens request={request} />,
        Cost: cost,
      }}
    />
  );
}

function Tokens({ request }: { request: RequestRow }) {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = request;
  if (input_tokens === null) return 'none were counted';
  return (
    <>
      <Count of={input_tokens} /> in, <Count of={cache_read_tokens ?? 0} /> from the cache,{' '}
      <Count of={cache_write_tokens ?? 0} /> into it, <Count of={output_tokens ?? 0} /> out
    </>
  );
}

/** Client asked, gateway sent, provider returned. */
function Path({ request, bytes }: { request: RequestRow; bytes: string | null }) {
  const { asked_model, sent_model, answered_model, upstream, client, attempts } = request;
  const steps = [
    { who: `${client ?? 'The client'} asked for`, what: asked_model },
    // A request that was refused on its way has a route, and was sent nowhere.
    ...(attempts === 0
      ? [{ who: upstream === null ? 'The gateway asked' : `Meant for ${upstream}`, what: 'not sent' }]
      : [
          { who: `The gateway asked ${upstream ?? 'nobody'} for`, what: sent_model },
          { who: `${upstream ?? 'Nobody'} answered with`, what: answered_model },
        ]),
  ];
  return (
    <section>
      <h3>Asked, sent, answered</h3>
      <ol className="bare fitted any">
        {steps.map(({ who, what }) => (
          <li key={who} className="stack near framed">
            <span className="soft small">{who}</span>
            <strong>{what ?? 'nothing'}</strong>
          </li>
        ))}
      </ol>
      {bytes !== null && <p className="soft">{bytes}</p>}
    </section>
  );
}

function Ledger({ rows }: { rows: Found['ledger'] }) {
  if (rows.length === 0) return null;
  const [first, ...later] = rows;
  const total = rows.reduce((sum, { cost_usd }) => sum + cost_usd, 0);
  return (
    <section>
      <h3>Charged</h3>
      <ul className="bare stack any">
        <li>
          <Usd amount={first!.cost_usd} />,{' '}
          {first!.cost_from === 'upstream'
            ? 'by what the upstream reported'
            : `by ${first!.cost_from ?? 'an unknown source'}`}
          , <TimeText at={first!.at} form="long" />
        </li>
        {later.map(({ at, cost_usd, by }) => (
          <li key={at}>
            <Usd amount={cost_usd} /> put right by {by ?? 'somebody'}, <TimeText at={at} form="long" />
          </li>
        ))}
      </ul>
      {later.length > 0 && (
        <p>
          Together <Usd amount={total} />.
        </p>
      )}
    </section>
  );
}

const PAGE_ROWS = 50;

/** Which requests there were, and why each ended as it did. */
export function Page() {
  const { person, time_zone } = useSession();
  const [search, change] = usePageSearch();
  const filters = filtersOf(search);
  const is_live = search.live === 'yes';
  const live = useLive(filters, is_live);
  const open = (request: string | undefined) => change({ request });
  const wanted = { ...filters, ...(filters.since || filters.until ? { time_zone } : {}) };
  return (
    <>
      <PageHead
        title="Requests"
        intro={`${person.is_admin ? 'Every request' : 'Your requests'}, and why each was served, refused or priced as it was. Times are ${time_zone}.`}
      >
        <Button aria-pressed={is_live} onClick={() => change({ live: is_live ? undefined : 'yes' })}>
          <Icon name={is_live ? 'pause' : 'play'} />
          {is_live ? 'Stop live view' : 'Watch live'}
        </Button>
        <Files lines={addressOf('exportRequests', wanted)} csv={addressOf('exportRequestsCsv', wanted)} />
      </PageHead>
      <FilterBar search={search} change={change} />
      {is_live && <LiveNote state={live.state} count={live.rows.length} />}
      <List
        {...{ filters, open_id: search.request, live_rows: live.rows, is_admin: person.is_admin }}
        time_zone={time_zone}
        onOpen={open}
      />
      {search.request !== undefined && <RequestDrawer id={search.request} onClose={() => open(undefined)} />}
    </>
  );
}

const LIVE_WORDS: Readonly<Record<LiveState, string>> = {
  off: '',
  opening: 'Live view begins.',
  live: 'Live: new requests appear at the top.',
  mending: 'The connection was lost; it is being mended, and what was missed comes then.',
  ended: 'The live view has ended: your session is over, or too many are open. Stop it and begin again.',
};

function LiveNote({ state, count }: { state: LiveState; count: number }) {
  return (
    <p className={`requests-live row flush ${state}`} role="status">
      <span className="requests-live-mark" aria-hidden="true" />
      {LIVE_WORDS[state]}
      {count > 0 && ` ${count} so far.`}
    </p>
  );
}

interface Listing {
  readonly filters: RequestFilters;
  readonly time_zone: string;
  readonly open_id: string | undefined;
  readonly live_rows: readonly RequestRow[];
  readonly is_admin: boolean;
  readonly onOpen: (id: string) => void;
}

function List({ filters, time_zone, open_id, live_rows, is_admin, onOpen }: Listing) {
  const input = { ...filters, ...(filters.since || filters.until ? { time_zone } : {}), limit: PAGE_ROWS };
  const query = useInfiniteQuery<AnswerOf<'listRequests'>, ProblemError>({
    queryKey: ['listRequests', input],
    queryFn: ({ pageParam, signal }) =>
      call('listRequests', { ...input, ...(typeof pageParam === 'string' && { after: pageParam }) }, signal),
    initialPageParam: undefined,
    getNextPageParam: ({ next }) => next,
  });
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = query;
  const retry = () => void (hasNextPage && data !== undefined ? fetchNextPage() : refetch());
  if (data === undefined) {
    return error === null ? (
      <Skeleton lines={12} label="Requests are loading" />
    ) : (
      <ProblemBox problem={error} onRetry={retry} />
    );
  }
  const listed = data.pages.flatMap(({ requests }) => requests);
  const known = new Set(listed.map(({ id }) => id));
  const rows = [...live_rows.filter(({ id }) => !known.has(id)), ...listed];
  const searched_to = data.pages.at(-1)?.searched_to ?? null;
  return (
    <>
      {rows.length === 0 && !hasNextPage && <Nothing is_filtered={Object.keys(filters).length > 0} />}
      {rows.length > 0 && <RequestTable label="Requests, the newest first" {...{ rows, is_admin, open_id, onOpen }} />}
      {error !== null && <ProblemBox problem={error} onRetry={retry} />}
      {hasNextPage && (
        <div className="row">
          <Button is_busy={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            {data.pages.at(-1)!.requests.length < PAGE_ROWS ? 'Search further back' : 'Show older requests'}
          </Button>
          {searched_to !== null && (
            <span className="soft small">
              Looked back to <TimeText at={searched_to} form="long" />.
            </span>
          )}
        </div>
      )}
    </>
  );
}

function Nothing({ is_filtered }: { is_filtered: boolean }) {
  if (is_filtered) {
    return <EmptyState title="No request is like this.">Take a filter away, or look at a longer time.</EmptyState>;
  }
  return (
    <EmptyState title="There are no requests yet.">
      Set up a client with an access token; its first request appears here within a second.
    </EmptyState>
  );
}
