import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { type AnswerOf, type PageSearch, useOperation, usePageSearch, useSession } from '../api.ts';
import type { LimitInForce } from '../operations.ts';
import {
  Badge,
  Button,
  Card,
  CopyBlock,
  Count,
  EmptyState,
  Figure,
  Figures,
  Icon,
  Loaded,
  Meter,
  PageHead,
  Share,
  ShortCount,
  TimeText,
  To,
  Trend,
  Usd,
  When,
} from '../parts/basic.tsx';
import { ClientSetup } from '../parts/client-setup.tsx';
import { SelectField } from '../parts/field.tsx';
import { type Column, DataTable } from '../parts/table.tsx';
import { dayAfter, mondayBefore, today } from '../ranges.ts';
import { amountWords, whoseWords, windowWords } from './limit-words.ts';

/** How a client is set up for this gateway, with a model that one may use. */
function Connect() {
  const { public_url, sign_in } = useSession();
  const [search, change] = usePageSearch();
  const me = useOperation('getMe', {});
  return (
    <Card title="Connect a client">
      <Loaded query={me}>
        {({ models, no_models_because }) => {
          if (models.length === 0) {
            return <EmptyState title="There is no model you may use">{no_models_because}</EmptyState>;
          }
          const model = models.find((each) => each === search.model) ?? models[0]!;
          return (
            <div className="stack apart">
              <p className="soft">
                {sign_in === 'provider' ? (
                  <>
                    Sign in once on your machine, then run the command of your client. Where nobody can sign in, a
                    client takes an <To page={['/tokens']}>access token</To>.
                  </>
                ) : (
                  <>
                    A client needs an access token: <To page={['/tokens']}>create one</To>. Then run the command of your
                    client.
                  </>
                )}{' '}
                Commands that change a file show the change first, and ask.
              </p>
              {models.length > 1 && (
                <div className="filters">
                  <SelectField
                    label="Model"
                    value={model}
                    onChange={({ target }) => change({ model: target.value }, { replace: true })}
                    options={models.map((each) => ({ value: each, text: each }))}
                  />
                </div>
              )}
              <ClientSetup
                base_url={public_url}
                model={model}
                credential={sign_in === 'provider' ? 'sign-in' : 'access-token'}
              />
              <section>
                <h3>Any other client of Messages, chat completions or Responses</h3>
                <p className="soft">
                  Its base URL; an SDK of chat completions or Responses wants it with /v1 at its end.
                </p>
                <CopyBlock text={public_url} label="Base URL of this gateway" />
              </section>
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** What is one's own: this week, limits and tokens. */
function Mine() {
  return (
    <section className="stack apart" aria-label="Yours">
      <Week />
      <div className="cards">
        <Limits />
        <Tokens />
      </div>
    </section>
  );
}

function Week() {
  const { person, time_zone } = useSession();
  const monday = mondayBefore(today(time_zone));
  const week = useOperation('getUsage', { user: person.email, since: monday }, { every_seconds: 60 });
  const before = useOperation('getUsage', { user: person.email, since: dayAfter(monday, -7), until: monday });
  const link = (search: object) =>
    ({ to: '/usage', search: { ...(person.is_admin && { user: person.email }), ...search } as never }) as const;
  return (
    <Loaded query={week} lines={3}>
      {({ total }) => (
        <Figures>
          <Figure
            title={<Link {...link({ since: monday, by: 'model' })}>My cost this week</Link>}
            below={<span className="soft">{`since ${shortDay(monday)}`}</span>}
          >
            <Usd amount={total.cost_usd} />
          </Figure>
          <Figure
            title={<Link {...link({ since: dayAfter(monday, -7), until: monday, by: 'model' })}>The week before</Link>}
            below={<span className="soft">all seven days</span>}
          >
            {before.data === undefined ? '–' : <Usd amount={before.data.total.cost_usd} />}
          </Figure>
          <Figure title="My requests this week" below={<span className="soft">sent to a model</span>}>
            <ShortCount of={total.requests} />
          </Figure>
          <Figure title="Cache hits" below={<span className="soft">of my tokens in, this week</span>}>
            {total.cache_hit_ratio === null ? '–' : <Share of={total.cache_hit_ratio} />}
          </Figure>
        </Figures>
      )}
    </Loaded>
  );
}

const SHORT_DAY = new Intl.DateTimeFormat('en', { weekday: 'long', month: 'short', day: 'numeric', timeZone: 'UTC' });
const shortDay = (day: string) => SHORT_DAY.format(new Date(day));

/** What there is a limit for; a minute is over before one has read it. */
const isShown = ({ limit, window }: LimitInForce) => limit !== null && window !== 'minute' && window !== 'open';

function Limits() {
  const { person } = useSession();
  const limits = useOperation('listLimits', person.is_admin ? { user: person.email } : {}, { every_seconds: 30 });
  return (
    <Card
      title="My limits"
      actions={<To page={['/limits', person.is_admin ? { user: person.email } : {}]}>All my limits</To>}
    >
      <Loaded query={limits}>
        {(answer) => {
          const shown = answer.limits.filter(isShown);
          if (shown.length === 0) {
            const is_limited = [...answer.limits.flatMap(({ rules }) => rules), ...answer.written].some(
              ({ mode }) => mode === 'enforce',
            );
            return (
              <EmptyState
                title={is_limited ? 'Some of your requests are limited' : 'No limit in money is set for you'}
              />
            );
          }
          return (
            <ul className="bare stack">
              {shown.map((limit) => (
                <li key={JSON.stringify([limit.of, limit.window, limit.unit])} className="stack near">
                  <Limit limit={limit} email={person.email} />
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Card>
  );
}

function Limit({
  limit: { of, window, unit, spent, reserved, limit, resets_at },
  email,
}: {
  limit: LimitInForce;
  email: string;
}) {
  const { user, ...others } = of;
  const own = user === email && Object.keys(others).length === 0;
  const whose = own ? 'You' : user === email ? `You, ${whoseWords(others)}` : `Your ${whoseWords(of)}`;
  const words = `${amountWords(spent, unit)} of ${amountWords(limit!, unit)}`;
  return (
    <>
      <Meter
        label={`${whose} ${windowWords(window)}`}
        share={limit === 0 ? 1 : (spent + reserved) / limit!}
        words={words}
      />
      {resets_at !== null && (
        <p className="soft small">
          Resets <TimeText at={resets_at} form="relative" />, <TimeText at={resets_at} form="long" />
        </p>
      )}
    </>
  );
}

const TOKENS = 4;

function Tokens() {
  const { person, sign_in } = useSession();
  const tokens = useOperation('listTokens', { user: person.email, limit: 1000 });
  return (
    <Card
      title="My tokens"
      actions={<To page={['/tokens', person.is_admin ? { user: person.email } : {}]}>All my tokens</To>}
    >
      <Loaded query={tokens}>
        {(answer) => {
          const usable = answer.tokens.filter(
            ({ state }) => state === 'active' || state === 'suspended' || state === 'replaced',
          );
          if (usable.length === 0) {
            return (
              <EmptyState title="You have no access token yet">
                <p>
                  {sign_in === 'provider'
                    ? 'A client needs one only where nobody can sign in.'
                    : 'A client needs one to be let in.'}{' '}
                  <To page={['/tokens']}>Create your first</To>.
                </p>
              </EmptyState>
            );
          }
          const latest = usable.toSorted((a, b) =>
            (b.last_used_at ?? b.created_at).localeCompare(a.last_used_at ?? a.created_at),
          );
          return (
            <ul className="home-tokens bare stack">
              {latest.slice(0, TOKENS).map(({ id, name, group, last_used_at, state }) => (
                <li key={id} className="row">
                  <span>
                    {name} <span className="soft">{group}</span>
                  </span>
                  {state !== 'active' && <Badge tone="warn">{state}</Badge>}
                  <span className="soft small">
                    {last_used_at !== null && 'used '}
                    <When at={last_used_at} otherwise="never used" />
                  </span>
                </li>
              ))}
              {latest.length > TOKENS && <li className="soft">{`and ${latest.length - TOKENS} more`}</li>}
            </ul>
          );
        }}
      </Loaded>
    </Card>
  );
}

type Home = AnswerOf<'getHome'>;
type LookAt = Home['look_at'][number];

const AT_ONCE = 3;

/** How the gateway is: what to look at, and today in figures. */
function State() {
  const home = useOperation('getHome', {}, { every_seconds: 30 });
  return (
    <Loaded query={home} lines={8}>
      {(answer) => (
        <div className="stack apart">
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
        <p className="home-quiet row">
          <Icon name="check" />
          Nothing. Upstreams serve, the configuration is loaded, and no limit is near its end.
        </p>
      ) : (
        <ol className="home-list bare stack">
          {shown.map((each) => (
            <li key={`${each.kind} ${each.subject}`}>
              <Badge tone={each.level}>{each.level === 'alarm' ? 'Now' : 'Soon'}</Badge>
              <span className="any">
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
        title={<To page={['/usage', { range: 'today' }]}>Cost today</To>}
        below={<Trend now={today.cost_usd} before={yesterday.total.cost_usd} than="yesterday by now" />}
      >
        <Usd amount={today.cost_usd} />
      </Figure>
      <Figure
        title={<To page={['/requests', { since, outcome: 'refused' }]}>Refused or given up today</To>}
        below={<span className="soft">beside {<Count of={today.requests} />} sent on</span>}
      >
        <Count of={refused.requests} />
      </Figure>
      <Figure
        title={<To page={['/upstreams']}>Upstreams</To>}
        below={<Out closed={upstreams.closed} drained={upstreams.drained} />}
      >
        {`${upstreams.all - out.size} of ${upstreams.all}`}
      </Figure>
      <Figure
        title={<To page={['/config']}>Configuration</To>}
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
        <To page={['/requests', { error, since }]} title="Show these requests">
          <Count of={requests} />
        </To>
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

/** What one wants to know first: for administrators how the gateway is, for everybody what is theirs and how to begin. */
export function Page() {
  const { person, time_zone } = useSession();
  return (
    <>
      <PageHead title="Home" intro={`Days and weeks begin at midnight, ${time_zone}.`} />
      {person.is_admin && <State />}
      <Mine />
      <Connect />
    </>
  );
}
