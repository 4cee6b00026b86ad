import { randomBytes } from 'node:crypto';
import type { OidcConfig } from '../../../contract/config.ts';
import type { Log } from '../../../contract/services.ts';
import { StartError } from '../../../contract/start-error.ts';
import { otherMethod, secretMethod } from '../../../identity/provider/client-authentication.ts';
import { type IdentityProvider, ProviderError, type SignInAttempt } from '../../../identity/provider/provider.ts';
import { OpenIdProvider } from '../../../identity/provider/provider-client.ts';
import { systemClock } from '../../../kit/clock.ts';
import { wayTo } from '../../../kit/net/way.ts';
import { secretIn, secretPlace } from '../../../kit/secret-names.ts';
import type { LiveOutcome } from './live-check.ts';
import type { ProbeAnswer } from './probe.ts';

/** What the client check is told. */
export interface ClientCheck {
  readonly oidc: OidcConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly redirect_uri: string;
  /** Its discovery document. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly timeout_seconds: number;
  /** Asks for a page without following redirects. Rejects when there is no answer. */
  readonly look: (url: string) => Promise<ProbeAnswer>;
}

/** What became of a code that can't be good. */
type Redeemed = 'client accepted' | 'client refused' | { readonly unclear: string };

/** What became of a browser that may not sign anybody in. */
type Sent =
  | 'sent back'
  | 'refused'
  | 'refused the client'
  | 'refused the redirect URI'
  | 'unclear'
  | { readonly says: string };

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Whether the provider takes the client id, its secret or key and the redirect URI. It is asked as in a sign-in: a browser that
 * may not show anything (`prompt=none`) and a code that can't be good. Nobody is signed in, and no secret is in what it says.
 */
export async function checkClient(check: ClientCheck): Promise<LiveOutcome> {
  const { oidc, env } = check;
  const variable = oidc.client_secret_env ?? oidc.private_key_env ?? '';
  const proof = `the ${oidc.client_secret_env === undefined ? 'private key' : 'secret'} in ${secretPlace(variable)}`;
  // That it is missing is said elsewhere.
  if (!secretIn(variable, env)) return { ok: true, what: '' };
  let redeemed: Redeemed;
  try {
    redeemed = await redeem(check, oidc);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return { ok: false, what: error.message, help: `put another key into ${secretPlace(variable)}` };
  }
  if (redeemed === 'client accepted') return judgeRedirect(check, await send(check));
  if (typeof redeemed === 'object') {
    const note = `whether it takes the client id and ${proof} can't be told: ${redeemed.unclear}`;
    return { ok: true, what: '', notes: [note] };
  }
  const other = otherMethod(usedMethod(check));
  if (
    oidc.client_secret_env !== undefined &&
    (await redeem(check, { ...oidc, token_endpoint_auth_method: other })) === 'client accepted'
  ) {
    const where = other === 'client_secret_post' ? 'in the form' : 'in the Authorization header';
    return {
      ok: false,
      what: `it takes the secret only ${where}`,
      help: `set auth.oidc.token_endpoint_auth_method to ${other}`,
    };
  }
  return judgeRefusal(check, await send(check), proof);
}

function judgeRefusal({ oidc, redirect_uri }: ClientCheck, sent: Sent, proof: string): LiveOutcome {
  const { client_id } = oidc;
  if (sent === 'sent back' || typeof sent === 'object') {
    const help = 'copy it from the provider again; if it is right, allow the client the authorization code flow there';
    return { ok: false, what: `it knows the client ${client_id} and refuses ${proof}`, help };
  }
  if (sent === 'refused the redirect URI') {
    const help = `register ${redirect_uri} there, then copy ${proof.replace(/ in .*/, '')} again`;
    return { ok: false, what: `it knows the client ${client_id}, but neither ${proof} nor the redirect URI`, help };
  }
  if (sent === 'refused') {
    const help = `copy auth.oidc.client_id from the provider, to the letter, and register ${redirect_uri} there`;
    return { ok: false, what: `it refuses the client id ${client_id} or the redirect URI`, help };
  }
  if (sent === 'refused the client') {
    return {
      ok: false,
      what: `it does not know the client ${client_id}`,
      help: 'copy auth.oidc.client_id from the provider, to the letter',
    };
  }
  const help = 'copy auth.oidc.client_id and the secret or key from the provider again';
  return { ok: false, what: `it refuses the client id ${client_id} or ${proof}`, help };
}

