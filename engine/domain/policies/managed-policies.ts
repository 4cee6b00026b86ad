import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { GatewayConfig, ModelConfig, PoliciesConfig } from '../../base/contract/config.ts';
import type { EffectivePolicy, ManagedPolicies } from '../../base/contract/services.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { matchesGlob } from '../../base/kit/glob.ts';
import { canonicalJson, checksumOf } from '../../base/kit/json/canonical.ts';
import { childOf, itemsOf, type ListNode, type MapNode, type Node, textOf, toValue } from '../../base/source/node.ts';
import type { Policy } from '../../base/source/spec.ts';

/** The setting that the gateway itself enforces: the allowed models. */
export const MODELS_KEY = 'availableModels';

const MAX_KEPT_CHARS = 128 * 1024 * 1024;

/** Combines the policies of a person; a known list of groups costs less than a microsecond. */
export function createManagedPolicies(
  config: Pick<GatewayConfig, 'policies' | 'models' | 'from_model_lists' | 'server'>,
  policies: readonly Policy[],
  served: ManagedPolicies['served'] = () => {},
  max_kept_chars = MAX_KEPT_CHARS,
): ManagedPolicies {
  const managed = config.policies?.managed;
  if (managed === undefined || !managed.enabled || policies.length === 0) return { of: () => undefined, served };
  const has_domains = policies.some(({ match }) => match.email_domains.length > 0);
  const outcomes = new LRUCache<string, EffectivePolicy>({
    maxSize: max_kept_chars,
    sizeCalculation: ({ body }) => body.length,
  });
  /** Keys of `outcomes` by list of groups, which a principal keeps between requests, then by domain. Empty without a policy. */
  const seen = new WeakMap<readonly string[], Map<string, string>>();
  const policiesOf = (person: Parameters<ManagedPolicies['of']>[0]) =>
    policiesFor(managed, policies, person).map(({ policy }) => policy);

  return {
    of(person) {
      const domain = has_domains ? domainOf(person.email) : '';
      let by_domain = seen.get(person.groups);
      if (by_domain === undefined) {
        by_domain = new Map();
        seen.set(person.groups, by_domain);
      }
      let key = by_domain.get(domain);
      if (key === undefined) {
        key = policiesOf(person)
          .map(({ name }) => name)
          .join('\n');
        by_domain.set(domain, key);
      }
      if (key === '') return undefined;
      const known = outcomes.get(key);
      if (known !== undefined) return known;
      const outcome = layOver(policiesOf(person), config);
      outcomes.set(key, outcome);
      return outcome;
    },
    served,
  };
}

/** Merges policies, later ones over earlier ones, into the served settings. */
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

/** Whether an entry of the list of models matches a model: its family, or a glob for its id. */
export function namesModel(word: string, { id, family }: Pick<ModelConfig, 'id' | 'family'>): boolean {
  return word === family || matchesGlob(word, id);
}

