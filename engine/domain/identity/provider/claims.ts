import type { OidcConfig } from '../../../base/contract/config.ts';
import { compileGlob } from '../../../base/kit/glob.ts';
import { almost } from '../../../base/kit/text/suggest.ts';
import { pointerToken, pointerTokens } from '../../../base/source/node.ts';
import type { Claims } from './provider.ts';

/** The value of a claim by its name or, after a slash, by a JSON pointer (RFC 6901); `undefined` without one. */
export function lookUpClaim(claims: Claims, name_or_pointer: string): unknown {
  let value: unknown = claims;
  for (const step of stepsOf(name_or_pointer)) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (Array.isArray(value) && !/^(?:0|[1-9]\d*)$/.test(step)) return undefined;
    if (!Object.hasOwn(value, step)) return undefined;
    value = (value as Record<string, unknown>)[step];
  }
  return value;
}

export function claimRoot(name_or_pointer: string): string {
  return stepsOf(name_or_pointer)[0] ?? '';
}

/** Whether the provider refers to a claim without sending it, as some do for long lists (OpenID Connect Core section 5.6.2). */
function isWithheld(claims: Claims, name_or_pointer: string): boolean {
  const elsewhere = claims._claim_names;
  if (typeof elsewhere !== 'object' || elsewhere === null) return false;
  return Object.hasOwn(elsewhere, claimRoot(name_or_pointer)) && lookUpClaim(claims, name_or_pointer) === undefined;
}

function stepsOf(name_or_pointer: string): readonly string[] {
  return name_or_pointer.startsWith('/') ? pointerTokens(name_or_pointer) : [name_or_pointer];
}

/** Completes the `lacking` claims of an ID token by those of userinfo; `email_verified` comes only with its address. */
export function completeClaims(id_token: Claims, userinfo: Claims, lacking: readonly string[], email: string): Claims {
  const roots = lacking.map(claimRoot).filter((root) => Object.hasOwn(userinfo, root));
  const supplied = Object.fromEntries(roots.map((root) => [root, userinfo[root]]));
  const { email_verified: _, ...claims } = { ...userinfo, ...id_token, ...supplied };
  const address = lookUpClaim(claims, email);
  const says = [id_token, userinfo].find(
    (each) => lookUpClaim(each, email) === address && Object.hasOwn(each, 'email_verified'),
  );
  return says === undefined ? claims : { ...claims, email_verified: says.email_verified };
}

/** Requested everywhere: a `false` counts even where the claim is optional. */
export const VERIFIED = 'email_verified';

export function wantedClaims(oidc: OidcConfig): readonly string[] {
  const { email_claim, groups_claim, team_claim, project_claim, email_verification } = oidc;
  const verified = email_verification === 'required' ? VERIFIED : undefined;
  return [email_claim, groups_claim, team_claim, project_claim, verified].filter((claim) => claim !== undefined);
}

export function hasClaim(claims: Claims, claim: string): boolean {
  return (lookUpClaim(claims, claim) ?? undefined) !== undefined;
}

export type AdmissionProblem =
  | 'email_missing'
  | 'email_unverified'
  | 'email_domain'
  | 'group'
  | 'claims_unusable'
  | 'too_many_groups';

const MAX_EMAIL = 254;
const MAX_NAME = 200;
const MAX_TEXT = 255;
/** Bounds of the groups of a person; a session token carries only those that the configuration reads. */
const MAX_GROUPS = 2000;
const MAX_GROUPS_BYTES = 131_072;

