import type { AdminDoor, AdminOptions } from './door.ts';
import { tokenGroupsFor } from './token-groups.ts';

/** Who the caller is to this gateway, and what that allows. */
export function meDoors({ config, models }: AdminOptions): AdminDoor[] {
  return [
    {
      method: 'GET',
      path: '/admin/api/me',
      answer({ caller, query }) {
        query();
        const { email, name = null, groups, team = null, project = null, roles, token } = caller.principal;
        const asking = { kind: 'session', token_group: token.group, groups, email } as const;
        const usable = models.all.filter((model) => models.refusal(asking, model) === undefined);
        return {
          body: {
            email,
            name,
            groups,
            team,
            project,
            roles,
            session_id: token.id,
            token_group: token.group ?? null,
            models: usable.map(({ id }) => id),
            may_make_tokens_in: tokenGroupsFor(caller, config),
          },
        };
      },
    },
  ];
}
