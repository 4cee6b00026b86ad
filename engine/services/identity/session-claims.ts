import type { JWTPayload } from 'jose';
import type { Person } from './admission.ts';

/** What a session token says. */
export interface SessionClaims {
  readonly session_id: string;
  readonly person: Person;
  /** Milliseconds since the epoch; so is `expires_at`. */
  readonly issued_at: number;
  readonly expires_at: number;
}

/** The id under which a person owns access tokens and sessions. */
export function principalIdOf({ email }: Pick<Person, 'email'>): string {
  return `user:${email}`;
}

/** The claims of a session token that are about a session and its person (RFC 7519 section 4). */
export function writeClaims(session_id: string, person: Person, roles: readonly string[]): JWTPayload {
  const { issuer, subject, ...shown } = person;
  return {
    sub: principalIdOf(person),
    sid: session_id,
    ...shown,
    groups: [...person.groups],
    roles: [...roles],
    idp_issuer: issuer,
    idp_subject: subject,
  };
}

/** Reads what `writeClaims` wrote; `undefined` when something is missing or of another type. */
export function readClaims(claims: JWTPayload): SessionClaims | undefined {
  const { sub, sid, email, name, groups, team, project, idp_issuer, idp_subject, iat, exp } = claims;
  if (!isText(sid) || !isText(email) || !isText(idp_issuer) || !isText(idp_subject)) return undefined;
  if (sub !== principalIdOf({ email }) || !Number.isSafeInteger(exp) || !Number.isSafeInteger(iat)) return undefined;
  if (!Array.isArray(groups) || !groups.every((group) => typeof group === 'string')) return undefined;
  if (![name, team, project].every((value) => value === undefined || isText(value))) return undefined;
  const optional = { name, team, project } as Pick<Person, 'name' | 'team' | 'project'>;
  const person = { issuer: idp_issuer, subject: idp_subject, email, groups, ...optional };
  return { session_id: sid, person, issued_at: Number(iat) * 1000, expires_at: Number(exp) * 1000 };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
