import type { GatewayConfig, ModelConfig } from '../../contract/config.ts';
import { matchesGlob } from '../../kit/glob.ts';

/** The upstreams that requests for a model may be routed to. */
export function reaches(
  { id }: Pick<ModelConfig, 'id'>,
  { rules, default_upstreams }: GatewayConfig['routing'],
): ReadonlySet<string> {
  const upstreams = new Set<string>();
  for (const { upstreams: candidates, models, mode, name: _, on_unsupported_cache: _policy, ...conditions } of rules) {
    if (mode === 'shadow' || !(models?.some((glob) => matchesGlob(glob, id)) ?? true)) continue;
    for (const { upstream } of candidates) upstreams.add(upstream);
    if (Object.values(conditions).every((condition) => condition === undefined)) return upstreams;
  }
  for (const { upstream } of default_upstreams) upstreams.add(upstream);
  return upstreams;
}
