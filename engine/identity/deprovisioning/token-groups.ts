import type { AuthConfig, GatewayConfig } from '../../contract/config.ts';

/** The one group there is when gateway.yaml has no `token_groups`. */
const IMPLICIT_GROUP = 'all';

/** What a person may do at the gateway, by its configuration: `admin`, or nothing beyond using it. */
export function rolesOf(auth: Pick<AuthConfig, 'admin_groups'>, groups: readonly string[]): readonly string[] {
  return intersects(auth.admin_groups, groups) ? ['admin'] : [];
}

type Groups = Pick<GatewayConfig, 'token_groups' | 'auth'>;

/** The token group of a signed-in person, which decides about models; `undefined` when the configuration gives none. */
export function tokenGroupOf(config: Groups, groups: readonly string[]): string | undefined {
  return config.token_groups.find(({ members }) => intersects(members, groups))?.name ?? commonTokenGroup(config);
}

/** The token group of signed-in people who are members of none; `undefined` when the configuration gives none. */
export function commonTokenGroup({ token_groups, auth }: Groups): string | undefined {
  if (auth?.session.token_group !== undefined) return auth.session.token_group;
  if (token_groups.length === 0) return IMPLICIT_GROUP;
  const [only, ...others] = token_groups;
  return others.length === 0 && only?.members === undefined ? only?.name : undefined;
}

function intersects(some: readonly string[] | undefined, others: readonly string[]): boolean {
  return some?.some((each) => others.includes(each)) ?? false;
}
