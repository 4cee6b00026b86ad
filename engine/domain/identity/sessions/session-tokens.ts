import { createSecretKey, hash } from 'node:crypto';
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose';
import { LRUCache } from 'lru-cache';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Clock, Log, Principal } from '../../../base/contract/services.ts';
import { rolesOf, tokenGroupOf } from '../deprovisioning/deprovision.ts';
import type { Person } from '../provider/admit.ts';
import { ANY_GROUP, type DecidingGroups, EVERY_GROUP, MOST_TOKEN_CHARS } from '../provider/deciding-groups.ts';
import { issuerOf } from '../provider/provider.ts';
import { type KeyHolders, NO_OTHER_HOLDERS } from './key-holders.ts';
import { createSecretTags, makeId, openWith, type SealPurpose, sealWith } from './secrets.ts';
import { createSessionKeys, type SessionKeys } from './session-keys.ts';
import type { Revocations, SessionActivity } from './sessions.ts';

const ALGORITHM = 'HS256';
/** Keeps a token of another purpose from passing for a session token (RFC 8725 section 3.11). */
const TYPE = 'session+jwt';
/** Canonical base64url: zero spare bits in the last character. Decoders accept other spellings of the same token. */
const ONE_SPELLING = /^[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]$/;
const FOREIGN_HEADER = /"kid":"(?<kid>[\w-]{12})"\}$/;
const MAX_TOKEN_CHARS = 32_768;
const MAX_CACHED = 10_000;
const MAX_CACHED_CHARS = 33_554_432;
const NEVER_EXPIRED = new Date(0);

interface Entry {
  readonly principal: Principal;
  readonly expires_at: number;
}

/** Session tokens of a configuration: signed JWTs, verified offline. */
export type SessionTokens = ReturnType<typeof createSessionTokens>;

