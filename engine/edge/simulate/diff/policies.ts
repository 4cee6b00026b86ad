import type { EffectivePolicy, ManagedPolicies } from '../../../base/contract/services.ts';
import type { Policy } from '../../../base/source/spec.ts';
import { createManagedPolicies, inOrder, layOver, MODELS_KEY } from '../../../domain/policies/managed-policies.ts';
import { asChange, type Change, compareNames, compareValues, type Usable } from './change.ts';

interface Audience {
  readonly name: string;
  readonly groups: readonly string[];
  readonly email: string;
}

const EVERYBODY_ELSE: Audience = { name: 'everybody else', groups: [], email: '' };

function audiencesOf(...all: readonly Usable[]): Audience[] {
  const matches = all.filter(isInForce).flatMap(({ policies }) => policies.map(({ match }) => match));
  const groups = new Set(matches.flatMap((match) => match.groups));
  const domains = new Set(matches.flatMap((match) => match.email_domains));
  return [
    ...[...groups].map((group) => ({ name: `group ${group}`, groups: [group], email: '' })),
    ...[...domains].map((domain) => ({ name: `people at ${domain}`, groups: [], email: `somebody@${domain}` })),
    EVERYBODY_ELSE,
  ];
}

function isInForce({ config }: Usable): boolean {
  return config.policies?.managed?.enabled === true;
}

const idsOf = ({ config }: Usable): string[] => config.models.map(({ id }) => id);

/** Changes for an audience, one line each: settings, and models allowed or forbidden by policies. */
function linesFor(
  audience: Audience,
  [before, old_policies]: readonly [Usable, ManagedPolicies],
  [after, new_policies]: readonly [Usable, ManagedPolicies],
): string[] {
  const [old_policy, new_policy] = [old_policies.of(audience), new_policies.of(audience)];
  if (old_policy?.checksum === new_policy?.checksum && old_policy?.models_policy === undefined) return [];
  // Other sections report models of only one configuration.
  const { kept: shared } = compareNames(idsOf(before), idsOf(after));
  const left = (policy: EffectivePolicy | undefined, side: Usable) =>
    idsOf(side).filter((id) => shared.includes(id) && (policy?.models?.has(id) ?? true));
  const { lost, gained } = compareNames(left(old_policy, before), left(new_policy, after));
  const moved = lost.length + gained.length > 0;
  const settings = compareValues(old_policy?.settings ?? {}, new_policy?.settings ?? {}).filter(
    ({ path }) => !(moved && path === MODELS_KEY),
  );
  const [had, has] = [old_policy !== undefined, new_policy !== undefined];
  return [
    ...(had === has ? [] : [has ? 'gets a policy' : 'gets no policy any more']),
    ...(lost.length === 0 ? [] : [`may no longer use ${lost.join(', ')}`]),
    ...(gained.length === 0 ? [] : [`may now use ${gained.join(', ')} as far as policies go`]),
    ...settings.map(({ path, change }) => `${path} ${change}`),
  ];
}

/** Changes of managed policies by audience; audiences with the same changes are merged. */
export function diffPolicies(before: Usable, after: Usable): Change[] {
  return [...diffAudiences(before, after), ...diffOrder(before, after)];
}

function diffOrder(before: Usable, after: Usable): Change[] {
  if (!isInForce(before) || !isInForce(after)) return [];
  const ranks = new Map(matched(before).map(({ name }, rank) => [name, rank]));
  const kept = matched(after).filter(({ name }) => ranks.has(name));
  return kept.flatMap((policy, index) => {
    const below = kept.slice(0, index).filter((other) => ranks.get(other.name)! > ranks.get(policy.name)!);
    const checksum = (policies: Policy[]) => layOver(policies, after.config).checksum;
    const contradicted = below.filter((other) => checksum([other, policy]) !== checksum([policy, other]));
    const overtaken = contradicted.map(({ name }) => name);
    if (overtaken.length === 0) return [];
    const change = `now overrides ${overtaken.join(', ')}, for people who get both`;
    return [{ section: 'policies' as const, subject: `policy ${policy.name}`, change }];
  });
}

function matched({ config, policies }: Usable): readonly Policy[] {
  return inOrder(policies).filter(({ name }) => name !== config.policies?.managed?.default_policy);
}

function diffAudiences(before: Usable, after: Usable): Change[] {
  const old_side = [before, createManagedPolicies(before.config, before.policies)] as const;
  const new_side = [after, createManagedPolicies(after.config, after.policies)] as const;
  const audiences = audiencesOf(before, after);
  const by_lines = Map.groupBy(audiences, (audience) => JSON.stringify(linesFor(audience, old_side, new_side)));
  return [...by_lines].flatMap(([text, alike]) => {
    const subject = alike.length === audiences.length ? 'everybody' : alike.map(({ name }) => name).join(', ');
    return asChange('policies', subject, JSON.parse(text) as string[]);
  });
}