/** Control characters, halves of surrogate pairs (PostgreSQL takes neither) and characters that turn the direction of text. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;
const UNPRINTABLE_ALL = new RegExp(UNPRINTABLE, 'gu');
const UNSEEN = /\p{Default_Ignorable_Code_Point}/u;
/** An unquoted address (RFC 5321 section 4.1.2), with visible characters beyond ASCII before the @. */
const EMAIL = /^[^\p{C}\p{Z}"(),:;<>@[\\\]]+@[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/u;

/** Unusable claims. The message is for the person, `detail` for the log. */
export class Unusable extends Error {
  readonly problem: AdmissionProblem;
  readonly detail: string;

  constructor(detail: string, problem: AdmissionProblem = 'claims_unusable', message = UNUSABLE) {
    super(message);
    this.name = 'Unusable';
    this.problem = problem;
    this.detail = detail;
  }
}

const UNUSABLE =
  'The gateway cannot read your account data from the identity provider. Ask your administrator to check the log of the gateway.';
const TOO_MANY =
  'You are in more groups than this gateway can store. Ask your administrator to select the relevant ones in gateway.yaml.';

/** A claim that is a string of one short line; `undefined` when it is missing or empty. Raises Unusable. */
export function readText(claims: Claims, claim: string, key: string): string | undefined {
  const value = lookUpClaim(claims, claim) ?? '';
  if (value === '') return undefined;
  if (typeof value !== 'string') {
    const hint = Array.isArray(value) ? `; for its first element name ${pointerTo(claim, ['0'])}` : '';
    throw new Unusable(`the claim ${claim} (${key}) must be a string, not ${kindOf(value)}${hint}`);
  }
  if (value.length > MAX_TEXT) throw new Unusable(`the claim ${claim} (${key}) is longer than ${MAX_TEXT} characters`);
  if (UNPRINTABLE.test(value)) throw new Unusable(`the claim ${claim} (${key}) contains control characters`);
  return value;
}

/** The e-mail address in lower case; `undefined` when there is none. Raises Unusable. */
export function readEmail(claims: Claims, claim: string): string | undefined {
  const value = readText(claims, claim, 'auth.oidc.email_claim');
  if (value === undefined) return undefined;
  const email = value.toLowerCase();
  if (email.length > MAX_EMAIL || !EMAIL.test(email) || becomesAscii(value) || !isPlain(email)) {
    const spelling =
      '; the domain must be in ASCII (xn--...), and the part before it in lower case and in Unicode form NFKC';
    const hint = /^[ -~]*$/.test(value) ? '' : spelling;
    throw new Unusable(`the claim ${claim} (auth.oidc.email_claim) is not an e-mail address${hint}`);
  }
  return email;
}

/** Others could look like another address. */
function isPlain(text: string): boolean {
  return text.normalize('NFKC') === text && !UNSEEN.test(text);
}

/** Whether lower case turns another character into ASCII, such as the Kelvin sign: that would be another address. */
function becomesAscii(text: string): boolean {
  return [...text].some((char) => char > '\x7f' && /[a-z]/.test(char.toLowerCase()));
}

/** The groups to keep, without repeats, in the provider's spelling. Raises Unusable. */
export function readGroups(claims: Claims, { groups_claim, keep_groups }: OidcConfig): readonly string[] {
  const where = `the claim ${groups_claim} (auth.oidc.groups_claim)`;
  if (isWithheld(claims, groups_claim)) {
    const detail = `the identity provider omits ${where}, because it has too many groups; configure it to send only the relevant ones`;
    throw new Unusable(detail, 'too_many_groups', TOO_MANY);
  }
  const value = lookUpClaim(claims, groups_claim);
  const listed = groupNames(value);
  if (listed === undefined) {
    const found = Array.isArray(value) ? 'a list with something else in it' : kindOf(value);
    const inner = listsIn(value).map((steps) => `; for one of the lists in it name ${pointerTo(groups_claim, steps)}`);
    throw new Unusable(
      `${where} must be a list of strings, or an object whose keys are roles, not ${found}${inner[0] ?? ''}`,
    );
  }
  const kept = keep_groups?.map(compileGlob);
  const groups = [...new Set(listed)].filter((group) => group !== '' && (kept?.some((fits) => fits(group)) ?? true));
  if (groups.some((group) => UNPRINTABLE.test(group))) throw new Unusable(`${where} contains control characters`);
  const bytes = groups.reduce((sum, group) => sum + Buffer.byteLength(group), 0);
  if (groups.length > MAX_GROUPS || bytes > MAX_GROUPS_BYTES) {
    const detail = `${where} lists ${groups.length} groups of ${bytes} bytes, more than ${MAX_GROUPS} or ${MAX_GROUPS_BYTES} bytes; list the relevant ones in auth.oidc.keep_groups`;
    throw new Unusable(detail, 'too_many_groups', TOO_MANY);
  }
  return groups;
}

/** A text (one name), a list of texts, or an object whose keys are roles, alone or in a list; else `undefined`. */
export function groupNames(value: unknown): readonly string[] | undefined {
  if (value === undefined || value === null) return [];
  if (typeof value === 'string') return [value];
  if (!Array.isArray(value)) return rolesIn(value);
  const names: string[] = [];
  for (const item of value) {
    const found = typeof item === 'string' ? [item] : rolesIn(item);
    if (found === undefined || found.length === 0) return undefined;
    names.push(...found);
  }
  return names;
}

function rolesIn(value: unknown): readonly string[] | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  if (!entries.every(([, granted]) => typeof granted === 'object') || listsIn(value).length > 0) return undefined;
  return entries.filter(([, granted]) => granted !== null).map(([role]) => role);
}

