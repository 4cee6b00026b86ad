import { useState } from 'react';
import { isSpendWindow, perWindow } from '../../../base/contract/windows.ts';
import { type PageSearch, type ResponseOf, useOperation, usePageSearch, useSession } from '../api.ts';
import type { LimitInForce } from '../operations.ts';
import { Badge, Button, CopyBlock, Icon, Meter, Query } from '../parts/basic.tsx';
import { ClientSetup } from '../parts/client-setup.tsx';
import { Filters } from '../parts/field.tsx';
import { Card, EmptyState, Figures, Lines, PageHead, Part, To } from '../parts/page.tsx';
import { type Columns, DataTable } from '../parts/table.tsx';
import { ago, longAt, mono, num, say, share, short, small, soft, Trend, usd } from '../parts/words.tsx';
import { dayAfter, firstDay, today } from '../ranges.ts';
import { amountWords, counterId, whoseWords } from './limit-words.ts';

function Connect() {
  const { public_url, sign_in } = useSession();
  const [search] = usePageSearch();
  return (
    <Query operation="getMe" title="Connect a client">
      {({ models, no_models_because }) => {
        if (models.length === 0) {
          return <EmptyState title="No models available to you">{no_models_because}</EmptyState>;
        }
        const model = models.find((each) => each === search.model) ?? models[0]!;
        return (
          <div className="stack apart">
            <p className="soft">
              {sign_in === 'provider'
                ? say`Sign in once on your machine, then run the command of your client. On machines without sign-in, use an ${<To page={['/tokens']}>access token</To>}.`
                : say`A client needs an access token: ${<To page={['/tokens']}>create one</To>}. Then run the command of your client.`}{' '}
              Commands ask before they change a file.
            </p>
            {models.length > 1 && <Filters of={[{ name: 'model', options: models, value: model }]} />}
            <ClientSetup model={model} credential={sign_in === 'provider' ? 'sign-in' : 'access-token'} />
            <Part title="Other clients of Messages, chat completions or Responses">
              <p className="soft">Base URL; for SDKs of chat completions or Responses append /v1.</p>
              <CopyBlock text={public_url} label="Base URL of this gateway" />
            </Part>
          </div>
        );
      }}
    </Query>
  );
}

function Week() {
  const { person, time_zone } = useSession();
  const monday = firstDay('week', today(time_zone));
  const before = dayAfter(monday, -7);
  const week_before = useOperation('getUsage', { user: person.email, since: before, until: monday });
  const own = { ...(person.is_admin && { user: person.email }), by: 'model' };
  return (
    <Query operation="getUsage" input={{ user: person.email, since: monday }} every_seconds={60}>
      {({ total }) => (
        <Figures
          of={[
            {
              title: <To page={['/usage', { ...own, since: monday }]}>My cost this week</To>,
              figure: usd(total.cost_usd),
              below: `since ${SHORT_DAY.format(new Date(monday))}`,
            },
            {
              title: <To page={['/usage', { ...own, since: before, until: monday }]}>Last week</To>,
              figure: week_before.data === undefined ? '–' : usd(week_before.data.total.cost_usd),
              below: 'all seven days',
            },
            { title: 'My requests this week', figure: short(total.requests), below: 'sent to a model' },
            {
              title: 'Cache hits',
              figure: total.cache_hit_ratio === null ? '–' : share(total.cache_hit_ratio),
              below: 'of my input tokens this week',
            },
          ]}
        />
      )}
    </Query>
  );
}

const SHORT_DAY = new Intl.DateTimeFormat('en', { weekday: 'long', month: 'short', day: 'numeric', timeZone: 'UTC' });

function useOwn(): { readonly user?: string } {
  const { person } = useSession();
  return person.is_admin ? { user: person.email } : {};
}

