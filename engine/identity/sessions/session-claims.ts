import type { JWTPayload } from 'jose';
import type { Person } from '../provider/admit.ts';
import { ANY_GROUP } from '../provider/deciding-groups.ts';

/** What a session token says. */
export interface SessionClaims {
  readonly session_id: string;
  /** Its groups are those of `told`, none where that is absent. */
  readonly person: Person;
  /** Absent where they would make the token too long: they are kept with the session. */
  readonly told: ToldGroups | undefined;
  /** Milliseconds since the epoch; so is `expires_at`. */
  readonly issued_at: number;
  readonly expires_at: number;
}

/** The id under which a person owns access tokens and sessions. */
export function principalIdOf({ email }: Pick<Person, 'email'>): string {
  return `user:${email}`;
}

/** Groups that a session token carries. */
export interface ToldGroups {
  readonly groups: readonly string[];
  /** The `id` of the deciding groups they were picked by. */
  readonly of: string;
}

/** The claims of a session token that are about a session and its person (RFC 7519 section 4). */
export function writeClaims(
  session_id: string,
  person: Person,
  roles: readonly string[],
  told: ToldGroups | undefined,
): JWTPayload {
  const { issuer, subject, groups: _, ...shown } = person;
  return {
    sub: principalIdOf(person),
    sid: session_id,
    ...shown,
    ...(told !== undefined && { groups: [...told.groups], groups_of: told.of }),
    roles: [...roles],
    idp_issuer: issuer,
    idp_subject: subject,
  };
}

/** Reads what `writeClaims` wrote; `undefined` when something is missing or of another type. */
export function readClaims(claims: JWTPayload): SessionClaims | undefined {
  const {
    sub,
    sid,
    email,
    name,
    groups,
    groups_of = ANY_GROUP,
    team,
    project,
    idp_issuer,
    idp_subject,
    iat,
    exp,
  } = claims;
  if (!isText(sid) || !isText(email) || !isText(idp_issuer) || !isText(idp_subject)) return undefined;
  if (sub !== principalIdOf({ email }) || !Number.isSafeInteger(exp) || !Number.isSafeInteger(iat)) return undefined;
  if (groups !== undefined && !isListOfTexts(groups)) return undefined;
  if (![name, team, project].every((value) => value === undefined || isText(value))) return undefined;
  const optional = { name, team, project } as Pick<Person, 'name' | 'team' | 'project'>;
  const person = { issuer: idp_issuer, subject: idp_subject, email, groups: groups ?? [], ...optional };
  const told = groups === undefined ? undefined : { groups, of: String(groups_of) };
  return { session_id: sid, person, told, issued_at: Number(iat) * 1000, expires_at: Number(exp) * 1000 };
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
