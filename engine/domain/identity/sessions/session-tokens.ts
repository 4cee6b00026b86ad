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
import { createMarks, makeId, openWith, type SealPurpose, sealWith } from './opaque.ts';
import { createSessionKeys, type SessionKeys } from './session-keys.ts';
import type { Sightings } from './sessions.ts';

/** Sessions that were ended before their tokens expire, as every replica knows them within a second. */
export interface Revocations {
  /** Whether a session was ended. Raises store_unavailable while the list was never read. */
  has(session_id: string): boolean;
  /** Tells whenever a session is ended, and with `undefined` when any may have been. */
  onRevoked(listener: (session_id: string | undefined) => void): () => void;
  /** Resolves when everything that was ended by now is known here, as far as the database can be read. */
  catchUp(): Promise<void>;
  close(): Promise<void>;
}

const ALGORITHM = 'HS256';
/** Keeps a token of another purpose from passing for a session token (RFC 8725 section 3.11). */
const TYPE = 'session+jwt';
/**
 * Base64url without padding, and a signature whose last character leaves the two bits it has to spare at zero: what a decoder
 * lets pass beside that would be the same token spelled otherwise. Header and payload are signed as they are spelled.
 */
const ONE_SPELLING = /^[\w-]+\.[\w-]+\.[\w-]{42}[AEIMQUYcgkosw048]$/;
const FOREIGN_HEADER = /"kid":"(?<kid>[\w-]{12})"\}$/;
const MAX_TOKEN_CHARS = 32_768;
const MAX_CACHED = 10_000;
const MAX_CACHED_CHARS = 33_554_432;
const NEVER_EXPIRED = new Date(0);

interface Entry {
  readonly principal: Principal;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
}

/** Session tokens of one configuration: signed JWTs that are verified without asking anybody. */
export type SessionTokens = ReturnType<typeof createSessionTokens>;

/**
 * Creates the session tokens of a configuration with `auth.oidc`.
 * @param options.mayStay whether the configuration in force would still let a person in; absent means everybody.
 * @param options.key_holders knows which keys other gateways have; absent means that there are none.
 * @param options.groups what the configuration goes by; absent: all groups.
 * @param options.groupsOf all groups of a session's person; `undefined` when the session is gone. Raises store_unavailable.
 * @param options.sightings is told of each token that is good, when it is seen for the first time.
 * Raises StartError for a key that is too short.
 */
