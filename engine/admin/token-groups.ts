import { verifiedDays } from '../identity/deprovisioning/suspension.ts';
import { commonTokenGroup } from '../identity/deprovisioning/token-groups.ts';
import { countByGroup, type GroupCount } from '../identity/tokens/list-tokens.ts';
import { tokenGroupsOpenTo } from '../identity/tokens/self-made-tokens.ts';
import { callerWithToken } from '../upstreams/models.ts';
import type { AdminOptions, Asked } from './asked.ts';

const NO_TOKENS: Omit<GroupCount, 'group'> = { in_force: 0, suspended: 0, last_used_at: null };

/** Token groups: what they open, who may make tokens in them, and how many there are; for everybody but administrators their own. */
export function tokenGroupOperations({ config, database, clock, models }: AdminOptions) {
  const members = new Map(config.token_groups.map((group) => [group.name, group.members ?? []]));
  const configured = config.token_groups.length === 0 ? ['all'] : [...members.keys()];
  const opens = (group: string) =>
    models.all.filter((model) => models.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return {
    async listTokenGroups({ caller }: Asked, _nothing: object) {
      const { is_admin, principal, email } = caller;
      const states = { now: clock.now(), verified_days: verifiedDays(config) };
      const counts = await countByGroup(database, { user: is_admin ? undefined : email }, states);
      const open = tokenGroupsOpenTo({ is_admin, groups: principal.groups }, config);
      const counted = counts.map(({ group }) => group);
      const shown = is_admin ? configured : configured.filter((name) => open.includes(name) || counted.includes(name));
      const token_groups = [...new Set([...shown, ...counted])].map((name) => {
        const { group: _group, ...tokens } = counts.find(({ group }) => group === name) ?? {
          group: name,
          ...NO_TOKENS,
        };
        const who = members.get(name) ?? [];
        return {
          name,
          is_configured: configured.includes(name),
          models: opens(name),
          members: is_admin ? who : who.filter((group) => principal.groups.includes(group)),
          is_for_everybody_else: commonTokenGroup(config) === name,
          may_make: open.includes(name),
          tokens,
        };
      });
      return { token_groups };
    },
  };
}