/** Creates the session tokens of a configuration with `auth.oidc`. Raises StartError for a key that is too short. */
export function createSessionTokens(options: {
  readonly config: GatewayConfig;
  readonly secret: (name: string) => string;
  readonly clock: Clock;
  readonly revocations: Pick<Revocations, 'has'>;
  readonly log: Pick<Log, 'warn' | 'info'>;
  readonly groups?: DecidingGroups;
  readonly groupsOf?: (session_id: string) => Promise<readonly string[] | undefined>;
  readonly mayStay?: (person: Person) => boolean;
  readonly session_activity?: SessionActivity;
  readonly key_holders?: KeyHolders;
}) {
  const { config, secret, clock, revocations, log, mayStay = () => true, session_activity } = options;
  const { key_holders = NO_OTHER_HOLDERS } = options;
  const { groups = EVERY_GROUP, groupsOf = async () => undefined } = options;
  const { auth } = config;
  if (auth?.oidc === undefined) throw new TypeError('session tokens need the section auth.oidc');
  const issuer = issuerOf(config);
  const keys = createSessionKeys({ ...auth, oidc: auth.oidc }, secret, log);
  const readPayload = createPayloadReader(keys, issuer, key_holders);
  const sign = createSigner(keys, issuer);
  const ttl_seconds = auth.session.ttl_minutes * 60;
  // Valid tokens only, so that invented ones cannot evict them.
  const entries = new LRUCache<string, Entry>({ max: MAX_CACHED, maxSize: MAX_CACHED_CHARS });

  const admit = ({ principal, expires_at }: Entry): Principal => {
    if (clock.now() >= expires_at) throw expiredError(expires_at);
    if (revocations.has(principal.token.id)) throw new StageError('credential_revoked', ENDED);
    return principal;
  };

  /** The groups of a token. One signed under another configuration may lack some: then reads them from the database. */
  const decidingOf = async ({ carried_groups, session_id }: SessionClaims): Promise<readonly string[]> => {
    const is_enough =
      carried_groups !== undefined && (carried_groups.of === groups.id || carried_groups.of === ANY_GROUP);
    const all = is_enough ? carried_groups.groups : await groupsOf(session_id);
    if (all === undefined) throw new StageError('credential_revoked', ENDED);
    return groups.among(all);
  };

  const verifyAnew = async (token: string, key: string): Promise<Principal> => {
    const claims = readClaims(await readPayload(token, new Date(clock.now())));
    if (claims === undefined) throw notOurs();
    const person = { ...claims.person, groups: await decidingOf(claims) };
    if (!mayStay(person)) throw notAllowed(person);
    const entry = { principal: principalOf({ ...claims, person }, config), expires_at: claims.expires_at };
    const principal = admit(entry);
    entries.set(key, entry, { size: token.length + person.groups.reduce((sum, group) => sum + group.length, 0) });
    session_activity?.note(claims.session_id, claims.issued_at);
    return principal;
  };

  return {
    /** Signs a session token, after the key was announced. Raises store_unavailable. */
    async issue({ id, person }: Pick<SessionClaims, 'person'> & { readonly id: string }) {
      await key_holders.announce(keys.shared_ids);
      const issued_at = Math.floor(clock.now() / 1000);
      const expires_at = issued_at + ttl_seconds;
      const roles = rolesOf(auth, person.groups);
      const carried_groups = { groups: groups.among(person.groups), of: groups.id };
      const signed = (described: Person, carried?: CarriedGroups) =>
        sign(writeClaims(id, described, roles, carried), issued_at, expires_at);
      let access_token = await signed(person, carried_groups);
      if (access_token.length > MOST_TOKEN_CHARS) {
        const fields = {
          email: person.email,
          session: id,
          groups: carried_groups.groups.length,
          characters: access_token.length,
        };
        log.info(fields, 'the groups of a person do not fit into a session token; reading them from the database');
        access_token = await signed(person);
      }
      const { name: _, ...nameless } = person;
      if (access_token.length > MOST_TOKEN_CHARS) access_token = await signed(nameless);
      return { access_token, expires_in_seconds: ttl_seconds };
    },
    /** Synchronous for a cached token. Raises credential_*, store_unavailable, temporarily_unavailable (a key). */
    verify(token: string): Principal | Promise<Principal> {
      if (token.length > MAX_TOKEN_CHARS) throw notOurs();
      // The key is the whole token, signature included.
      const key = hash('sha256', token, 'base64');
      const entry = entries.get(key);
      return entry === undefined ? verifyAnew(token, key) : admit(entry);
    },
    /** The principal of an open session. Raises credential_revoked, store_unavailable. */
    principalOf(session_id: string, person: Person): Principal {
      if (!mayStay(person)) throw notAllowed(person);
      if (revocations.has(session_id)) throw new StageError('credential_revoked', ENDED);
      return principalOf({ session_id, person: { ...person, groups: groups.among(person.groups) } }, config);
    },
    /** The session of a token, also of an expired or revoked one; `undefined` without our signature. */
    async sessionOf(token: string): Promise<string | undefined> {
      if (token.length > MAX_TOKEN_CHARS) return undefined;
      try {
        return readClaims(await readPayload(token, NEVER_EXPIRED))?.session_id;
      } catch (error) {
        if (error instanceof StageError && error.status === 401) return undefined;
        throw error;
      }
    },
    seal: (value: object, purpose: SealPurpose) => sealWith(keys, value, purpose),
    /** Decrypts a value; `undefined` if no key encrypted it for this purpose. Raises as `verify`. */
    open: (sealed: string, purpose: SealPurpose) => openWith(keys, sealed, purpose, key_holders),
    key_ids: keys.shared_ids,
    tags: createSecretTags(keys),
  };
}

function createSigner(keys: SessionKeys, issuer: string) {
  const key = createSecretKey(keys.current.derive('sign'));
  return (claims: JWTPayload, issued_at: number, expires_at: number) =>
    new SignJWT(claims)
      .setProtectedHeader(headerOf(keys.current.id))
      .setIssuer(issuer)
      .setAudience(issuer)
      .setJti(makeId('jwt'))
      .setIssuedAt(issued_at)
      .setExpirationTime(expires_at)
      .sign(key);
}

function headerOf(kid: string) {
  return { alg: ALGORITHM, typ: TYPE, kid };
}

function headerText(kid: string): string {
  return Buffer.from(JSON.stringify(headerOf(kid))).toString('base64url');
}

function createPayloadReader(keys: SessionKeys, issuer: string, { assertUnknown }: KeyHolders) {
  const by_header = new Map([...keys.all].map(([id, key]) => [headerText(id), createSecretKey(key.derive('sign'))]));
  const checks = { algorithms: [ALGORITHM], typ: TYPE, issuer, audience: issuer, requiredClaims: ['exp'] };
  return async (token: string, currentDate: Date): Promise<JWTPayload> => {
    const header = ONE_SPELLING.test(token) ? token.slice(0, token.indexOf('.')) : '';
    const key = by_header.get(header);
    if (key === undefined) {
      const kid = foreignKeyIn(header);
      if (kid !== undefined) await assertUnknown(kid);
      throw notOurs();
    }
    try {
      const { payload } = await jwtVerify(token, key, { ...checks, currentDate });
      return payload;
    } catch (error) {
      // The signature is valid: these errors are about tokens of our own.
      if (error instanceof errors.JWTExpired) throw expiredError(Number(error.payload.exp) * 1000);
      if (error instanceof errors.JWTClaimValidationFailed && /^(?:iss|aud)$/.test(error.claim)) {
        const problem = `The session token was issued by another gateway. Sign in to ${issuer}.`;
        throw new StageError('credential_invalid', problem);
      }
      if (error instanceof errors.JOSEError) throw notOurs(error);
      throw error;
    }
  };
}

