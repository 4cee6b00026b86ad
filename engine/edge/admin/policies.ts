import { basename, dirname, join } from 'node:path';
import { OperationError } from '../../base/contract/operation-error.ts';
import { didYouMean, listed } from '../../base/kit/text/suggest.ts';
import type { Policy } from '../../base/source/spec.ts';
import {
  type ApplyingPolicy,
  createManagedPolicies,
  inOrder,
  layOver,
  policiesFor,
  settingOrigins,
} from '../../domain/policies/managed-policies.ts';
import {
  countPolicyPeople,
  listPolicyPeople,
  type PolicyPersonKnown,
  policyPerson,
} from '../../domain/policies/policy-fetches.ts';
import { type AdminOptions, type OperationContext, ownerToList } from './calls.ts';
import { emailInPath, showName } from './description.ts';
import type { PageQuery } from './lists.ts';

type Fetched = 'current' | 'older' | 'never' | 'nothing_meant';

/** Managed policies: which people get which settings. */
export function policyOperations({ config, policies = [], database }: AdminOptions) {
  const managed = config.policies?.managed;
  const enabled = managed?.enabled === true;
  const services = createManagedPolicies(config, policies);
  const isDefault = ({ name }: Policy) => name === managed?.default_policy;

  function fetchedOf(checksum: string | undefined, { fetched_checksum }: PolicyPersonKnown): Fetched {
    if (checksum === undefined) return 'nothing_meant';
    if (fetched_checksum === null) return 'never';
    return fetched_checksum === checksum ? 'current' : 'older';
  }

  async function personOf({ caller }: OperationContext, query: { readonly user?: string; readonly groups?: string }) {
    const user = ownerToList(caller, query.user) ?? caller.email;
    if (query.groups !== undefined && !caller.is_admin) {
      throw new OperationError('admin role required to preview other groups; omit "groups"', 'forbidden');
    }
    const email = emailInPath(user);
    if (email === undefined && query.user !== undefined) {
      throw new OperationError('the parameter "user" is wrong: expected an e-mail address');
    }
    const known = email === undefined ? undefined : await policyPerson(database, email);
    const own = user === caller.email ? caller.principal.groups : [];
    const groups = query.groups?.split(',').flatMap((group) => group.trim() || []);
    return { user, known, groups: groups ?? known?.groups ?? own, has_groups_parameter: groups !== undefined };
  }

  return {
    async listPolicies(_: OperationContext, _nothing: object) {
      const ordered = [...policies.filter(isDefault), ...inOrder(policies.filter((policy) => !isDefault(policy)))];
      const { all, fitting } = await countPolicyPeople(
        database,
        ordered.map(({ match }) => match),
      );
      const shown = ordered.map((policy, index) => ({
        ...describePolicy(policy),
        is_default: isDefault(policy),
        groups: policy.match.groups,
        email_domains: policy.match.email_domains,
        people: isDefault(policy) ? all : fitting[index]!,
      }));
      return { enabled, people: all, policies: shown };
    },

    async listPolicyPeople(
      _: OperationContext,
      { policy: name, user, limit, after }: PageQuery & { readonly policy?: string; readonly user?: string },
    ) {
      const policy = name === undefined ? undefined : named(name, policies);
      const people = await listPolicyPeople(database, {
        limit: limit + 1,
        ...(policy !== undefined && !isDefault(policy) && { for: policy.match }),
        ...(user !== undefined && { user }),
        ...(after !== undefined && { after }),
      });
      const page = people.slice(0, limit);
      const entries = page.map(({ fetched_checksum, ...person }) => {
        const policy_meant = services.of({ groups: person.groups, email: person.user });
        const fetched = fetchedOf(policy_meant?.checksum, { ...person, fetched_checksum });
        return { ...person, policies: policy_meant?.names ?? [], fetched };
      });
      return { people: entries, next: people.length > limit ? page.at(-1)!.user : null };
    },

    async getEffectivePolicy(context: OperationContext, query: { readonly user?: string; readonly groups?: string }) {
      const { user, known, groups, has_groups_parameter } = await personOf(context, query);
      const applying = policiesFor(managed, policies, { email: user, groups });
      const of_them = applying.map(({ policy }) => policy);
      const outcome = of_them.length === 0 ? undefined : layOver(of_them, config);
      const { checksum, settings = null, models, models_policy = null } = outcome ?? {};
      return {
        enabled,
        user,
        groups,
        groups_from: has_groups_parameter ? ('question' as const) : ('sign_in' as const),
        signed_in_at: known?.signed_in_at ?? null,
        policies: applying.map(({ policy, because }) => ({
          ...describePolicy(policy),
          is_default: isDefault(policy),
          because: reasonOf(because),
        })),
        settings,
        checksum: checksum ?? null,
        models: models === undefined ? null : [...models],
        models_policy,
        origins: settingOrigins(of_them).map(({ position, ...origin }) => {
          return { ...origin, file: shortPath(position.file), line: position.line };
        }),
        fetched_at: known?.fetched_at ?? null,
        fetched: has_groups_parameter || known === undefined ? null : fetchedOf(checksum, known),
      };
    },
  };
}

function describePolicy({ name, version, summary, priority, file }: Policy) {
  return { name, version, summary, priority, file: shortPath(file) };
}

function shortPath(file: string): string {
  return join(basename(dirname(file)), basename(file));
}

function reasonOf(because: ApplyingPolicy['because']) {
  if (because.by === 'default') return { by: because.by, name: null };
  if (because.by === 'group') return { by: because.by, name: because.group };
  return { by: because.by, name: because.email_domain };
}

function named(name: string, policies: readonly Policy[]): Policy {
  const found = policies.find((policy) => policy.name === name);
  if (found !== undefined) return found;
  const names = policies.map((policy) => policy.name);
  const hint =
    names.length === 0 ? 'no policies are configured' : didYouMean(name, names, `there are ${listed(names)}`);
  throw new OperationError(`the parameter "policy" is wrong: there is no policy ${showName(name)}: ${hint}`, 'missing');
}