function listsIn(value: unknown, depth = 2): (readonly string[])[] {
  if (Array.isArray(value)) return [[]];
  if (typeof value !== 'object' || value === null || depth === 0) return [];
  return Object.entries(value).flatMap(([key, inner]) => listsIn(inner, depth - 1).map((steps) => [key, ...steps]));
}

/** The display name, shortened and without control characters; `undefined` without one. */
export function readName(claims: Claims): string | undefined {
  const value = lookUpClaim(claims, 'name');
  if (typeof value !== 'string') return undefined;
  const printable = value
    .slice(0, 4 * MAX_NAME)
    .replace(UNPRINTABLE_ALL, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  return [...printable].slice(0, MAX_NAME).join('').trim() || undefined;
}

/** A JSON pointer below a claim, which has a name or a pointer. Its keys come from the provider. */
function pointerTo(claim: string, keys: readonly string[]): string {
  const printable = keys.map((key) => key.slice(0, MAX_TEXT).replace(UNPRINTABLE_ALL, '?'));
  return `${claim.startsWith('/') ? claim : pointerToken(claim)}${printable.map(pointerToken).join('')}`;
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  return `a ${typeof value}`;
}

/** The groups of a rejected person, and possible reasons why none is admitted. */
export type GroupMisses = ReturnType<typeof groupMisses>;

const MAX_SHOWN = 20;
const MAX_HINTS = 3;
/** Bounds the comparison: the sign-in waits for it. */
const MAX_COMPARED = 200;
const MAX_EXPECTED = 50;
/** Of all groups together: a provider may send them as one text. */
const MAX_COMPARED_CHARS = 60_000;
const MAX_CHARS = 100;
/** Identifiers of groups: of Microsoft Entra ID, and numbers. */
const IDENTIFIER = /^(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d+)$/i;
const MAX_DEPTH = 4;

export function groupMisses(claims: Claims, oidc: OidcConfig) {
  const names = new Set(groupNames(lookUpClaim(claims, oidc.groups_claim)) ?? []);
  const listed = [...names].filter((name) => name !== '').slice(0, MAX_COMPARED);
  const allowed_groups = (oidc.allowed_groups ?? []).slice(0, MAX_EXPECTED);
  const most = MAX_COMPARED_CHARS / listed.length;
  const misses = listed.flatMap((group) =>
    allowed_groups.flatMap((expected) => {
      const rank = (group.length > most ? CHEAP : LIKENESSES).findIndex(([fits]) => fits(group, expected));
      const why = LIKENESSES[rank]?.[1];
      const hint = `${short(group)} came, and ${short(expected)} is expected: ${why}`;
      return why === undefined ? [] : [{ group, rank, hint }];
    }),
  );
  misses.sort((a, b) => a.rank - b.rank);
  const came = new Set([...misses.map(({ group }) => group), ...listed]);
  const hints = [...new Set(misses.map(({ hint }) => hint)), ...otherwise(claims, oidc, listed)];
  return {
    /** As the provider lists them, the most similar first. */
    came: [...came].slice(0, MAX_SHOWN).map(short),
    expected: allowed_groups.slice(0, MAX_SHOWN).map(short),
    /** Sentences for an administrator, the likeliest first. Of the claims they contain names of groups only. */
    hints: hints.slice(0, MAX_HINTS),
  };
}

type Likeness = readonly [fits: (group: string, expected: string) => boolean, why: string];

/** Found in groups of any length. */
const CHEAP: readonly Likeness[] = [
  [(group, expected) => group === expected, 'auth.oidc.keep_groups leaves it out; name it there'],
  [
    (group, expected) => lastOf(group) === lastOf(expected) && group.includes('/'),
    'the provider sends the full path; write it so in gateway.yaml, or let it send names alone (in Keycloak, switch "Full group path" off)',
  ],
  [
    (group, expected) => lastOf(group) === lastOf(expected),
    'the provider sends the name alone; write it so in gateway.yaml',
  ],
];
/** How a group resembles an expected one, the most similar first. */
const LIKENESSES: readonly Likeness[] = [
  ...CHEAP,
  [
    (group, expected) => plain(group) === plain(expected),
    'names must match to the letter, with capitals, spaces and dashes',
  ],
  [
    (group, expected) =>
      group
        .toLowerCase()
        .split(/[\s/,;=@:\\[\]"]+/)
        .includes(lastOf(expected).toLowerCase()),
    'the provider writes more around the name; write all of it in gateway.yaml, or let it send a list of names',
  ],
  [
    (group, expected) =>
      expected.length <= MAX_CHARS &&
      Math.abs(group.length - expected.length) <= 2 &&
      almost(group, [expected]) !== undefined,
    'is one of them mistyped?',
  ],
];

function otherwise(
  claims: Claims,
  { groups_claim, allowed_groups = [] }: OidcConfig,
  listed: readonly string[],
): string[] {
  const hints = pointersTo(claims, new Set(allowed_groups))
    .filter((pointer) => pointer !== groups_claim && pointer !== `/${groups_claim}`)
    .map((pointer) => {
      const remedy = `if that is where groups are, set auth.oidc.groups_claim to ${short(pointer)}`;
      return `the claim ${short(pointer)} lists one that is expected: ${remedy}`;
    });
  const isIdentifier = (group: string) => IDENTIFIER.test(group);
  if (listed.length === 0 && hints.length === 0) {
    const names = Object.keys(claims).slice(0, MAX_SHOWN).map(short).join(', ');
    hints.push(
      `no group came in the claim ${short(groups_claim)} (auth.oidc.groups_claim): the account is in none, or the provider does not send them; the claims that came are ${names}`,
    );
  } else if (listed.length > 0 && listed.every(isIdentifier) && !allowed_groups.some(isIdentifier)) {
    hints.push(
      'the provider sends identifiers of groups, and gateway.yaml has names: write the identifiers, or let it send names',
    );
  }
  return hints;
}

/** JSON pointers of lists, and of objects by their keys (such as roles), that contain an admitted group. */
function pointersTo(value: unknown, wanted: ReadonlySet<string>, pointer = '', depth = 0): string[] {
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return [];
  if (Array.isArray(value)) return value.some((item) => wanted.has(item)) ? [pointer] : [];
  return Object.entries(value).flatMap(([key, inner]) =>
    pointersTo(inner, wanted, `${pointer}${pointerToken(key)}`, depth + 1),
  );
}

const lastOf = (group: string) => group.slice(group.lastIndexOf('/') + 1);
const plain = (group: string) => group.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '');
const short = (text: string) => (text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}...`);
