import { ProviderError } from '../../../identity/provider/provider.ts';
import { endTokensTheyLost } from '../../../identity/tokens/self-made-tokens.ts';
import { isUnavailable } from '../../../store/store-errors.ts';
import type { ConsoleAttempt } from '../attempt.ts';
import { identify } from '../callback.ts';
import { signInCookies } from '../cookie.ts';
import { errorPage } from '../pages/pages.ts';
import { providerTrouble } from '../provider-trouble.ts';
import { type Entrance, refuseAddress, refusePerson } from '../refusals.ts';
import { type Answer, logged, type SignIn, type Visit } from '../routes.ts';
import { signInAgain } from './begin.ts';
import { browserName } from './browser-name.ts';
import { sessionCookie } from './session-cookie.ts';

/**
 * The end of a sign-in to the console, in the browser that began it. The session is a new one whatever cookie the browser
 * brings, and the one it had ends.
 */
export async function comeBackToConsole(sign_in: SignIn, visit: Visit, attempt: ConsoleAttempt): Promise<Answer> {
  const { issuer } = sign_in;
  const over = signInCookies(issuer).clear(attempt.state);
  const answer = await finish(sign_in, visit, attempt).catch((error): Answer => {
    if (!isUnavailable(error)) throw error;
    const page = errorPage({
      title: 'Not available at the moment',
      sentence: error.message,
      advice: 'Wait a moment, then try again.',
      again: signInAgain(sign_in, attempt.to),
      reference: visit.reference,
    });
    const told = { outcome: 'failed', error_type: 'store_unavailable' } as const;
    return { status: 503, page, headers: { 'retry-after': '1' }, told };
  });
  const { 'set-cookie': set = [] } = answer.headers ?? {};
  return { ...answer, headers: { ...answer.headers, 'set-cookie': [over, ...[set].flat()] } };
}

async function finish(sign_in: SignIn, visit: Visit, attempt: ConsoleAttempt): Promise<Answer> {
  const { identity, issuer, log } = sign_in;
  const { to } = attempt;
  const entrance = consoleEntrance(sign_in, visit, to);
  const identified = await identify(sign_in, visit, attempt);
  if (identified instanceof ProviderError) {
    if (identified.problem !== 'refused') return providerTrouble(sign_in, visit, signInAgain(sign_in, to), identified);
    log.info({ reason: identified.message, ...logged(visit) }, 'the identity provider refused a sign-in');
    const message = 'You cancelled signing in, or your identity provider does not let you use the gateway.';
    return entrance.refuse({ message, reason: 'provider_refused' });
  }
  const { claims, grant, scopes } = identified;
  const admission = identity.admit(claims, scopes);
  if ('refused' in admission) return refusePerson(sign_in, visit, entrance, { claims, admission });
  const { person } = admission;
  const sealed_grant = await identity.tokens.seal(grant, 'provider-grant');
  const { client, client_address } = entrance;
  const opened = await identity.console_sessions.open({ person, sealed_grant, client, client_address });
  if (opened === undefined) {
    const problem = (await identity.claimProblem(person)) ?? 'other_account';
    return refuseAddress(sign_in, visit, entrance, { person, problem });
  }
  await endTokensTheyLost(sign_in, person);
  await endFormer(sign_in, visit);
  log.info(
    { email: person.email, session: opened.id, client, client_address, ...logged(visit) },
    'a session of the console began',
  );
  const headers = { 'set-cookie': sessionCookie(issuer).keep(opened.cookie) };
  return { status: 303, location: `${issuer}${to}`, headers, told: { outcome: 'approved' } };
}

/** The session that the browser had until now: it forgets the cookie of that. */
async function endFormer({ identity, issuer }: SignIn, { req }: Visit): Promise<void> {
  const cookie = sessionCookie(issuer).read(req.headers);
  if (cookie === undefined || !identity.tokens.marks.fit(cookie)) return;
  const former = await identity.console_sessions.find(cookie);
  if (former?.person !== undefined) await identity.sessions.end(former.person.session_id, 'signed in anew', 'person');
}

function consoleEntrance({ issuer, addressOf }: SignIn, { req, reference }: Visit, to: string): Entrance {
  return {
    client: browserName(req.headers['user-agent']),
    client_address: addressOf(req),
    async refuse({ message, advice = 'To try again, sign in again.', reason }) {
      const again = signInAgain({ issuer }, to, true);
      const page = errorPage({ title: 'Access denied', sentence: message, advice, again, reference });
      return { status: 403, page, told: { outcome: 'refused', error_type: reason } };
    },
  };
}
