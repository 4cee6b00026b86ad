import type { GatewayConfig, UpstreamConfig } from '../../../contract/config.ts';
import { secretIn } from '../../../kit/secret-names.ts';
import { CATALOGUE_DATE, hasPrice } from '../../../money/prices/catalogue.ts';
import { askForList } from '../../../upstreams/lists/ask-list.ts';
import type { LiveOutcome } from './live-check.ts';

/** How many ids are told. */
const TOLD_MAX = 10;

/**
 * What the list of an upstream that is there means for a gateway.yaml without `models`: which models are served, and which are
 * not. Adds nothing for any other.
 */
export async function withListedModels(
  outcome: LiveOutcome,
  given: {
    readonly config: GatewayConfig;
    readonly upstream: UpstreamConfig;
    readonly env: NodeJS.ProcessEnv;
    readonly timeout_seconds: number;
  },
): Promise<LiveOutcome> {
  const { config, upstream, env, timeout_seconds: seconds } = given;
  if (!config.from_model_lists || !outcome.ok) return outcome;
  const asked = await askForList(upstream, {
    server: config.server,
    secret: (name) => secretIn(name, env) ?? '',
    seconds,
  });
  const { warnings = [], notes = [] } = outcome;
  if ('why' in asked) {
    const why = `it tells no list of its models: ${asked.why}; any model that the catalogue of prices (${CATALOGUE_DATE}) knows is served`;
    return { ...outcome, warnings: [...warnings, why] };
  }
  const isPriced = (id: string) => hasPrice(id, upstream.base_url);
  const served = asked.ids.filter(isPriced);
  const others = asked.ids.filter((id) => !isPriced(id));
  const told = `${served.length} of the ${asked.ids.length} models on its list are served: ${some(served)}`;
  const refused = `not served, as the catalogue of prices (${CATALOGUE_DATE}) does not know what they cost: ${some(others)}; to serve them, write a section \`models\` with every model, these with their price: models: [{ id: ..., pricing: { input: ..., output: ... } }]`;
  return {
    ...outcome,
    warnings: [...warnings, ...(served.length === 0 ? ['no model on its list is served'] : [])],
    notes: [...notes, told, ...(others.length > 0 ? [refused] : [])],
  };
}

function some(ids: readonly string[]): string {
  const more = ids.length - TOLD_MAX;
  return ids.length === 0 ? 'none' : `${ids.slice(0, TOLD_MAX).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
