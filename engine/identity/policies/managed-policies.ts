import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { GatewayConfig, ModelConfig } from '../../contract/config.ts';
import type { EffectivePolicy, ManagedPolicies } from '../../contract/services.ts';
import { deepFreeze } from '../../kit/freeze.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { canonicalJson, checksumOf } from '../../kit/json/canonical.ts';
import { childOf, itemsOf, type MapNode, textOf, toValue } from '../../source/node.ts';
import type { Policy } from '../../source/spec.ts';
import { mergeAll } from './merge.ts';
import { domainOf, inOrder } from './policy.ts';

/** The key of settings that the gateway itself acts on: the only models that may be used. */
export const MODELS_KEY = 'availableModels';

/** How much of what people get is kept ready, in characters of what is served: combinations of large policies are many and large. */
const MAX_KEPT_CHARS = 128 * 1024 * 1024;

/** The key of no policies at all; with a default policy alone it is empty. */
const NOTHING = 'none';

/**
 * Finds out who gets which settings. Asking costs less than a microsecond for a group list that was seen before.
 * @param served is told who was given which.
 * @param max_kept_chars bounds what is kept ready.
 */
export function createManagedPolicies(
  config: Pick<GatewayConfig, 'policies' | 'models' | 'from_model_lists' | 'server'>,
  policies: readonly Policy[],
  served: ManagedPolicies['served'] = () => {},
  max_kept_chars = MAX_KEPT_CHARS,
): ManagedPolicies {
  const managed = config.policies?.managed;
  if (managed === undefined || !managed.enabled || policies.length === 0) return { of: () => undefined, served };
  const base = policies.find(({ name }) => name === managed.default_policy);
  const others = inOrder(policies.filter((policy) => policy !== base));
  const of_group = indexBy(others, ({ match }) => match.groups);
  const of_domain = indexBy(others, ({ match }) => match.email_domains);
  const outcomes = new LRUCache<string, EffectivePolicy>({
    maxSize: max_kept_chars,
    sizeCalculation: ({ body }) => body.length,
  });
  /** Keys of outcomes by list of groups, which a principal keeps from request to request, then by domain. */
  const seen = new WeakMap<readonly string[], Map<string, string>>();

  function keyOf(groups: readonly string[], domain: string): string {
    const matching = new Set(of_domain.get(domain));
    for (const group of groups) for (const index of of_group.get(group) ?? []) matching.add(index);
    if (matching.size === 0 && base === undefined) return NOTHING;
    return [...matching].sort((a, b) => a - b).join(' ');
  }

  function layOverAll(key: string): EffectivePolicy {
    const matching = key === '' ? [] : key.split(' ').map((index) => others[Number(index)]!);
    const outcome = layOver(base === undefined ? matching : [base, ...matching], config);
    outcomes.set(key, outcome);
    return outcome;
  }

  return {
    of({ groups, email }) {
      const domain = of_domain.size === 0 ? '' : domainOf(email);
      let by_domain = seen.get(groups);
      if (by_domain === undefined) {
        by_domain = new Map();
        seen.set(groups, by_domain);
      }
      let key = by_domain.get(domain);
      if (key === undefined) {
        key = keyOf(groups, domain);
        by_domain.set(domain, key);
      }
      return key === NOTHING ? undefined : (outcomes.get(key) ?? layOverAll(key));
    },
    served,
  };
}

/** Positions in a list by each of the words that an item is known by. */
function indexBy(policies: readonly Policy[], wordsOf: (policy: Policy) => readonly string[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const [index, policy] of policies.entries()) {
    for (const word of wordsOf(policy)) found.set(word, [...(found.get(word) ?? []), index]);
  }
  return found;
}

/** The settings of policies laid over each other, the first at the bottom, as they are served. */
export function layOver(
  policies: readonly Policy[],
  config: Pick<GatewayConfig, 'models' | 'from_model_lists' | 'server'>,
): EffectivePolicy {
  const merged = mergeAll(
    policies.map(({ settings }) => settings),
    policies[0]!.settings.mark,
  );
  const settings = toValue(merged) as Record<string, unknown>;
  const text = canonicalJson(settings);
  const checksum = checksumOf(text);
  const names = policies.map(({ name }) => name);
  const uuid = uuidOf(`${config.server.public_url}\n${names.join('\n')}`);
  const allowing = policies.findLast((policy) => childOf(policy.settings, MODELS_KEY) !== undefined);
  return Object.freeze({
    names: Object.freeze(names),
    settings: deepFreeze(settings),
    body: `{"uuid":${JSON.stringify(uuid)},"checksum":${JSON.stringify(checksum)},"settings":${text}}`,
    checksum,
    etag: `"${checksum}"`,
    uuid,
    models: allowing === undefined ? undefined : modelsAllowed(merged, config),
    models_policy: allowing?.name,
  });
}

function modelsAllowed(
  settings: MapNode,
  { models, from_model_lists }: Pick<GatewayConfig, 'models' | 'from_model_lists'>,
): ReadonlySet<string> {
  const words = itemsOf(childOf(settings, MODELS_KEY)).flatMap((item) => textOf(item) ?? []);
  if (from_model_lists) return new Set(words);
  return new Set(models.filter((model) => words.some((word) => namesModel(word, model))).map(({ id }) => id));
}

/** Whether an entry of the list of models means a model: it is its family, or a glob that its id matches. */
export function namesModel(word: string, { id, family }: Pick<ModelConfig, 'id' | 'family'>): boolean {
  return word === family || matchesGlob(word, id);
}

/** A UUID of one's own making (RFC 9562 section 5.8) that is the same wherever it is made of the same text. */
function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
