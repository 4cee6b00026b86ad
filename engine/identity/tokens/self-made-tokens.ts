import type { Changing } from '../../audit/admin-changes.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import type { Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import { tellOwnChange } from '../deprovisioning/tell-change.ts';
import { commonTokenGroup, rolesOf } from '../deprovisioning/token-groups.ts';
import { TOKENS_CHANNEL } from './token-format.ts';

/**
 * Token groups somebody may make access tokens in: an administrator in all; others where they are members, else in the
 * group of those who are members nowhere.
 */
export function tokenGroupsOpenTo(
  { is_admin, groups }: { readonly is_admin: boolean; readonly groups: readonly string[] },
  config: Pick<GatewayConfig, 'token_groups' | 'auth'>,
): string[] {
  const { token_groups } = config;
  const common = commonTokenGroup(config);
  if (token_groups.length > 0 && is_admin) return token_groups.map(({ name }) => name);
  const own = token_groups.filter(({ members = [] }) => members.some((group) => groups.includes(group)));
  if (own.length > 0) return own.map(({ name }) => name);
  return common === undefined ? [] : [common];
}

/**
 * Revokes the access tokens somebody made in token groups that are not open to them any more; every gateway refuses them
 * within a second. Never rejects: trouble is logged.
 */
export async function endTokensTheyLost(
  asking: Pick<Changing, 'database' | 'clock'> & {
    readonly config: GatewayConfig;
    readonly log: Log;
    readonly telemetry: Pick<Telemetry, 'operation'>;
  },
  { email, groups }: { readonly email: string; readonly groups: readonly string[] },
): Promise<void> {
  const { config, database, clock, log } = asking;
  const is_admin = config.auth !== undefined && rolesOf(config.auth, groups).includes('admin');
  const token_groups = tokenGroupsOpenTo({ is_admin, groups }, config);
  try {
    const ended = await database.query<object>(
      'tokens_end_outside',
      `with owner as (
       select id from principals where id = $2 for no key update
     ), ended as (
       update access_tokens t set revoked_at = $1 from owner
       where principal_id = owner.id and self_service and revoked_at is null and (expires_at is null or expires_at > $1)
         and not token_group = any ($3::text[])
       returning t.id, hash, jsonb_build_object('user', $4::text, 'group', token_group, 'name', name, 'expires_at', expires_at)
         as before
     ), noted as (
       insert into admin_changes (at, actor_kind, actor, action, subject, before, after)
       select $1, 'gateway', 'sign-in', 'token.revoke', id, before,
         jsonb_build_object('revoked_at', $1::timestamptz, 'because', 'its owner left the token group')
       from ended
     )
     select pg_notify('${TOKENS_CHANNEL}', encode(hash, 'base64')) from ended`,
      [new Date(clock.now()), `user:${email}`, token_groups, email],
    );
    if (ended.length === 0) return;
    for (const _ of ended) tellOwnChange(asking, 'token.revoke');
    log.info({ email, ended: ended.length }, 'access tokens in token groups that their owner has left were revoked');
  } catch (error) {
    log.warn({ err: error, email }, 'access tokens in token groups that their owner has left are not revoked yet');
  }
}
