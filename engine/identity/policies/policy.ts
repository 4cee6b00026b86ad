import type { PoliciesConfig } from '../../contract/config.ts';
import type { Policy } from '../../source/spec.ts';

/** Somebody, as far as it decides which policies are meant for them. */
export interface PolicyPerson {
  readonly groups: readonly string[];
  readonly email: string;
}

/** A policy that is meant for somebody, and why. */
export interface ApplyingPolicy {
  readonly policy: Policy;
  readonly because:
    | { readonly by: 'default' }
    | { readonly by: 'group'; readonly group: string }
    | { readonly by: 'email_domain'; readonly email_domain: string };
}

/** The domain of an e-mail address, lower case; empty when the text is none. */
export function domainOf(email: string): string {
  const at = email.lastIndexOf('@');
  return at < 0 ? '' : email.slice(at + 1).toLowerCase();
}

/** In the order in which they are laid over each other: the lowest priority first, ties by name. */
export function inOrder(policies: readonly Policy[]): Policy[] {
  return policies.toSorted((a, b) => a.priority - b.priority || (a.name < b.name ? -1 : 1));
}

/** The policies meant for somebody in the order in which they are laid over each other: the default one, then all that match. */
export function policiesFor(
  managed: PoliciesConfig['managed'],
  policies: readonly Policy[],
  person: PolicyPerson,
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