export function createSessionTokens(options: {
  readonly config: GatewayConfig;
  readonly secret: (name: string) => string;
  readonly clock: Clock;
  readonly revocations: Revocations;
  readonly log: Pick<Log, 'warn' | 'info'>;
  readonly groups?: DecidingGroups;
  readonly groupsOf?: (session_id: string) => Promise<readonly string[] | undefined>;
  readonly mayStay?: (person: Person) => boolean;
  readonly sightings?: Sightings;
  readonly key_holders?: KeyHolders;
}) {
  const { config, secret, clock, revocations, log, mayStay = () => true, sightings } = options;
  const { key_holders = NO_OTHER_HOLDERS } = options;
  const { groups = EVERY_GROUP, groupsOf = async () => undefined } = options;
  const { auth } = config;
  if (auth?.oidc === undefined) throw new TypeError('session tokens need the section auth.oidc');
  const issuer = issuerOf(config);
  const keys = createSessionKeys({ ...auth, oidc: auth.oidc }, secret, log);
  const readPayload = createPayloadReader(keys, issuer, key_holders);
  const sign = createSigner(keys, issuer);
  const ttl_seconds = auth.session.ttl_minutes * 60;
  // Only tokens that are good get in: made-up ones can't push them out.
  const entries = new LRUCache<string, Entry>({ max: MAX_CACHED, maxSize: MAX_CACHED_CHARS });

  const admit = ({ principal, expires_at }: Entry): Principal => {
    if (clock.now() >= expires_at) throw expired(expires_at);
    if (revocations.has(principal.token.id)) throw ended();
    return principal;
  };

  /** A token may have been signed when the configuration went by other groups: no group that decides is ever missing. */
  const decidingOf = async ({ told, session_id }: SessionClaims): Promise<readonly string[]> => {
    const is_enough = told !== undefined && (told.of === groups.id || told.of === ANY_GROUP);
    const all = is_enough ? told.groups : await groupsOf(session_id);
    if (all === undefined) throw ended();
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
    sightings?.note(claims.session_id, claims.issued_at);
    return principal;
  };

  return {
    /** Signs a session token, once every gateway can know of the key. Raises store_unavailable. */
    async issue({ id, person }: Pick<SessionClaims, 'person'> & { readonly id: string }) {
      await key_holders.announce(keys.shared_ids);
      const issued_at = Math.floor(clock.now() / 1000);
      const expires_at = issued_at + ttl_seconds;
      const roles = rolesOf(auth, person.groups);
      const told = { groups: groups.among(person.groups), of: groups.id };
      const signed = (said: Person, carried?: ToldGroups) =>
        sign(writeClaims(id, said, roles, carried), issued_at, expires_at);
      let access_token = await signed(person, told);
      if (access_token.length > MOST_TOKEN_CHARS) {
        const fields = {
          email: person.email,
          session: id,
          groups: told.groups.length,
          characters: access_token.length,
        };
        log.info(fields, 'a session token has no room for the groups of its person, which are read from the database');
        access_token = await signed(person);
      }
      const { name: _, ...nameless } = person;
      if (access_token.length > MOST_TOKEN_CHARS) access_token = await signed(nameless);
      return { access_token, expires_in_seconds: ttl_seconds };
    },
    /**
     * The principal behind a session token; returned at once when the token was seen before.
     * Raises credential_invalid, credential_expired, credential_revoked, store_unavailable, and temporarily_unavailable where
     * another gateway has the key and this one does not.
     */
    verify(token: string): Principal | Promise<Principal> {
      if (token.length > MAX_TOKEN_CHARS) throw notOurs();
      // The whole token decides, signature included.
      const key = hash('sha256', token, 'base64');
      const entry = entries.get(key);
      return entry === undefined ? verifyAnew(token, key) : admit(entry);
    },
    /**
     * The principal of a session that is open, without a token of it. Raises credential_revoked, and store_unavailable as
     * `verify` does.
     */
    principalOf(session_id: string, person: Person): Principal {
      if (!mayStay(person)) throw notAllowed(person);
      if (revocations.has(session_id)) throw ended();
      return principalOf({ session_id, person: { ...person, groups: groups.among(person.groups) } }, config);
    },
    /**
     * The session a token belongs to, also when it has expired or is revoked; `undefined` for what no key of ours signed.
     * Raises temporarily_unavailable and store_unavailable as `verify` does.
     */
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
    /**
     * The value that was sealed; `undefined` when it was not sealed with a key of this configuration for this purpose.
     * Raises temporarily_unavailable and store_unavailable as `verify` does.
     */
    open: (sealed: string, purpose: SealPurpose) => openWith(keys, sealed, purpose, key_holders),
    key_ids: keys.shared_ids,
    marks: createMarks(keys),
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

function createPayloadReader(keys: SessionKeys, issuer: string, { demandUnknown }: KeyHolders) {
  const by_header = new Map([...keys.all].map(([id, key]) => [headerText(id), createSecretKey(key.derive('sign'))]));
  const checks = { algorithms: [ALGORITHM], typ: TYPE, issuer, audience: issuer, requiredClaims: ['exp'] };
  return async (token: string, currentDate: Date): Promise<JWTPayload> => {
    const header = ONE_SPELLING.test(token) ? token.slice(0, token.indexOf('.')) : '';
    const key = by_header.get(header);
    if (key === undefined) {
      const kid = foreignKeyIn(header);
      if (kid !== undefined) await demandUnknown(kid);
      throw notOurs();
    }
    try {
      const { payload } = await jwtVerify(token, key, { ...checks, currentDate });
      return payload;
    } catch (error) {
      // By now the signature is known to be good: these two are about tokens that one of our keys signed.
      if (error instanceof errors.JWTExpired) throw expired(Number(error.payload.exp) * 1000);
      if (error instanceof errors.JWTClaimValidationFailed && /^(?:iss|aud)$/.test(error.claim))
        throw elsewhere(issuer);
      if (error instanceof errors.JOSEError) throw notOurs(error);
      throw error;
    }
  };
}

/** The key that a header of our own form names; `undefined` for any other header, about which nobody need be asked. */
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
    'The session token is malformed, or was signed with a key this gateway does not use, or does not use any more. Sign in again.',
    { cause },
  );
}

function elsewhere(issuer: string): StageError {
  return new StageError(
    'credential_invalid',
    `The session token belongs to another gateway than ${issuer}. Sign in at this one.`,
  );
}

function expired(at: number): StageError {
  const when = new Date(at);
  // A number that is no date is in a token nonetheless when one of our keys leaked.
  const since = Number.isNaN(when.getTime()) ? '' : ` on ${when.toISOString()}`;
  return new StageError(
    'credential_expired',
    `The session token expired${since}. The program you use renews it by itself; if it does not, sign in again.`,
  );
}

function ended(): StageError {
  return new StageError(
    'credential_revoked',
    'This session was ended: somebody signed out, or the access was withdrawn. Sign in again.',
  );
}

function notAllowed({ email }: Person): StageError {
  return new StageError(
    'credential_revoked',
    `The gateway's configuration does not let ${email} in any more: auth.oidc allows other groups or e-mail domains. Ask your administrator.`,
  );
}

interface SessionClaims {
  readonly session_id: string;
  /** Its groups are those of `told`, none where that is absent. */
  readonly person: Person;
  /** Absent where they would make the token too long: they are kept with the session. */
  readonly told: ToldGroups | undefined;
  /** Milliseconds since the epoch; so is `expires_at`. */
  readonly issued_at: number;
  readonly expires_at: number;
}

function principalIdOf({ email }: Pick<Person, 'email'>): string {
  return `user:${email}`;
}

/** Groups that a session token carries. */
interface ToldGroups {
  readonly groups: readonly string[];
  /** The `id` of the deciding groups they were picked by. */
  readonly of: string;
}

/** The claims of a session token that are about a session and its person (RFC 7519 section 4). */
function writeClaims(
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
function readClaims(claims: JWTPayload): SessionClaims | undefined {
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
