import type { GatewayConfig } from '../contract/config.ts';
import type { SharedServices } from '../contract/services.ts';
import { createIdentity, type Identity, type IdentityFoundation } from '../identity/index.ts';
import { createManagedPolicies } from '../identity/policies/managed-policies.ts';
import type { PolicyFetches } from '../identity/policies/policy-fetches.ts';
import { type DecidingGroups, decidingGroups } from '../identity/provider/deciding-groups.ts';
import type { AccessTokens } from '../identity/tokens/access-tokens.ts';
import { createBearerTokens } from '../identity/tokens/bearer-tokens.ts';
import type { Loaded } from '../source/spec.ts';
import type { ModelLists } from '../upstreams/lists/model-lists.ts';
import { createModelCatalog } from '../upstreams/models.ts';

/** Services that follow from one configuration; a reload makes them anew. */
export type PlanServices = Pick<SharedServices, 'config' | 'models' | 'policies' | 'secret' | 'tokens'>;

/** Services that stay for as long as the gateway runs, whatever its configuration. */
export type LastingServices = Omit<SharedServices, keyof PlanServices>;

/** What the services of a configuration are made of beside the configuration. */
export interface Foundation extends IdentityFoundation {
  readonly access_tokens: AccessTokens;
  readonly policy_fetches: PolicyFetches;
  readonly model_lists: ModelLists;
}

/** A configuration, and what was made of it. */
export interface PlanParts extends Pick<Loaded, 'pipelines'> {
  readonly config: GatewayConfig;
  readonly services: PlanServices;
  readonly identity: Identity | undefined;
  readonly groups: DecidingGroups;
}

/**
 * Makes the services of a configuration without errors, and sign-in where it has that.
 * Raises StartError for a secret that can't be used, RangeError for a price that is not exact.
 */
export function createPlanServices(
  config: GatewayConfig,
  loaded: Pick<Loaded, 'policies' | 'pipelines'>,
  secret: (name: string) => string,
  foundation: Foundation,
): PlanParts {
  const groups = decidingGroups(config, loaded);
  const identity = createIdentity(config, secret, foundation, groups);
  const tokens = createBearerTokens(foundation.access_tokens, identity?.tokens);
  const policies = createManagedPolicies(config, loaded.policies, foundation.policy_fetches.note);
  const models = createModelCatalog(config, policies, foundation.model_lists);
  const { pipelines } = loaded;
  return { config, pipelines, services: { config, models, policies, secret, tokens }, identity, groups };
}