/** A custom UUID (RFC 9562 section 5.8) derived from a text. */
function uuidOf(text: string): string {
  const bytes = createHash('sha256').update(text).digest().subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x80;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

export interface ApplyingPolicy {
  readonly policy: Policy;
  readonly because:
    | { readonly by: 'default' }
    | { readonly by: 'group'; readonly group: string }
    | { readonly by: 'email_domain'; readonly email_domain: string };
}

function domainOf(email: string): string {
  const at = email.lastIndexOf('@');
  return at < 0 ? '' : email.slice(at + 1).toLowerCase();
}

/** Merge order: the lowest priority first, ties by name. */
export function inOrder(policies: readonly Policy[]): Policy[] {
  return policies.toSorted((a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1));
}

/** The policies of a person in merge order: the default one, then all that match. */
export function policiesFor(
  managed: PoliciesConfig['managed'],
  policies: readonly Policy[],
  person: { readonly groups: readonly string[]; readonly email: string },
): ApplyingPolicy[] {
  if (managed === undefined || !managed.enabled) return [];
  const base = policies.find(({ name }) => name === managed.default_policy);
  const domain = domainOf(person.email);
  const matching = inOrder(policies).flatMap((policy): ApplyingPolicy[] => {
    if (policy === base) return [];
    const group = policy.match.groups.find((name) => person.groups.includes(name));
    if (group !== undefined) return [{ policy, because: { by: 'group', group } }];
    if (!policy.match.email_domains.includes(domain)) return [];
    return [{ policy, because: { by: 'email_domain', email_domain: domain } }];
  });
  return base === undefined ? matching : [{ policy: base, because: { by: 'default' } }, ...matching];
}

const DENYING =
  /^(?:(?:deny|block|black)list|deny|denied|disallow|disallowed|block|blocked|disable|disabled|forbid|forbidden)$/;

/** Whether a key names a deny list: the lists of several policies are united. */
export function isDenyKey(key: string): boolean {
  const words = key.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? [];
  return [words[0], words.at(-1)].some((word) => word !== undefined && DENYING.test(word.toLowerCase()));
}

/** Merges settings over others: mappings by key, deny lists as a union, other values by replacement. Nodes keep their positions. */
export function mergeSettings(base: MapNode, over: MapNode): MapNode {
  const laid = new Map(over.entries.map((entry) => [entry.key, entry]));
  const known = new Set(base.entries.map(({ key }) => key));
  const kept = base.entries.map((entry) => {
    const other = laid.get(entry.key);
    return other === undefined ? entry : { ...other, value: mergeValues(other.key, entry.value, other.value) };
  });
  return { ...over, entries: [...kept, ...over.entries.filter(({ key }) => !known.has(key))] };
}

function mergeValues(key: string, base: Node, over: Node): Node {
  if (base.kind === 'map' && over.kind === 'map') return mergeSettings(base, over);
  if (base.kind === 'list' && over.kind === 'list' && isDenyKey(key)) return unite(base, over);
  return over;
}

function unite(base: ListNode, over: ListNode): ListNode {
  const items = new Map<string, Node>();
  for (const item of [...base.items, ...over.items]) {
    const text = canonicalJson(toValue(item));
    if (!items.has(text)) items.set(text, item);
  }
  return { ...over, items: [...items.values()] };
}

/** Merges settings, later ones over earlier ones; an empty mapping without any. */
export function mergeAll(all: readonly MapNode[], nowhere: MapNode['mark']): MapNode {
  return all.reduce(mergeSettings, { kind: 'map', entries: [], mark: nowhere });
}

type SettingOrigin = ReturnType<typeof origin>;

/** The origin of each merged setting, or of each item of a united list; policies in merge order. */
export function settingOrigins(policies: readonly Policy[]): SettingOrigin[] {
  const [first] = policies;
  if (first === undefined) return [];
  const merged = mergeAll(
    policies.map(({ settings }) => settings),
    first.settings.mark,
  );
  return originsBelow(merged, [], policies);
}

function originsBelow(node: Node, path: readonly string[], policies: readonly Policy[]): SettingOrigin[] {
  if (node.kind === 'map' && (node.entries.length > 0 || path.length === 0)) {
    return node.entries.flatMap(({ key, value }) => originsBelow(value, [...path, key], policies));
  }
  const at = (policy: Policy) => childOf(policy.settings, ...path);
  const whole = policies.find((policy) => at(policy) === node);
  if (whole !== undefined || node.kind !== 'list') {
    const last = whole ?? policies.findLast((policy) => at(policy) !== undefined)!;
    const below = policies.slice(0, policies.indexOf(last)).filter((policy) => at(policy) !== undefined);
    return [origin(node, path, last, below, false)];
  }
  return node.items.map((item) => {
    const policy = policies.find((each) => itemsOf(at(each)).includes(item))!;
    return origin(item, path, policy, [], true);
  });
}

function origin(node: Node, path: readonly string[], { name }: Policy, below: readonly Policy[], is_item: boolean) {
  const { file, line } = node.mark;
  const replaces = below.map((policy) => policy.name);
  return { path, value: toValue(node), is_item, policy: name, position: { file, line }, replaces };
}
