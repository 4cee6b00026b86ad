import { Link } from '@tanstack/react-router';
import type { LimitInForce } from '../../api/operations.ts';
import { useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge } from '../../parts/badge.tsx';
import { Figure, Figures } from '../../parts/figures.tsx';
import { Meter } from '../../parts/meter.tsx';
import { Share, ShortCount, Usd } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { TimeText } from '../../parts/times.tsx';
import { amountWords, whoseWords, windowWords } from '../limits/words.ts';
import { dayAfter, mondayBefore, today } from '../usage/range.ts';

/** What is one's own: this week, limits and tokens. */
export function Mine() {
  return (
    <section className="home-mine" aria-label="Yours">
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
      actions={
        <Link to="/limits" search={(person.is_admin ? { user: person.email } : {}) as never}>
          All my limits
        </Link>
      }
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
            <ul className="home-limits">
              {shown.map((limit) => (
                <li key={JSON.stringify([limit.of, limit.window, limit.unit])}>
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
      actions={
        <Link to="/tokens" search={(person.is_admin ? { user: person.email } : {}) as never}>
          All my tokens
        </Link>
      }
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
                  <Link to="/tokens">Create your first</Link>.
                </p>
              </EmptyState>
            );
          }
          const latest = usable.toSorted((a, b) =>
            (b.last_used_at ?? b.created_at).localeCompare(a.last_used_at ?? a.created_at),
          );
          return (
            <ul className="home-tokens">
              {latest.slice(0, TOKENS).map(({ id, name, group, last_used_at, state }) => (
                <li key={id}>
                  <span>
                    {name} <span className="soft">{group}</span>
                  </span>
                  {state !== 'active' && <Badge tone="warn">{state}</Badge>}
                  <span className="soft small">
                    {last_used_at === null ? (
                      'never used'
                    ) : (
                      <>
                        used <TimeText at={last_used_at} form="relative" />
                      </>
                    )}
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
