import type { Principal } from '../../contract/services.ts';
import type { OwnerStatus } from '../deprovisioning/suspension.ts';
import type { DecidingGroups } from '../provider/deciding-groups.ts';
import type { KnownAccessToken } from './access-token-errors.ts';

/** What the cache knows of an access token. */
export interface Entry extends KnownAccessToken {
  /** With those of the groups that decide something. */
  principal: Principal;
  /** All of the owner's. */
  readonly groups: readonly string[];
  /** By what the principal's were picked. */
  groups_of: string | undefined;
  /** When it was looked up, by the monotonic clock. */
  readonly read_at: number;
  /** When its use is to be noted again, by the monotonic clock. */
  use_due_at: number;
}

/** An access token as the database tells it. */
export interface TokenRow extends OwnerStatus {
  readonly hash: string;
  readonly id: string;
  readonly name: string;
  readonly token_group: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly principal_id: string;
  readonly email: string;
  /** Groups of the owner, as the identity provider told them last. */
  readonly groups: readonly string[];
}

/** What goes into the cache. */
export function entryOf(row: TokenRow, read_at: number, use_due_at: number): Entry {
  const { id, name, token_group: group } = row;
  return {
    principal: Object.freeze({
      id: row.principal_id,
      email: row.email,
      kind: 'access_token',
      groups: Object.freeze([...new Set([group, ...row.groups])]),
      roles: Object.freeze([]),
      team: row.team ?? undefined,
      project: row.project ?? undefined,
      token: Object.freeze({ id, name, group }),
    } as const),
    groups: row.groups,
    groups_of: undefined,
    expires_at: row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
    revoked_at: row.revoked_at?.getTime(),
    verified_at: row.verified_at,
    put_off_until: row.put_off_until,
    is_blocked: row.is_blocked,
    read_at,
    use_due_at,
  };
}

/** Audit records and rules see no more groups than the configuration goes by: a person may be in hundreds. */
export function pickGroups(entry: Entry, deciding: DecidingGroups | undefined): void {
  const { principal, groups } = entry;
  const { group } = principal.token;
  const picked = deciding?.among(groups) ?? groups;
  const names = group === undefined ? picked : [...new Set([group, ...picked])];
  entry.principal = Object.freeze({ ...principal, groups: Object.freeze(names) });
  entry.groups_of = deciding?.id;
}
