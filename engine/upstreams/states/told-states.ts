import type { UpstreamState } from '../../contract/forwarding.ts';
import type { HealthPart } from '../../contract/services.ts';

/** From the one that says most about an upstream to what it should be. */
const WORST_FIRST: readonly UpstreamState['state'][] = [
  'drained',
  'credential',
  'open',
  'half_open',
  'limited',
  'model_missing',
  'closed',
];

const rank = ({ state }: UpstreamState) => WORST_FIRST.indexOf(state);

/** Of two equally bad ones the one that ends first, for then something is tried. */
function worse(a: UpstreamState, b: UpstreamState): UpstreamState {
  const by_state = rank(a) - rank(b);
  if (by_state !== 0) return by_state < 0 ? a : b;
  return (b.until ?? Number.POSITIVE_INFINITY) < (a.until ?? Number.POSITIVE_INFINITY) ? b : a;
}

/**
 * What anybody may know about the upstreams, by name: the worst that is known of each, until when (ISO 8601), and of how many
 * models where it is not the upstream as a whole; `mode` is told where breakers only tell. No host, no model, and no word of what failed.
 */
export function tellUpstreams(states: readonly UpstreamState[]): NonNullable<HealthPart['told']> {
  const by_name = Map.groupBy(states, ({ upstream }) => upstream);
  return Object.fromEntries([...by_name].map(([name, all]) => [name, tellOne(all)]));
}

function tellOne(states: readonly UpstreamState[]): Readonly<Record<string, string | number>> {
  const whole = states.filter(({ upstream_model, state }) => upstream_model === undefined && state !== 'closed');
  const { state, until, upstream_model, shadow } = (whole.length > 0 ? whole : states).reduce(worse);
  const models = states.filter((other) => other.upstream_model !== undefined && other.state === state).length;
  return {
    state,
    ...(until !== undefined && { until: new Date(until).toISOString() }),
    ...(shadow && { mode: 'shadow' }),
    ...(upstream_model !== undefined && state !== 'closed' && { models }),
  };
}