function Limits() {
  const own = useOwn();
  const link = <To page={['/limits', own]}>All my limits</To>;
  return (
    <Query operation="listLimits" input={own} every_seconds={30} title="My limits" actions={link}>
      {({ limits: all, written }) => {
        // Minute windows change too fast to read.
        const shown = all.filter(({ limit, window }) => limit !== null && isSpendWindow(window));
        if (shown.length > 0) {
          return (
            <Lines className="bare stack" of={shown.map((limit) => <Limit key={counterId(limit)} limit={limit} />)} />
          );
        }
        const unused = written.filter(({ mode }) => mode === 'enforce');
        if (unused.some(({ window }) => isSpendWindow(window))) {
          return <EmptyState title="No spend limit has usage yet" />;
        }
        const is_limited =
          unused.length > 0 ||
          all.some(({ limit, rules }) => limit !== null && rules.some(({ mode }) => mode === 'enforce'));
        return <EmptyState title={is_limited ? 'Only rate limits apply to you' : 'No spend limit applies to you'} />;
      }}
    </Query>
  );
}

function Limit({ limit: each }: { limit: LimitInForce }) {
  const { person } = useSession();
  const { of, window, unit, spent, reserved, limit, resets_at } = each;
  const { user, ...others } = of;
  const own = Object.keys(others).length === 0 ? 'Your limit' : `Your limit for ${whoseWords(others)}`;
  const whose = user === person.email ? own : `Limit of ${whoseWords(of)}`;
  return (
    <div className="stack near">
      <Meter
        label={`${whose} ${perWindow(window)}`}
        share={limit === 0 ? 1 : (spent + reserved) / limit!}
        words={`${amountWords(spent, unit)} of ${amountWords(limit!, unit)}`}
      />
      {resets_at !== null && <p className="soft small">{say`Resets ${ago(resets_at)}, ${longAt(resets_at)}`}</p>}
    </div>
  );
}

const TOKENS = 4;

function Tokens() {
  const { person, sign_in } = useSession();
  const link = <To page={['/tokens', useOwn()]}>All my tokens</To>;
  const input = { user: person.email, state: 'in_force', limit: 1000 } as const;
  return (
    <Query operation="listTokens" input={input} title="My tokens" actions={link}>
      {({ tokens: usable }) => {
        if (usable.length === 0) {
          return (
            <EmptyState title="No access tokens yet">
              {sign_in === 'provider' ? 'Only clients without sign-in need one.' : 'Clients need one.'}{' '}
              <To page={['/tokens']}>Create one</To>.
            </EmptyState>
          );
        }
        const latest = usable.toSorted((a, b) =>
          (b.last_used_at ?? b.created_at).localeCompare(a.last_used_at ?? a.created_at),
        );
        return (
          <ul className="bare stack">
            {latest.slice(0, TOKENS).map(({ id, name, group, last_used_at, state }) => (
              <li key={id} className="row">
                <span>{say`${name} ${soft(group)}`}</span>
                {state !== 'active' && <Badge tone="warn">{state}</Badge>}
                <span className="soft small at-end">
                  {last_used_at === null ? 'never used' : say`used ${ago(last_used_at)}`}
                </span>
              </li>
            ))}
            {latest.length > TOKENS && <li className="soft">{`and ${latest.length - TOKENS} more`}</li>}
          </ul>
        );
      }}
    </Query>
  );
}

type Home = ResponseOf<'getHome'>;
type LookAt = Home['look_at'][number];

const AT_ONCE = 3;

function State() {
  return (
    <Query operation="getHome" every_seconds={30}>
      {(home) => (
        <div className="stack apart">
          <ToLookAt home={home} />
          <Today home={home} />
          {home.refused.requests > 0 && <Refused home={home} />}
        </div>
      )}
    </Query>
  );
}

