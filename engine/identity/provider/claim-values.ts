import type { OidcConfig } from '../../contract/config.ts';
import { compileGlob } from '../../kit/glob.ts';
import { isWithheld, lookUpClaim } from './claims.ts';
import type { Claims } from './provider.ts';

/** Why somebody the identity provider knows may not use the gateway. */
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
/** Session and person keep them all; a session token carries those that decide something. */
const MAX_GROUPS = 2000;
const MAX_GROUPS_BYTES = 131_072;

/** Control characters, halves of surrogate pairs (PostgreSQL takes neither) and characters that turn the direction of text. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;
const UNPRINTABLE_ALL = new RegExp(UNPRINTABLE, 'gu');
const UNSEEN = /\p{Default_Ignorable_Code_Point}/u;
/** What an address may hold without quotes (RFC 5321 section 4.1.2), with characters beyond ASCII that can be seen before the @. */
const EMAIL = /^[^\p{C}\p{Z}"(),:;<>@[\\\]]+@[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/u;

/** Claims the gateway can't use. The message is for the person, `detail` for the log. */
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
  'The identity provider describes you in a way this gateway cannot read. Ask your administrator to look at its log.';
const TOO_MANY =
  'You are in more groups than this gateway can keep. Ask your administrator to let it keep only those that matter.';

/** A claim that is one short line of text; `undefined` when it is missing or empty. Raises Unusable. */
export function readText(claims: Claims, claim: string, key: string): string | undefined {
  const value = lookUpClaim(claims, claim) ?? '';
  if (value === '') return undefined;
  if (typeof value !== 'string') {
    const hint = Array.isArray(value) ? `; for its first element name ${pointerTo(claim, ['0'])}` : '';
    throw new Unusable(`the claim ${claim} (${key}) must be a text, not ${kindOf(value)}${hint}`);
  }
  if (value.length > MAX_TEXT) throw new Unusable(`the claim ${claim} (${key}) is longer than ${MAX_TEXT} characters`);
  if (UNPRINTABLE.test(value)) throw new Unusable(`the claim ${claim} (${key}) holds control characters`);
  return value;
}

/** The e-mail address in lower case; `undefined` when there is none. Raises Unusable. */
export function readEmail(claims: Claims, claim: string): string | undefined {
  const value = readText(claims, claim, 'auth.oidc.email_claim');
  if (value === undefined) return undefined;
  const email = value.toLowerCase();
  if (email.length > MAX_EMAIL || !EMAIL.test(email) || becomesAscii(value) || !isPlain(email)) {
    const spelling =
      '; its domain must be in ASCII (xn--...), what is before it in lower case and in the plain form of each character (NFKC)';
    const hint = /^[ -~]*$/.test(value) ? '' : spelling;
    throw new Unusable(`the claim ${claim} (auth.oidc.email_claim) is not an e-mail address${hint}`);
  }
  return email;
}

/**
 * Whether a text is in the one spelling, of several that look the same, that all programs agree on (Unicode form NFKC), and
 * holds nothing that is not seen.
 */
function isPlain(text: string): boolean {
  return text.normalize('NFKC') === text && !UNSEEN.test(text);
}

/** Whether lower case makes a letter of ASCII out of another, such as the Kelvin sign: the address of somebody else. */
function becomesAscii(text: string): boolean {
  return [...text].some((char) => char > '\x7f' && /[a-z]/.test(char.toLowerCase()));
}

/** The groups that are kept, each once, as the provider spells them. Raises Unusable. */
export function readGroups(claims: Claims, { groups_claim, keep_groups }: OidcConfig): readonly string[] {
  const where = `the claim ${groups_claim} (auth.oidc.groups_claim)`;
  if (isWithheld(claims, groups_claim)) {
    const detail = `the identity provider keeps back ${where}, because it lists too many groups; let it send only those that matter to the gateway`;
    throw new Unusable(detail, 'too_many_groups', TOO_MANY);
  }
  const value = lookUpClaim(claims, groups_claim);
  const listed = groupNames(value);
  if (listed === undefined) {
    const found = Array.isArray(value) ? 'a list with something else in it' : kindOf(value);
    const inner = listsIn(value).map((steps) => `; for one of the lists in it name ${pointerTo(groups_claim, steps)}`);
    throw new Unusable(
      `${where} must be a list of texts, or an object whose keys are roles, not ${found}${inner[0] ?? ''}`,
    );
  }
  const kept = keep_groups?.map(compileGlob);
  const groups = [...new Set(listed)].filter((group) => group !== '' && (kept?.some((fits) => fits(group)) ?? true));
  if (groups.some((group) => UNPRINTABLE.test(group))) throw new Unusable(`${where} holds control characters`);
  const bytes = groups.reduce((sum, group) => sum + Buffer.byteLength(group), 0);
  if (groups.length > MAX_GROUPS || bytes > MAX_GROUPS_BYTES) {
    const detail = `${where} lists ${groups.length} groups of ${bytes} bytes, more than ${MAX_GROUPS} or ${MAX_GROUPS_BYTES} bytes; name in auth.oidc.keep_groups those that matter`;
    throw new Unusable(detail, 'too_many_groups', TOO_MANY);
  }
  return groups;
}

/**
 * The names in a claim with groups or roles: a text, which is one name, a list of texts, or an object whose keys are roles,
 * alone or in a list, as ZITADEL sends it. `undefined` for any other shape, which is not guessed at.
 */
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

/** The keys of an object that says of each role who grants it; nobody does where it says null. Lists in it have their roles there. */
function rolesIn(value: unknown): readonly string[] | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  if (!entries.every(([, granted]) => typeof granted === 'object') || listsIn(value).length > 0) return undefined;
  return entries.filter(([, granted]) => granted !== null).map(([role]) => role);
}

/** Where lists are in an object, and in the objects in it. */
function listsIn(value: unknown, depth = 2): (readonly string[])[] {
  if (Array.isArray(value)) return [[]];
  if (typeof value !== 'object' || value === null || depth === 0) return [];
  return Object.entries(value).flatMap(([key, inner]) => listsIn(inner, depth - 1).map((steps) => [key, ...steps]));
}

/** The name to show, shortened and without control characters; `undefined` when there is none worth showing. */
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

/** A JSON pointer that leads on from a claim, which is named by a pointer or its name. Keys are whatever the provider sends. */
function pointerTo(claim: string, keys: readonly string[]): string {
  const step = (key: string) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const printable = keys.map((key) => key.slice(0, MAX_TEXT).replace(UNPRINTABLE_ALL, '?'));
  return `${claim.startsWith('/') ? claim : step(claim)}${printable.map(step).join('')}`;
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'an object';
  return `a ${typeof value}`;
}
