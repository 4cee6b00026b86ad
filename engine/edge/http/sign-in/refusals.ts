import type { IncomingHttpHeaders } from 'node:http';
import { printable } from '../../../base/kit/text/printable.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import type { Admission, Person } from '../../../domain/identity/provider/admit.ts';
import {
  type Claims,
  ProviderError,
  type ProviderGrant,
  type SignInAttempt,
} from '../../../domain/identity/provider/provider.ts';
import { noteRefusal } from '../../../domain/identity/provider/refused-sign-ins.ts';
import type { ClaimProblem } from '../../../domain/identity/sessions/bindings.ts';
import type { Device, PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';
import { notePerson } from '../request-identity.ts';
import { deniedPage, errorPage } from './pages.ts';
import { CALLBACK_PATH, DEVICE_PATH } from './paths.ts';
import { type Answer, logged, type SignIn, type Visit } from './routes.ts';

const CLIENT_CHARS = 80;
const ADDRESS_CHARS = 64;

/** A text from outside as it may stand in a log line or a table: printable, shortened. */
function shownText(text: string, max_chars: number): string {
  const clean = printable(text.slice(0, max_chars));
  return clean.length <= max_chars ? clean : clean.slice(0, max_chars);
}

/**
 * What a request says of the program that sent it: what it calls itself in the parameter `surface`, else the first product of
 * its user-agent header, which may be that of a library it uses. Anybody can say anything.
 */
export function deviceOf(headers: IncomingHttpHeaders, address: string, surface?: string): Device {
  const [product = ''] = (headers['user-agent'] ?? '').trim().split(/\s/, 1);
  // Node gives header bytes beyond ASCII as Latin-1, which is rarely what they were.
  const ascii = product.replace(/[^\x21-\x7e]/g, '?');
  const known = surface !== undefined && PROGRAM_NAME.test(surface) ? surface : undefined;
  return {
    client: shownText(known === undefined ? ascii : nameOf(known, ascii), CLIENT_CHARS),
    client_address: shownText(address, ADDRESS_CHARS),
    surface: known,
  };
}

/** A name such as `claude_code`. */
const PROGRAM_NAME = /^[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$/i;

/** The name as people write it, with the version where the user-agent header is about the same program. */
function nameOf(surface: string, product: string): string {
  const name = surface.replace(/(?:^|[_-])([a-z0-9])/gi, (_, letter: string) => ` ${letter.toUpperCase()}`).trim();
  const [agent = '', version] = product.split('/');
  const same = agent.toLowerCase().replaceAll('-', '_') === surface.toLowerCase().replaceAll('-', '_');
  return same && version ? `${name} ${version}` : name;
}

/** How a person goes on with a sign-in after trouble. */
export interface WayBack {
  readonly href: string;
  readonly label: string;
  /** A sentence about what waits; absent where nothing does. */
  readonly waiting?: string;
}

/** Back to a sign-in that still waits in a terminal. */
export function backTo({ issuer }: Pick<SignIn, 'issuer'>, { user_code }: PendingGrant): WayBack {
  const href = `${issuer}${DEVICE_PATH}?user_code=${encodeURIComponent(user_code)}`;
  return { href, label: 'Try again', waiting: 'The code in your terminal is still good.' };
}

/** Answers that the identity provider gave no usable answer, and logs why. The sign-in goes on waiting. */
export function providerTrouble(
  sign_in: Pick<SignIn, 'log'>,
  visit: Visit,
  again: WayBack,
  { problem, message }: ProviderError,
): Answer {
  // Only the message: what is behind it may quote an answer of the provider.
  const { reference } = visit;
  const fields = { reason: message, ...logged(visit) };
  if (problem === 'unavailable') {
    sign_in.log.warn(fields, 'the identity provider is not available: a sign-in has to wait');
    const page = errorPage({
      title: 'The identity provider does not answer',
      sentence: "Your company's sign-in is not available at the moment.",
      advice: waitAdvice(again),
      again,
      reference,
    });
    const told = { outcome: 'failed', error_type: 'provider_unavailable' } as const;
    return { status: 503, page, headers: { 'retry-after': '5' }, told };
  }
  sign_in.log.error(fields, 'the identity provider and the gateway do not understand each other: a sign-in failed');
  const page = errorPage({
    title: 'The identity provider gave no usable answer',
    sentence: "The gateway could not make sense of what your company's sign-in answered.",
    advice: 'Try again. If it happens again, tell your administrator; the log of the gateway says what is wrong.',
    again,
    reference,
  });
  return { status: 502, page, told: { outcome: 'failed', error_type: 'provider_invalid' } };
}

/** Answers that the store is away for a moment. Raises any other error. */
export function storeTrouble({ reference }: Visit, again: WayBack, error: unknown): Answer {
  if (!isUnavailable(error)) throw error;
  const page = errorPage({
    title: 'Not available at the moment',
    sentence: error.message,
    advice: waitAdvice(again),
    again,
    reference,
  });
  const told = { outcome: 'failed', error_type: 'store_unavailable' } as const;
  return { status: 503, page, headers: { 'retry-after': '1' }, told };
}

const waitAdvice = ({ waiting = '' }: WayBack) => `Wait a moment, then try again. ${waiting}`.trim();

const LOGGED_CHARS = 200;

/** A sign-in that somebody may be turned away from. */
export interface Entrance {
  /** What signs in, as people know it. */
  readonly client: string;
  readonly client_address: string;
  readonly again: WayBack;
  /** Ends the sign-in, and says so. */
  refuse(refusal: Refusal): Promise<Answer>;
}

interface Refusal {
  readonly message: string;
  readonly advice?: string;
  /** In one word, for telemetry. */
  readonly reason: string;
}

/** That of a device which shows a code: it ends in the terminal and in the browser, where somebody else may take it on. */
export function deviceEntrance(sign_in: SignIn, { reference }: Visit, grant: PendingGrant): Entrance {
  const { client, client_address, user_code } = grant;
  return {
    client,
    client_address,
    again: backTo(sign_in, grant),
    async refuse({ message, advice, reason }) {
      await sign_in.identity.device_grants.deny(grant.id, message);
      const page = deniedPage({ reason: message, advice, reference, user_code });
      return { status: 403, page, told: { outcome: 'refused', error_type: reason } };
    },
  };
}

/**
 * Who came back from the identity provider, where it names somebody whom the gateway admits; what the browser is answered where
 * not: only its no to the person ends the sign-in. The URL is made of the public one, whatever the request says its host is.
 */
export async function whoCame(
  sign_in: SignIn,
  visit: Visit,
  entrance: Entrance,
  attempt: SignInAttempt,
): Promise<Answer | { readonly person: Person; readonly grant: ProviderGrant }> {
  const { identity, issuer, log } = sign_in;
  const { req } = visit;
  const url = new URL(`${issuer}${CALLBACK_PATH}`);
  url.search = req.originalUrl.slice(req.originalUrl.indexOf('?'));
  const identified = await identity.provider.identify(url, attempt).catch((error: unknown) => {
    if (error instanceof ProviderError) return error;
    throw error;
  });
  if (identified instanceof ProviderError) {
    if (identified.problem !== 'refused') return providerTrouble(sign_in, visit, entrance.again, identified);
    const fields = { reason: identified.message, client: entrance.client, ...logged(visit) };
    log.info(fields, 'the identity provider refused a sign-in');
    const message = 'You cancelled signing in, or your identity provider does not let you use the gateway.';
    return entrance.refuse({ message, reason: 'provider_refused' });
  }
  const { claims, grant, scopes } = identified;
  const admission = identity.admit(claims, scopes);
  notePerson(req.res, claims);
  if ('refused' in admission) return refusePerson(sign_in, visit, entrance, { claims, admission });
  notePerson(req.res, admission.person);
  return { person: admission.person, grant };
}

/** Turns away somebody whom the configuration does not let in. */
async function refusePerson(
  sign_in: SignIn,
  visit: Visit,
  entrance: Entrance,
  given: { readonly claims: Claims; readonly admission: Exclude<Admission, { person: Person }> },
): Promise<Answer> {
  const { claims, admission } = given;
  const { refused, detail, message, misses } = admission;
  const textAt = (claim: string) => {
    const value = claims[claim];
    return typeof value === 'string' ? shownText(value, LOGGED_CHARS) : undefined;
  };
  const [email, subject, issuer] = [textAt('email'), textAt('sub'), textAt('iss')];
  const groups = misses?.came ?? [];
  const expected = misses?.expected ?? [];
  const { request_id } = visit.reference;
  const fields = { subject, email, client: entrance.client, refused, detail, groups, expected, ...logged(visit) };
  sign_in.log.info(fields, 'somebody who may not use the gateway tried to sign in');
  const who = { email: email ?? '', subject: subject ?? null, issuer: issuer ?? null };
  const { client, client_address } = entrance;
  await noteRefusal(sign_in, { ...who, client, client_address, request_id, refused, detail, groups, expected });
  return entrance.refuse({ message, reason: refused });
}

const CLAIM_REASON: Readonly<Record<ClaimProblem, (email: string) => string>> = {
  other_account: (email) =>
    `You are signed in as ${email}, and at this gateway that address belongs to another account of the identity provider.`,
  other_provider: (email) =>
    `You are signed in as ${email}, and at this gateway that address belongs to an account of the identity provider that was used before.`,
  administrator_made: (email) =>
    `You are signed in as ${email}, and administrators made access tokens for that address, which signing in does not take over.`,
};

/** An address goes to whom it is bound to, whoever claims it: nothing of theirs ends, and an administrator decides. */
export async function refuseAddress(
  sign_in: SignIn,
  visit: Visit,
  entrance: Entrance,
  { person, problem }: { readonly person: Person; readonly problem: ClaimProblem },
): Promise<Answer> {
  const { email, subject, issuer } = person;
  const detail = `the address is bound to another account, or to access tokens; "appscli users reassign" changes that`;
  const { request_id } = visit.reference;
  sign_in.log.warn(
    { email, subject, issuer, client: entrance.client, problem, ...logged(visit) },
    `a sign-in was refused: ${detail}`,
  );
  const noted = { email, subject, issuer, refused: problem, detail, groups: [], expected: [] };
  const { client, client_address } = entrance;
  await noteRefusal(sign_in, { ...noted, client, client_address, request_id });
  const advice = 'If the address is yours, ask your administrator to let your account have it, then sign in again.';
  return entrance.refuse({ message: CLAIM_REASON[problem](email), advice, reason: problem });
}
