import { Link } from '@tanstack/react-router';
import { useId } from 'react';
import { useSession } from '../../frame/session-context.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Count, Share } from '../../parts/numbers.tsx';
import { took } from '../../parts/times.tsx';
import { ModelTable } from './model-table.tsx';
import { TrafficBars } from './traffic-bars.tsx';
import { StateBadge, StateLines } from './upstream-state.tsx';
import type { Traffic, Upstream } from './words.ts';

/** A time of which traffic is shown, as the answer tells it. */
export interface Span {
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
export function UpstreamCard({ upstream, traffic, span, onDrain, onResume }: Shown) {
  const { name, drained, in_flight, routes } = upstream;
  const id = useId();
  return (
    <section className="card upstream" aria-labelledby={id}>
      <header className="card-head">
        <h2 id={id} className="upstream-name">
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
      {traffic !== undefined && traffic.models.length > 0 && <ModelTable name={name} traffic={traffic} />}
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
  const { time_zone } = useSession();
  if (traffic === undefined) return <p className="soft">Nothing went there in this time.</p>;
  const { attempts, served, limited, failed, p50_ms, p95_ms, share, turns, turns_stayed, parts } = traffic;
  const { since, until, part_seconds } = span;
  return (
    <div className="upstream-traffic">
      <dl className="upstream-figures">
        <Figure term="Attempts">
          <Count of={attempts} />{' '}
          <span className="soft">
            (<Share of={share} /> of all)
          </span>
        </Figure>
        <Figure term="Answered">
          <Link to="/requests" search={{ upstream: name, since, until } as never}>
            <Count of={served} />
          </Link>{' '}
          <span className="soft">
            (<Share of={served / attempts} />)
          </span>
        </Figure>
        <Figure term="Failed">
          <Count of={failed} />
        </Figure>
        <Figure term="Limited (429)">
          <Count of={limited} />
        </Figure>
        <Figure term="First byte, half within">{took(p50_ms)}</Figure>
        <Figure term="95 of 100 within">{took(p95_ms)}</Figure>
        <Figure term="Sessions that stayed">
          {turns === 0 ? <span className="soft">none went on</span> : <Share of={turns_stayed / turns} />}
        </Figure>
        <Figure term="Under way here">{in_flight === null ? 'unknown' : <Count of={in_flight} />}</Figure>
      </dl>
      <TrafficBars {...{ name, parts, since, part_seconds, time_zone }} />
    </div>
  );
}

function Figure({ term, children }: { term: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Why attempts were not answered, the most frequent reason first. */
function Outcomes({ traffic: { upstream, outcomes, attempts }, span }: { traffic: Traffic; span: Span }) {
  const { since, until } = span;
  return (
    <div className="upstream-reasons">
      <h3>What was not answered</h3>
      <p className="soft small">
        Most of it goes on to another upstream.{' '}
        <Link to="/requests" search={{ upstream, since, until, outcome: 'failed' } as never}>
          Requests that ended here and failed
        </Link>
      </p>
      <ul className="upstream-outcomes">
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
    <p className="upstream-routes">
      <span className="soft">Routes:</span>{' '}
      {routes.map(({ name, order, is_last }) => (
        <span key={name} className="upstream-route">
          <code>{name}</code> {ORDINALS[order - 1] ?? `place ${order}`}
          {is_last && <Badge tone="warn">no other left</Badge>}
        </span>
      ))}
    </p>
  );
}

const ORDINALS = ['first', 'second', 'third', 'fourth'];