function judgeRedirect({ redirect_uri }: ClientCheck, sent: Sent): LiveOutcome {
  if (typeof sent === 'object') {
    return {
      ok: false,
      what: `it sends browsers back with ${sent.says}`,
      help: 'compare auth.oidc.scopes and what the client may do there',
    };
  }
  if (sent === 'sent back') return { ok: true, what: 'takes the client id, its secret or key, and the redirect URI' };
  if (sent === 'unclear') {
    const notes = [`whether the redirect URI is registered can't be told: it must be ${redirect_uri}`];
    return { ok: true, what: 'takes the client id and its secret or key', notes };
  }
  return {
    ok: false,
    what: 'it takes the client, but not the redirect URI',
    help: `register ${redirect_uri} there, to the letter`,
  };
}

function providerOf({ env, redirect_uri }: ClientCheck, oidc: OidcConfig, timeout_seconds: number): IdentityProvider {
  const secret = (name: string) => secretIn(name, env) ?? '';
  return new OpenIdProvider({
    oidc: { ...oidc, timeout_seconds },
    secret,
    redirect_uri,
    log: SILENT,
    clock: systemClock,
    wayTo: (url) => wayTo(url, env),
  });
}

function attempt(): SignInAttempt {
  const random = () => randomBytes(32).toString('base64url');
  return { state: random(), nonce: random(), code_verifier: random() };
}

async function redeem(check: ClientCheck, oidc: OidcConfig): Promise<Redeemed> {
  const made_up = attempt();
  const callback = new URL(check.redirect_uri);
  callback.searchParams.set('code', made_up.nonce);
  callback.searchParams.set('state', made_up.state);
  // A provider that names itself in the answer is believed only if it did (RFC 9207).
  callback.searchParams.set('iss', String(check.document.issuer));
  try {
    await providerOf(check, oidc, check.timeout_seconds).identify(callback, made_up);
    return { unclear: 'it took a code that was made up' };
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    switch (error.error) {
      case 'invalid_grant':
      // Of providers that have words of their own, such as Glewlwyd.
      case 'invalid_code':
        return 'client accepted';
      case 'invalid_client':
        return 'client refused';
      // Keycloak says it of a wrong secret, others of all three: only the browser tells.
      case 'unauthorized_client':
        return 'client refused';
      default:
        // Dex says invalid_request of a code, and does so only once it knows the client.
        if (error.error === 'invalid_request' && /expired code/i.test(error.message)) return 'client accepted';
        return /does not accept the client/.test(error.message) ? 'client refused' : { unclear: error.message };
    }
  }
}

async function send(check: ClientCheck): Promise<Sent> {
  let answer: ProbeAnswer;
  try {
    const url = await providerOf(check, check.oidc, check.timeout_seconds).authorizationUrl(attempt());
    url.searchParams.set('prompt', 'none');
    answer = await check.look(url.href);
  } catch {
    return 'unclear';
  }
  const { location } = answer.headers;
  if (answer.status >= 300 && answer.status < 400 && location?.startsWith(check.redirect_uri)) {
    const error = new URL(location).searchParams.get('error') ?? '';
    return OPERATORS.has(error) ? { says: error } : 'sent back';
  }
  if (answer.status < 400 || answer.status > 499) return 'unclear';
  // The page is for people: its words are a help where they are plain, and no more.
  if (/redirect[ _-]?ur[il]/i.test(answer.body)) return 'refused the redirect URI';
  return /client/i.test(answer.body) ? 'refused the client' : 'refused';
}

/** Errors that say that the request itself is wrong, and not that nobody is signed in. */
const OPERATORS: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_response_type',
]);

function usedMethod({ oidc, document }: ClientCheck) {
  return secretMethod(oidc.token_endpoint_auth_method, document.token_endpoint_auth_methods_supported);
}
