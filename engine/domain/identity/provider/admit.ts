import type { AuthConfig, NamedGroups, OidcConfig } from '../../../base/contract/config.ts';
import {
  type AdmissionProblem,
  type GroupMisses,
  groupMisses,
  hasClaim,
  readEmail,
  readGroups,
  readName,
  readText,
  Unusable,
  VERIFIED,
} from './claims.ts';
import type { Claims } from './provider.ts';
import { type SignInScopes, scopeGaps } from './scopes.ts';

/** An admitted person, as the identity provider describes them. Serializable as JSON. */
export interface Person {
  readonly issuer: string;
  /** The provider's permanent identifier of the account. */
  readonly subject: string;
  readonly email: string;
  readonly name?: string;
  readonly groups: readonly string[];
  readonly team?: string;
  readonly project?: string;
}

/** Admission decision. `message` is for the person, `detail` for the log; neither contains a secret. */
export type Admission =
  | { readonly person: Person }
  | {
      readonly refused: AdmissionProblem;
      readonly message: string;
      readonly detail: string;
      /** For a person in none of the admitted groups. */
      readonly misses?: GroupMisses;
    };

type Refusal = Exclude<Admission, { person: Person }>;

export type AdmissionConfig = Pick<AuthConfig, 'teams' | 'projects'> & { readonly oidc: OidcConfig };

/** Decides whether a verified person may use the gateway, and as whom; a rejection names a missing scope. */
export function admit(claims: Claims, auth: AdmissionConfig, scopes?: SignInScopes): Admission {
  const { oidc } = auth;
  const gapOf = (claim: string) => {
    if (scopes === undefined || hasClaim(claims, claim)) return '';
    const gap = scopeGaps(oidc, scopes).find(({ claims: about }) => about.includes(claim));
    return gap === undefined ? '' : `; the provider ${gap.hint}`;
  };
  try {
    const issuer = readText(claims, 'iss', 'the issuer');
    const subject = readText(claims, 'sub', 'the subject');
    if (issuer === undefined || subject === undefined) {
      throw new Unusable(`the claim ${issuer === undefined ? 'iss' : 'sub'} is missing`);
    }
    const email = readEmail(claims, oidc.email_claim);
    if (email === undefined) return noEmail(oidc, gapOf(oidc.email_claim));
    const unverified = verification(claims, email, oidc, gapOf(VERIFIED));
    if (unverified !== undefined) return unverified;
    const groups = readGroups(claims, oidc);
    const name = readName(claims);
    const team = assigned(claims, oidc.team_claim, 'auth.oidc.team_claim', groups, auth.teams);
    const project = assigned(claims, oidc.project_claim, 'auth.oidc.project_claim', groups, auth.projects);
    const person = {
      issuer,
      subject,
      email,
      groups,
      ...(name !== undefined && { name }),
      ...(team !== undefined && { team }),
      ...(project !== undefined && { project }),
    };
    const decided = mayStay(person, auth);
    return 'refused' in decided && decided.refused === 'group'
      ? withMisses(decided, claims, oidc, gapOf(oidc.groups_claim))
      : decided;
  } catch (error) {
    if (!(error instanceof Unusable)) throw error;
    return { refused: error.problem, message: error.message, detail: error.detail };
  }
}

/** Whether the configured identity provider verified a person, not a former one. */
export function isVerified(
  { issuer }: Pick<Person, 'issuer'>,
  { issuer_url }: Pick<OidcConfig, 'issuer_url'>,
): boolean {
  return new URL(issuer).href.replace(/\/+$/, '') === new URL(issuer_url).href.replace(/\/+$/, '');
}

export function mayStay(person: Person, { oidc }: { readonly oidc: OidcConfig }): Admission {
  return domainRefusal(person, oidc) ?? groupRefusal(person, oidc) ?? { person };
}

