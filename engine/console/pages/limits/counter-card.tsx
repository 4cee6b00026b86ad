import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { LimitInForce } from '../../api/operations.ts';
import { useSession } from '../../frame/session-context.ts';
import { Badge, type Tone } from '../../parts/badge.tsx';
import { Meter } from '../../parts/meter.tsx';
import { counted } from '../../parts/numbers.tsx';
import { TimeText } from '../../parts/times.tsx';
import { amountsWords, amountWords, bareAmount, whoseWords, windowWords } from './words.ts';

/** One counter: how much of its limit is used, how long it lasts, and where the limit comes from. */
export function CounterCard({ limit, actions }: { limit: LimitInForce; actions?: ReactNode }) {
  const whose = useWhose(limit);
  return (
    <article className="limits-counter" aria-label={`${whose} ${windowWords(limit.window)}`}>
      <header className="limits-counter-head">
        <h3>
          {whose} <span className="soft">{windowWords(limit.window)}</span>
        </h3>
        <OutcomeBadge limit={limit} />
      </header>
      <Used limit={limit} label="Used" />
      <p className="soft small">
        {limit.resets_at === null ? (
          'Counts only what is under way.'
        ) : (
          <>
            Resets <TimeText at={limit.resets_at} form="relative" />, <TimeText at={limit.resets_at} form="long" />.
          </>
        )}{' '}
        {limit.forecast?.outcome !== 'none_left' && limit.forecast?.words}
        <Reserved limit={limit} />
      </p>
      <Origin limit={limit} />
      <div className="limits-actions">
        {actions}
        <UsageLink limit={limit} />
      </div>
    </article>
  );
}

/** The limit's owner, to whoever looks: `You`, `Your team search`, or a name. */
function useWhose({ of }: LimitInForce): string {
  const { person } = useSession();
  const names = whoseWords(of);
  if (of.user !== person.email) return names;
  const { user: _you, ...others } = of;
  return Object.keys(others).length === 0 ? 'You' : `You, ${whoseWords(others)}`;
}

/** Leads to what was spent in the window; a developer sees what they spent themselves. */
function UsageLink({ limit: { of, window, unit, resets_at } }: { limit: LimitInForce }) {
  const { person, time_zone } = useSession();
  const is_own = of.user === person.email;
  if (unit !== 'usd' || resets_at === null || !(person.is_admin || is_own)) return null;
  return (
    <Link
      to="/usage"
      search={
        { ...of, ...rangeOf(window, resets_at, time_zone), by: of.model === undefined ? 'model' : 'day' } as never
      }
      className="button quiet"
      aria-label={`Usage of ${whoseWords(of)} ${windowWords(window)}`}
    >
      Usage
    </Link>
  );
}

/** The window as the page of usage has it in its address. */
function rangeOf(window: LimitInForce['window'], resets_at: string, time_zone: string) {
  if (window === 'day') return { range: 'today' };
  if (window === 'month') return { range: 'month' };
  // Noon of the first day, however long the days since were.
  const noon = new Date(Date.parse(resets_at) - 6.5 * 86_400_000);
  return { since: noon.toLocaleDateString('en-CA', { timeZone: time_zone }) };
}

/** A bar of what is used, with the amounts in words. */
export function Used({ limit, label }: { limit: LimitInForce; label: string }) {
  const { unit, spent, reserved, room, in_flight, window } = limit;
  const used = window === 'open' ? in_flight : spent;
  if (limit.limit === null) {
    const is_for_some = limit.rules.some(({ mode }) => mode === 'enforce');
    return (
      <p>
        {amountWords(used, unit)}, {is_for_some ? 'limited for some requests.' : 'without a limit.'}
      </p>
    );
  }
  const left = room === 0 ? 'nothing' : bareAmount(room ?? 0, unit);
  const words = `${bareAmount(used, unit)} of ${amountWords(limit.limit, unit)}, ${left} left`;
  const taken = window === 'open' ? in_flight : spent + reserved;
  return <Meter label={label} share={limit.limit === 0 ? 1 : taken / limit.limit} words={words} />;
}

/** What running requests keep aside; it comes back where they cost less. */
function Reserved({ limit: { reserved, in_flight, unit, window } }: { limit: LimitInForce }) {
  if (reserved === 0 || window === 'open') return null;
  return ` ${amountWords(reserved, unit)} are reserved by ${counted(in_flight, 'request')} in flight.`;
}

const OUTCOMES: Readonly<Record<'none_left' | 'ends', readonly [Tone, string]>> = {
  none_left: ['alarm', 'Nothing left'],
  ends: ['warn', 'Ends before it resets'],
};

/** Whether something needs looking at, in two words. */
function OutcomeBadge({ limit: { forecast, room } }: { limit: LimitInForce }) {
  const outcome = room === 0 ? 'none_left' : forecast?.outcome;
  if (outcome === undefined || outcome === 'lasts') return null;
  const [tone, words] = OUTCOMES[outcome];
  return <Badge tone={tone}>{words}</Badge>;
}

/** Where a limit comes from: rules of gateway.yaml, what was set in their place, what was granted on top. */
export function Origin({ limit: { rules, set, grants, unit, counted } }: { limit: LimitInForce }) {
  return (
    <ul className="limits-origin small">
      {!counted && <li>No limit of gateway.yaml counts this: what is set or granted has no effect.</li>}
      {set !== null && (
        <li>
          Set to {amountWords(set.limit, unit)}
          {set.set_by !== null && ` by ${set.set_by}`}, <TimeText at={set.set_at} />
          <Because reason={set.reason} />
        </li>
      )}
      {grants.map(({ id, amount, granted_by, expires_at, reason }) => (
        <li key={id}>
          Plus {amountWords(amount, unit)} until <TimeText at={expires_at} form="long" />, granted
          {granted_by === null ? ' at run time' : ` by ${granted_by}`}
          <Because reason={reason} />
        </li>
      ))}
      {rules.map(({ rule, limit, by_group, mode, always, condition }) => (
        <li key={rule} className={set !== null && mode === 'enforce' ? 'limits-replaced' : undefined}>
          {amountsWords({ limit, by_group }, unit)} by <code>{rule}</code>
          {mode === 'shadow' && ', only reported'}
          {mode === 'enforce' && set !== null ? (
            ', replaced by what was set'
          ) : (
            <ForWhich always={always || limit === null || by_group !== null} condition={condition} />
          )}
        </li>
      ))}
    </ul>
  );
}

/** Which requests a limit is for, in the words of its rule. */
export function ForWhich({ always, condition }: { always: boolean; condition: string | null }) {
  if (condition === null) return always ? null : ', for some requests';
  return (
    <>
      , for requests where <code>{condition}</code>
    </>
  );
}

function Because({ reason }: { reason: string | null }) {
  return reason === null ? '.' : `: ${reason}`;
}
