import { Link } from '@tanstack/react-router';
import type { CountedLimit, LimitRule } from '../../api/operations.ts';
import { useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { counted } from '../../parts/numbers.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { howMany } from './words.ts';

/** The limits of gateway.yaml in words, with what they count and refused today. */
export function Rules() {
  const query = useOperation('listLimitRules', {}, { every_seconds: 30 });
  return (
    <Card title="Rules">
      <Loaded query={query} lines={6}>
        {({ rules, since }) =>
          rules.length === 0 ? (
            <EmptyState title="There are no limits yet">
              <p>
                Write one into gateway.yaml, such as <code>spend_limits: {'{ defaults: { user_daily_usd: 50 } }'}</code>
                . Everything is counted without one, too.
              </p>
            </EmptyState>
          ) : (
            <ul className="limits-rules">
              {rules.map((rule) => (
                <Rule key={rule.rule} rule={rule} since={since} />
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

function Rule({ rule, since }: { rule: LimitRule; since: string }) {
  return (
    <li>
      <div className="limits-rule-head">
        <p>
          <Link to="/config" search={{ rule: rule.rule } as never}>
            {rule.rule}
          </Link>
        </p>
        {rule.mode === 'shadow' && <Badge tone="info">Only reported</Badge>}
      </div>
      {rule.limits.map((limit) => (
        <p key={limit.words}>
          <strong>{limit.words}</strong>
          <Counted limit={limit} />
        </p>
      ))}
      {rule.condition !== null && (
        <p className="small">
          where <code>{rule.condition}</code>
        </p>
      )}
      <Refused rule={rule} since={since} />
    </li>
  );
}

const WHEN = { day: 'today', week: 'this week', month: 'this month', minute: 'this minute', open: 'now' } as const;
/** Ranges of the usage page for windows it has a name for. */
const RANGES: Readonly<Partial<Record<CountedLimit['window'], string>>> = { day: 'today', month: 'month' };

/** How many a limit counts, and for how many it is nearly or wholly used. */
function Counted({ limit: { scope, window, unit, counted, nearly_none, none_left } }: { limit: CountedLimit }) {
  if (counted === 0) return <span className="soft"> · none {WHEN[window]}</span>;
  const range = unit === 'usd' ? RANGES[window] : undefined;
  const words = `${howMany(counted, scope)} ${WHEN[window]}`;
  const parts = [
    ...(nearly_none > 0 ? [`${nearly_none} nearly at the end`] : []),
    ...(none_left > 0 ? [`${none_left} with nothing left`] : []),
  ];
  return (
    <span className="soft">
      {' · '}
      {range === undefined ? (
        words
      ) : (
        <Link to="/usage" search={{ by: scope.replaceAll('+', ','), range } as never}>
          {words}
        </Link>
      )}
      {parts.map((part) => `, ${part}`)}
    </span>
  );
}

function Refused({ rule, since }: { rule: LimitRule; since: string }) {
  const { mode, refused, refused_people, would_refuse } = rule;
  if (mode === 'shadow') {
    if (would_refuse === 0) return <p className="soft small">It would have refused nothing today.</p>;
    return <p className="small">It would have refused {counted(would_refuse, 'request')} today.</p>;
  }
  if (refused === 0) return null;
  const error = rule.limits[0]?.unit === 'usd' ? 'spend_limit_exceeded' : 'rate_limit_exceeded';
  return (
    <p className="small">
      Refused {counted(refused, 'request')} of {howMany(refused_people, 'user')} today.{' '}
      <Link to="/requests" search={{ error, since } as never}>
        See what such limits refused
      </Link>
    </p>
  );
}