function domainRefusal({ email }: Person, { allowed_email_domains }: OidcConfig): Refusal | undefined {
  if (allowed_email_domains === undefined) return undefined;
  const domain = email.slice(email.lastIndexOf('@') + 1);
  if (allowed_email_domains.some((allowed) => allowed.toLowerCase() === domain)) return undefined;
  return {
    refused: 'email_domain',
    message: `You are signed in as ${email}, and addresses at ${domain} may not use this gateway. Sign in with another account, or ask your administrator.`,
    detail: `${email} is not in a domain of auth.oidc.allowed_email_domains`,
  };
}

function groupRefusal({ email, groups }: Person, { allowed_groups, keep_groups }: OidcConfig): Refusal | undefined {
  if (allowed_groups === undefined || allowed_groups.some((allowed) => groups.includes(allowed))) return undefined;
  const kept = keep_groups === undefined ? '' : ', after auth.oidc.keep_groups';
  return {
    refused: 'group',
    message: `You are signed in as ${email}, who is in none of the groups that may use this gateway. Ask your administrator to add you to one, then sign in again.`,
    detail: `${email} is in none of auth.oidc.allowed_groups; the identity provider lists ${groups.length === 0 ? 'no groups' : groups.length === 1 ? 'one group' : `${groups.length} groups`}${kept}`,
  };
}

function withMisses(refusal: Refusal, claims: Claims, oidc: OidcConfig, gap: string): Refusal {
  const misses = groupMisses(claims, oidc);
  const hints = misses.hints.map((hint) => `; ${hint}`).join('');
  return { ...refusal, detail: `${refusal.detail}${gap}${hints}`, misses };
}

function noEmail({ email_claim }: OidcConfig, gap: string): Refusal {
  return {
    refused: 'email_missing',
    message:
      'The identity provider did not send your e-mail address, which this gateway requires. Add one to your account there, or ask your administrator.',
    detail: `neither the ID token nor the userinfo endpoint has the claim ${email_claim} (auth.oidc.email_claim); let the identity provider send it${gap}`,
  };
}

/** Rejects an unverified address: it identifies the person. */
function verification(claims: Claims, email: string, oidc: OidcConfig, gap: string): Refusal | undefined {
  // allowed_email_domains decides which domains are trusted nonetheless.
  if (oidc.email_verification === 'ignored') return undefined;
  const stated = statementAbout(email, claims);
  if (stated === undefined ? oidc.email_verification === 'if_stated' : stated === true || stated === 'true') {
    return undefined;
  }
  const missing =
    'is missing from the ID token and the userinfo endpoint, or about another address; let the identity provider send it, or, if only administrators set addresses there, set auth.oidc.email_verification to if_stated';
  const refused =
    'is not true; if the identity provider sends this for everybody, and only administrators set addresses there, set auth.oidc.email_verification to ignored, with allowed_email_domains';
  const wrong = stated === undefined ? missing : refused;
  return {
    refused: 'email_unverified',
    message: `The identity provider has not verified your e-mail address ${email}. Verify it there, or ask your administrator, then sign in again.`,
    detail: `the claim email_verified of ${email} ${wrong}${gap}`,
  };
}

/** Whether the provider verified the address; `undefined` if unstated. It applies to the claim `email` only (OpenID Connect Core section 5.1). */
function statementAbout(email: string, claims: Claims): unknown {
  const stated = Object.hasOwn(claims, 'email_verified') ? (claims.email_verified ?? undefined) : undefined;
  const is_about_it = typeof claims.email === 'string' && claims.email.toLowerCase() === email;
  return is_about_it || (stated !== true && stated !== 'true') ? stated : undefined;
}

function assigned(
  claims: Claims,
  claim: string | undefined,
  key: string,
  groups: readonly string[],
  by_groups: readonly NamedGroups[],
): string | undefined {
  const claimed = claim === undefined ? undefined : readText(claims, claim, key);
  return claimed ?? by_groups.find((entry) => entry.groups.some((group) => groups.includes(group)))?.name;
}