function ToLookAt({ home: { look_at, since } }: { home: Home }) {
  const [is_long, setLong] = useState(false);
  const shown = is_long ? look_at : look_at.slice(0, AT_ONCE);
  const left = look_at.length - shown.length;
  return (
    <Card title="Issues">
      {look_at.length === 0 ? (
        <p className="home-quiet row">
          <Icon name="check" />
          None. All upstreams are healthy, the configuration is loaded, and no limit is near exhaustion.
        </p>
      ) : (
        <ol className="bare stack">
          {shown.map(({ kind, subject, level, text, at }) => {
            const [to, words, searchFor] = PLACES[kind];
            return (
              <li key={`${kind} ${subject}`} className="stack near">
                <div className="row spread">
                  <Badge tone={level}>{level === 'alarm' ? 'Alarm' : 'Warning'}</Badge>
                  <To page={[to, searchFor?.(subject, since)]}>{words}</To>
                </div>
                <span className="any">{say`${text} ${at !== null && small(ago(at))}`}</span>
              </li>
            );
          })}
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

type Place = readonly [to: string, words: string, search?: (subject: string | null, since: string) => PageSearch];

const UPSTREAMS: Place = ['/upstreams', 'Upstreams'];

const PLACES: Readonly<Record<LookAt['kind'], Place>> = {
  configuration_failed: ['/config', 'Findings'],
  configurations_differ: ['/config', 'Replicas'],
  route_without_upstream: UPSTREAMS,
  upstream_unavailable: UPSTREAMS,
  upstream_drained: UPSTREAMS,
  limit_near: ['/limits', 'Limit', (user) => (user === null ? {} : { user })],
  many_refused: ['/requests', 'Requests', (error, since) => ({ ...(error !== null && { error }), since })],
  sign_ins_refused: ['/people', 'People', (user) => (user === null ? {} : { user })],
  cost_grows: ['/usage', 'Usage', () => ({ range: 'today', by: 'user,model' })],
  estimates_grow: ['/usage', 'Usage', () => ({ range: 'today', by: 'upstream,estimated' })],
};

function Today({ home: { today, yesterday, refused, upstreams, configuration, since } }: { home: Home }) {
  const { unavailable, drained, all } = upstreams;
  const out = new Set([...unavailable, ...drained]);
  const { is_failing, loaded_at, replicas } = configuration;
  const failure = is_failing && <Badge tone="alarm">The last load failed</Badge>;
  const among = replicas !== 1 && `, ${replicas} replicas`;
  return (
    <Figures
      of={[
        {
          title: <To page={['/usage', { range: 'today' }]}>Cost today</To>,
          figure: usd(today.cost_usd),
          below: <Trend now={today.cost_usd} before={yesterday.total.cost_usd} than="yesterday" />,
        },
        {
          title: <To page={['/requests', { since, outcome: 'refused' }]}>Rejections and errors today</To>,
          figure: num(refused.requests),
          below: say`and ${num(today.requests)} forwarded`,
        },
        {
          title: <To page={['/upstreams']}>Upstreams</To>,
          figure: `${all - out.size} of ${all}`,
          below: (
            <>
              {out.size === 0 && <Badge tone="good">All healthy</Badge>}
              {unavailable.length > 0 && <Badge tone="alarm">{`Failing: ${unavailable.join(', ')}`}</Badge>}
              {drained.length > 0 && <Badge tone="warn">{`Drained: ${drained.join(', ')}`}</Badge>}
            </>
          ),
        },
        {
          title: <To page={['/config']}>Configuration</To>,
          figure: is_failing ? 'Failed' : loaded_at === null ? '–' : 'Loaded',
          below: say`${failure} ${loaded_at !== null && ago(loaded_at)}${among}`,
        },
      ]}
    />
  );
}

function Refused({ home: { refused, since } }: { home: Home }) {
  const columns: Columns<Home['refused']['by_error'][number]> = [
    { title: 'Reason', cell: ({ meaning, error }) => meaning ?? error },
    { title: 'Code', cell: ({ error }) => mono(error) },
    {
      title: 'Requests',
      is_number: true,
      cell: ({ error, requests }) => (
        <To page={['/requests', { error, since }]} title="Show these requests">
          {num(requests)}
        </To>
      ),
    },
    { title: 'People', is_number: true, cell: 'people' },
  ];
  const title = 'Rejections and errors today';
  return (
    <Card title={title}>
      <DataTable label={title} columns={columns} rows={refused.by_error} keyOf={({ error }) => error} />
    </Card>
  );
}

/** Home page: state of the gateway for administrators; own usage, limits, tokens and client setup for everyone. */
export function Page() {
  const { person, time_zone } = useSession();
  return (
    <>
      <PageHead title="Home" intro={`Days and weeks begin at midnight, ${time_zone}.`} />
      {person.is_admin && <State />}
      <section className="stack apart" aria-label="Yours">
        <Week />
        <div className="fitted">
          <Limits />
          <Tokens />
        </div>
      </section>
      <Connect />
    </>
  );
}