/** The key id of a header of our own form; `undefined` for other headers, which need no lookup. */
function foreignKeyIn(header: string): string | undefined {
  const { kid } = FOREIGN_HEADER.exec(Buffer.from(header, 'base64url').toString())?.groups ?? {};
  return kid !== undefined && headerText(kid) === header ? kid : undefined;
}

function principalOf(
  { session_id, person }: Pick<SessionClaims, 'session_id' | 'person'>,
  config: GatewayConfig,
): Principal {
  const groups = Object.freeze([...person.groups]);
  return Object.freeze({
    id: principalIdOf(person),
    email: person.email,
    ...(person.name !== undefined && { name: person.name }),
    kind: 'session',
    groups,
    roles: Object.freeze(rolesOf(config.auth ?? {}, groups)),
    team: person.team,
    project: person.project,
    token: Object.freeze({ id: session_id, name: 'sign-in', group: tokenGroupOf(config, groups) }),
  } as const);
}

function notOurs(cause?: unknown): StageError {
  return new StageError(
    'credential_invalid',
    'The session token is malformed or signed with an unknown key. Sign in again.',
    { cause },
  );
}

function expiredError(at: number): StageError {
  const when = new Date(at);
  // Only a leaked key can sign a number that is not a date.
  const since = Number.isNaN(when.getTime()) ? '' : ` on ${when.toISOString()}`;
  return new StageError(
    'credential_expired',
    `The session token expired${since}. Clients renew it automatically; if yours does not, sign in again.`,
  );
}

const ENDED = 'This session was ended by a sign-out or an administrator. Sign in again.';

function notAllowed({ email }: Person): StageError {
  return new StageError(
    'credential_revoked',
    `The gateway no longer admits ${email}: auth.oidc does not allow the user's groups or e-mail domain. Ask your administrator.`,
  );
}

export interface SessionClaims {
  readonly session_id: string;
  /** Its groups are those of `carried_groups`, none where that is absent. */
  readonly person: Person;
  /** Absent if they would make the token too long: then they are read from the session. */
  readonly carried_groups: CarriedGroups | undefined;
  /** Milliseconds since the epoch; so is `expires_at`. */
  readonly issued_at: number;
  readonly expires_at: number;
}

function principalIdOf({ email }: Pick<Person, 'email'>): string {
  return `user:${email}`;
}

interface CarriedGroups {
  readonly groups: readonly string[];
  /** The `id` of the deciding groups that selected them. */
  readonly of: string;
}

/** The claims of a session token that are about a session and its person (RFC 7519 section 4). */
function writeClaims(
  session_id: string,
  person: Person,
  roles: readonly string[],
  carried_groups: CarriedGroups | undefined,
): JWTPayload {
  const { issuer, subject, groups: _, ...shown } = person;
  return {
    sub: principalIdOf(person),
    sid: session_id,
    ...shown,
    ...(carried_groups !== undefined && { groups: [...carried_groups.groups], groups_of: carried_groups.of }),
    roles: [...roles],
    idp_issuer: issuer,
    idp_subject: subject,
  };
}

function readClaims(claims: JWTPayload): SessionClaims | undefined {
  const { sub, sid, email, groups, groups_of = ANY_GROUP, idp_issuer, idp_subject, iat, exp } = claims;
  const { name, team, project } = claims;
  if (!isText(sid) || !isText(email) || !isText(idp_issuer) || !isText(idp_subject)) return undefined;
  if (sub !== principalIdOf({ email }) || !Number.isSafeInteger(exp) || !Number.isSafeInteger(iat)) return undefined;
  if (groups !== undefined && !isListOfTexts(groups)) return undefined;
  if (![name, team, project].every((value) => value === undefined || isText(value))) return undefined;
  const optional = { name, team, project } as Pick<Person, 'name' | 'team' | 'project'>;
  const person = { issuer: idp_issuer, subject: idp_subject, email, groups: groups ?? [], ...optional };
  const carried_groups = groups === undefined ? undefined : { groups, of: String(groups_of) };
  return { session_id: sid, person, carried_groups, issued_at: Number(iat) * 1000, expires_at: Number(exp) * 1000 };
}

function isListOfTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}
