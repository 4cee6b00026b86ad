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
import type { Device, PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';
import type { ClaimProblem } from '../../../domain/identity/sessions/people.ts';
import { notePerson } from '../request-identity.ts';
import { deniedPage } from './pages.ts';
import { PATHS } from './paths.ts';
import { type Answer, errorAnswer, logged, type SignIn, type Visit } from './routes.ts';

const CLIENT_CHARS = 80;
const ADDRESS_CHARS = 64;

/** Makes external text safe for log lines and tables: printable and truncated. */
function shownText(text: string, max_chars: number): string {
  const clean = printable(text.slice(0, max_chars));
  return clean.length <= max_chars ? clean : clean.slice(0, max_chars);
}

/**
 * The program that sent a request: its parameter `surface`, or the first product of its user-agent header, which may name a
 * library. Unverified.
 */
export function deviceOf(headers: IncomingHttpHeaders, address: string, surface?: string): Device {
  const [product = ''] = (headers['user-agent'] ?? '').trim().split(/\s/, 1);
  // Node decodes header bytes beyond ASCII as Latin-1, which is rarely their encoding.
  const ascii = product.replace(/[^\x21-\x7e]/g, '?');
  const known = surface !== undefined && PROGRAM_NAME.test(surface) ? surface : undefined;
  return {
    client: shownText(known === undefined ? ascii : nameOf(known, ascii), CLIENT_CHARS),
    client_address: shownText(address, ADDRESS_CHARS),
    surface: known,
  };
}

const PROGRAM_NAME = /^[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$/i;

function nameOf(surface: string, product: string): string {
  const name = surface.replace(/(?:^|[_-])([a-z0-9])/gi, (_, letter: string) => ` ${letter.toUpperCase()}`).trim();
  const [agent = '', version] = product.split('/');
  const same = agent.toLowerCase().replaceAll('-', '_') === surface.toLowerCase().replaceAll('-', '_');
  return same && version ? `${name} ${version}` : name;
}

export interface RetryLink {
  readonly href: string;
  readonly label: string;
  /** A sentence about a sign-in that is still pending; absent if none is. */
  readonly pending?: string;
}

/** Link back to a sign-in that is still pending in a terminal. */
export function backTo({ issuer }: Pick<SignIn, 'issuer'>, { user_code }: PendingGrant): RetryLink {
  const href = `${issuer}${PATHS.device}?user_code=${encodeURIComponent(user_code)}`;
  return { href, label: 'Try again', pending: 'The code in your terminal is still valid.' };
}

/** Error page for a failure of the identity provider; logs the reason. The sign-in stays pending. */
export function providerFailure(
  sign_in: Pick<SignIn, 'log'>,
  visit: Visit,
  again: RetryLink,
  { problem, message }: ProviderError,
): Answer {
  // Only the message: the cause may quote a response of the provider.
  const fields = { reason: message, ...logged(visit) };
  if (problem === 'unavailable') {
    sign_in.log.warn(fields, 'a sign-in is delayed: the identity provider is unavailable');
    const texts = {
      title: 'The identity provider is unavailable',
      sentence: "Your company's sign-in is not available at the moment.",
      advice: waitAdvice(again),
      again,
    };
    const answer = errorAnswer(visit, 503, texts, { outcome: 'failed', error_type: 'provider_unavailable' });
    return { ...answer, headers: { 'retry-after': '5' } };
  }
  sign_in.log.error(fields, 'a sign-in failed: invalid response from the identity provider');
  const texts = {
    title: 'Invalid response from the identity provider',
    sentence: "The gateway could not process the response of your company's sign-in.",
    advice: 'Try again. If it fails again, tell your administrator; the log of the gateway has the reason.',
    again,
  };
  return errorAnswer(visit, 502, texts, { outcome: 'failed', error_type: 'provider_invalid' });
}

/** Error page for an outage of the database. Raises any other error. */
export function storeFailure(visit: Visit, again: RetryLink, error: unknown): Answer {
  if (!isUnavailable(error)) throw error;
  const texts = { title: 'Not available at the moment', sentence: error.message, advice: waitAdvice(again), again };
  const answer = errorAnswer(visit, 503, texts, { outcome: 'failed', error_type: 'store_unavailable' });
  return { ...answer, headers: { 'retry-after': '1' } };
}

const waitAdvice = ({ pending = '' }: RetryLink) => `Wait a moment, then try again. ${pending}`.trim();

const LOGGED_CHARS = 200;

/** A sign-in in progress: of a device or of the console. */
export interface SignInFlow {
  readonly client: string;
  readonly client_address: string;
  readonly again: RetryLink;
  /** @param rejection its reason is the `error_type` in telemetry. */
  reject(rejection: { readonly message: string; readonly advice?: string; readonly reason: string }): Promise<Answer>;
}

/** Device sign-in: a rejection ends it in the terminal and in the browser, which offers to sign in with another account. */
export function deviceFlow(sign_in: SignIn, { reference }: Visit, grant: PendingGrant): SignInFlow {
  const { client, client_address, user_code } = grant;
  return {
    client,
    client_address,
    again: backTo(sign_in, grant),
    async reject({ message, advice, reason }) {
      await sign_in.identity.device_grants.deny(grant.id, message);
      const page = deniedPage({ reason: message, advice, reference, user_code });
      return { status: 403, page, result: { outcome: 'refused', error_type: reason } };
    },
  };
}

/**
 * Completes the authorization code flow: the admitted person, or an error page. Only a rejection ends the sign-in. Builds the
 * callback URL from the public URL, never from the Host header.
 */
export async function identifyPerson(
  sign_in: SignIn,
  visit: Visit,
  flow: SignInFlow,
  attempt: SignInAttempt,
): Promise<Answer | { readonly person: Person; readonly grant: ProviderGrant }> {
  const { identity, issuer, log } = sign_in;
  const { req } = visit;
  const url = new URL(`${issuer}${PATHS.callback}`);
  url.search = req.originalUrl.slice(req.originalUrl.indexOf('?'));
  const identified = await identity.provider.identify(url, attempt).catch((error: unknown) => {
    if (error instanceof ProviderError) return error;
    throw error;
  });
  if (identified instanceof ProviderError) {
    if (identified.problem !== 'refused') return providerFailure(sign_in, visit, flow.again, identified);
    const fields = { reason: identified.message, client: flow.client, ...logged(visit) };
    log.info(fields, 'the identity provider rejected a sign-in');
    const message = 'You cancelled the sign-in, or your identity provider denied access to the gateway.';
    return flow.reject({ message, reason: 'provider_refused' });
  }
  const { claims, grant, scopes } = identified;
  const admission = identity.admit(claims, scopes);
  notePerson(req.res, claims);
  if ('refused' in admission) return rejectPerson(sign_in, visit, flow, { claims, admission });
  notePerson(req.res, admission.person);
  return { person: admission.person, grant };
}

async function rejectPerson(
  sign_in: SignIn,
  visit: Visit,
  flow: SignInFlow,
  { claims, admission }: { readonly claims: Claims; readonly admission: Exclude<Admission, { person: Person }> },
): Promise<Answer> {
  const { refused, detail, message, misses } = admission;
  const textAt = (claim: string) => {
    const value = claims[claim];
    return typeof value === 'string' ? shownText(value, LOGGED_CHARS) : undefined;
  };
  const [email, subject, issuer] = [textAt('email'), textAt('sub'), textAt('iss')];
  const groups = misses?.came ?? [];
  const expected = misses?.expected ?? [];
  const { request_id } = visit.reference;
  const fields = { subject, email, client: flow.client, refused, detail, groups, expected, ...logged(visit) };
  sign_in.log.info(fields, 'a sign-in was rejected: the person is not admitted');
  const who = { email: email ?? '', subject: subject ?? null, issuer: issuer ?? null };
  const { client, client_address } = flow;
  await noteRefusal(sign_in, { ...who, client, client_address, request_id, refused, detail, groups, expected });
  return flow.reject({ message, reason: refused });
}

const CLAIM_REASON: Readonly<Record<ClaimProblem, string>> = {
  other_account: 'at this gateway another account of the identity provider owns that address.',
  other_provider: 'at this gateway an account of the previous identity provider owns that address.',
  administrator_made: 'administrators created access tokens for that address; a sign-in does not take them over.',
};

/** Rejects an account that claims the address of another account. Nothing of the owner ends; an administrator decides. */
export async function rejectAddress(
  sign_in: SignIn,
  visit: Visit,
  flow: SignInFlow,
  { person, problem }: { readonly person: Person; readonly problem: ClaimProblem },
): Promise<Answer> {
  const { email, subject, issuer } = person;
  const { client, client_address } = flow;
  const detail = `the address is bound to another account, or to access tokens; "appscli users reassign" changes that`;
  const fields = { email, subject, issuer, client, problem, ...logged(visit) };
  sign_in.log.warn(fields, `a sign-in was rejected: ${detail}`);
  const noted = { email, subject, issuer, refused: problem, detail, groups: [], expected: [] };
  await noteRefusal(sign_in, { ...noted, client, client_address, request_id: visit.reference.request_id });
  const advice = 'If the address is yours, ask your administrator to assign it to your account, then sign in again.';
  const message = `You are signed in as ${email}, but ${CLAIM_REASON[problem]}`;
  return flow.reject({ message, advice, reason: problem });
}
