import type { AuthConfig, GatewayConfig } from '../../config.ts';

/** What a person may do at the gateway, by its configuration: `admin`, or nothing beyond using it. */
export function rolesOf(auth: Pick<AuthConfig, 'admin_groups'>, groups: readonly string[]): readonly string[] {
  return intersects(auth.admin_groups, groups) ? ['admin'] : [];
}

/** The token group of a signed-in person, which decides about models; `undefined` when the configuration gives none. */
export function tokenGroupOf(
  { token_groups, auth }: Pick<GatewayConfig, 'token_groups' | 'auth'>,
  groups: readonly string[],
): string | undefined {
  return token_groups.find(({ members }) => intersects(members, groups))?.name ?? auth?.session.token_group;
}

function intersects(some: readonly string[] | undefined, others: readonly string[]): boolean {
  return some?.some((each) => others.includes(each)) ?? false;
}
