import { Badge } from '../../parts/badge.tsx';
import { relativeTime, TimeText } from '../../parts/times.tsx';
import { STATES, TROUBLES, type Upstream } from './words.ts';

type Stated = Pick<Upstream, 'state' | 'until' | 'last_failure'>;

/** The state of an upstream as a badge; where some of its models are not as they should be, that is said. */
export function StateBadge({ upstream: { state, models, configured, elsewhere } }: { upstream: Upstream }) {
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
export function StateLines({ upstream }: { upstream: Upstream }) {
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
  return lines.length === 0 ? null : <ul className="upstream-lines">{lines}</ul>;
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
