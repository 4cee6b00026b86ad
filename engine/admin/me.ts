import { OWN_TOKENS, type OwnerStatus, type OwnTokens, ownTokens } from '../identity/deprovisioning/suspension.ts';
import { tokenGroupsOpenTo } from '../identity/tokens/self-made-tokens.ts';
import { isUnavailable } from '../store/store-errors.ts';
import { noModelsBecause } from '../upstreams/model-refusals.ts';
import type { AdminOptions, Asked } from './asked.ts';

/** What the database knows of the caller; the session token holds no more groups than decide something. */
type Known = { readonly groups?: readonly string[] } & { [Key in keyof OwnTokens]: OwnTokens[Key] | null };

/** Who the caller is to this gateway, and what that allows. */
export function meOperations({ config, models, database, clock }: AdminOptions) {
  /** What the caller made; `null` while the database is away, without which all else here is known. */
  const knownOf = async (principal_id: string): Promise<Known> => {
    const now = clock.now();
    try {
      const [row] = await database.query<OwnerStatus & { own_tokens: number; groups: readonly string[] }>(
        'own_tokens',
        `select p.groups, ${OWN_TOKENS('$2')} from principals p where p.id = $1`,
        [principal_id, new Date(now)],
      );
      if (row === undefined) return { own_tokens: 0, own_tokens_suspended: false, own_tokens_suspend_at: null };
      const { groups, ...own } = row;
      return { groups, ...ownTokens(own, now, config) };
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      return { own_tokens: null, own_tokens_suspended: null, own_tokens_suspend_at: null };
    }
  };
  return {
    async getMe({ caller }: Asked, _nothing: object) {
      const { email, name = null, groups, team = null, project = null, roles, token } = caller.principal;
      const asking = { kind: 'session', token_group: token.group, groups, email } as const;
      const refusals = models.all.map((model) => models.refusal(asking, model));
      const usable = models.all.filter((_, i) => refusals[i] === undefined);
      return {
        email,
        name,
        groups,
        team,
        project,
        roles,
        session_id: token.id,
        token_group: token.group ?? null,
        models: usable.map(({ id }) => id),
        no_models_because: usable.length === 0 ? noModelsBecause(refusals, groups, config) : null,
        may_make_tokens_in: tokenGroupsOpenTo({ is_admin: caller.is_admin, groups }, config),
        ...(await knownOf(caller.principal.id)),
      };
    },
  };
}
