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
import { type AdminOptions, type Asked, ownerToList } from './calls.ts';
import { emailInPath, showName } from './description.ts';

/** Whether the clients of somebody have the settings that are meant for them now. */
type Fetched = 'current' | 'older' | 'never' | 'nothing_meant';

/** Which managed settings people get. */
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

  /** Somebody with the groups that are known or asked for. */
  async function personAsked({ caller }: Asked, given: { readonly user?: string; readonly groups?: string }) {
    const user = ownerToList(caller, given.user) ?? caller.email;
    if (given.groups !== undefined && !caller.is_admin) {
      throw new OperationError('only administrators see what other groups get; leave "groups" out', 'forbidden');
    }
    const email = emailInPath(user);
    if (email === undefined && given.user !== undefined) {
      throw new OperationError('the parameter "user" is wrong: expected an e-mail address');
    }
    const known = email === undefined ? undefined : await policyPerson(database, email);
    const own = user === caller.email ? caller.principal.groups : [];
    const asked = given.groups?.split(',').flatMap((group) => group.trim() || []);
    return { user, known, groups: asked ?? known?.groups ?? own, are_asked: asked !== undefined };
  }

  return {
    async listPolicies(_asked: Asked, _nothing: object) {
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
      _asked: Asked,
      given: { readonly policy?: string; readonly user?: string; readonly limit: number; readonly after?: string },
    ) {
      const { policy: name, user, limit, after } = given;
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

    async getEffectivePolicy(asked: Asked, given: { readonly user?: string; readonly groups?: string }) {
      const { user, known, groups, are_asked } = await personAsked(asked, given);
      const applying = policiesFor(managed, policies, { email: user, groups });
      const of_them = applying.map(({ policy }) => policy);
      const outcome = of_them.length === 0 ? undefined : layOver(of_them, config);
      const { checksum, settings = null, models, models_policy = null } = outcome ?? {};
      return {
        enabled,
        user,
        groups,
        groups_from: are_asked ? ('question' as const) : ('sign_in' as const),
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
        fetched: are_asked || known === undefined ? null : fetchedOf(checksum, known),
      };
    },
  };
}

function describePolicy({ name, version, summary, priority, file }: Policy) {
  return { name, version, summary, priority, file: shortPath(file) };
}

/** The file in its directory: where that is on the machine is nobody's business. */
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
  const hint = names.length === 0 ? 'there is none' : didYouMean(name, names, `there are ${listed(names)}`);
  throw new OperationError(`there is no policy ${showName(name)}: ${hint}`, 'missing');
}
