/**
 * What is known of whoever sends the requests that a counter counts, in the facts that conditions of rules look at.
 * @module
 */
import type { GatewayConfig } from '../../contract/config.ts';
import { rolesOf, tokenGroupOf } from '../../identity/deprovisioning/token-groups.ts';
import type { KnownFacts } from '../../rules/simplify.ts';
import type { LimitParts } from './limit-names.ts';

/** The facts that the key of each scope tells. */
export const FACT_OF_SCOPE = {
  user: 'principal.email',
  team: 'principal.team',
  project: 'principal.project',
  token: 'principal.token.id',
  model: 'request.model',
  upstream: 'route.upstream',
} as const satisfies Readonly<Partial<Record<keyof LimitParts, string>>>;

/** Who sends the requests. */
export interface Callers {
  /** What is known of every request. */
  readonly known: KnownFacts;
  /** What is known of each way in which they may come: with each access token and session in force; none where nobody is known. */
  readonly ways: readonly KnownFacts[];
}

/** An access token or a session in force, as `CALLERS` tells it. What is absent is not known. */
export interface CallerRow {
  readonly kind: 'access_token' | 'session';
  readonly email: string;
  /** Of the owner. */
  readonly groups: readonly string[];
  readonly team?: string | null;
  readonly project?: string | null;
  readonly token_id?: string;
  readonly token_name?: string;
  readonly token_group?: string;
}

/** SQL: whether an access token may be used at the moment. */
export const inForceAt = (token: string) =>
  `${token}.revoked_at is null and (${token}.expires_at is null or ${token}.expires_at > at)`;

/**
 * SQL: the access tokens and sessions in force of a person (e-mail address, or empty), or that one which has an id (or empty), as
 * JSON. Somebody who signed in before comes back with the same groups.
 */
export const callersOf = (person: string, token: string) => `(
    select jsonb_agg(distinct i.caller) from principals p cross join lateral (
      select jsonb_build_object('kind', 'session', 'email', p.email, 'groups', p.groups) as caller
        where ${token} = '' and (p.signed_in_at is not null or p.groups <> '{}') and not exists (
          select from sessions s where s.principal_id = p.id and s.revoked_at is null and s.expires_at > at)
      union all
      select jsonb_build_object('kind', 'session', 'email', p.email, 'groups', p.groups, 'team', s.person -> 'team',
          'project', s.person -> 'project')
        from sessions s
        where s.principal_id = p.id and ${token} in ('', s.id) and s.revoked_at is null and s.expires_at > at
      union all
      select jsonb_build_object('kind', 'access_token', 'email', p.email, 'groups', p.groups, 'team', t.team,
          'project', t.project, 'token_id', t.id, 'token_name', t.name, 'token_group', t.token_group)
        from access_tokens t where t.principal_id = p.id and ${token} in ('', t.id) and ${inForceAt('t')}
    ) as i
    where p.id = case when ${person} <> '' then 'user:' || ${person} else coalesce(
      (select t.principal_id from access_tokens t where t.id = ${token}),
      (select s.principal_id from sessions s where s.id = ${token})) end)`;

/** Who may send the requests that are counted under some keys. */
export function callersFor(
  of: LimitParts,
  rows: readonly CallerRow[] | null,
  config: Pick<GatewayConfig, 'token_groups' | 'auth'>,
): Callers {
  const keyed = Object.entries(FACT_OF_SCOPE).flatMap(([scope, fact]) => {
    const key = of[scope as keyof typeof FACT_OF_SCOPE];
    return key === undefined ? [] : [[fact, key] as const];
  });
  const known: KnownFacts = new Map(keyed);
  const ways = (rows ?? []).map((row) => factsOf(row, config));
  const contradicts = (way: KnownFacts) => keyed.some(([fact, key]) => way.has(fact) && way.get(fact) !== key);
  return { known, ways: ways.filter((way) => !contradicts(way)).map((way) => new Map([...way, ...known])) };
}

function factsOf(row: CallerRow, config: Pick<GatewayConfig, 'token_groups' | 'auth'>): KnownFacts {
  const { kind, email, groups, team, project, token_id, token_name } = row;
  const is_session = kind === 'session';
  const token_group = is_session ? tokenGroupOf(config, groups) : row.token_group;
  return new Map<string, unknown>([
    ['principal.id', `user:${email}`],
    ['principal.email', email],
    ['principal.kind', kind],
    ['principal.groups', is_session ? groups : [...new Set([token_group!, ...groups])]],
    ['principal.roles', is_session ? rolesOf(config.auth ?? {}, groups) : []],
    ['principal.token.group', token_group ?? null],
    // Of whoever has no session now, nobody knows with which team the next one begins.
    ...(team === undefined ? [] : [['principal.team', team] as const]),
    ...(project === undefined ? [] : [['principal.project', project] as const]),
    ...(token_id === undefined ? [] : [['principal.token.id', token_id] as const]),
    ...(token_name === undefined ? [] : [['principal.token.name', token_name] as const]),
  ]);
}

/** What all of some ways have in common. */
export function commonFacts({ known, ways }: Callers): KnownFacts {
  const [first, ...others] = ways;
  if (first === undefined) return known;
  const isCommon = ([fact, value]: readonly [string, unknown]) =>
    others.every((way) => way.has(fact) && JSON.stringify(way.get(fact)) === JSON.stringify(value));
  return new Map([...first].filter(isCommon));
}
