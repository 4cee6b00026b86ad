import { spawn } from 'node:child_process';
import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { type DeviceCode, oauthError, readDeviceCode, readTokens, type Tokens, unexpected } from './answers.ts';
import { sameOrigin } from './base-url.ts';
import { type Ask, EXIT_REJECTED, type HttpAnswer, sentence, Unreachable } from './http.ts';

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';
/** Added to the interval on slow_down (RFC 8628 section 3.5). */
const SLOWER_SECONDS = 5;
const RETRY_AFTER_SECONDS_MAX = 60;
const SECOND_MS = 1000;

/** Requests a device code (RFC 8628 section 3.1). Raises StartError, Unreachable. */
export async function requestDeviceCode(
  ask: Ask,
  endpoints: Endpoints,
  base_url: string,
  signal?: AbortSignal,
): Promise<DeviceCode> {
  const answer = await ask('POST', endpoints.device_authorization, { form: { surface: 'appscli' }, signal });
  if (answer.status !== 200) throw unexpected('sign-in', answer);
  return readDeviceCode(answer, base_url);
}

/** State of a sign-in that waits for the person's approval in the browser. */
export interface Waiting {
  readonly ask: Ask;
  readonly clock: Clock;
  readonly token_endpoint: string;
  readonly code: DeviceCode;
  /** Aborts the wait; its reason is raised. */
  readonly signal: AbortSignal;
  /** Called each second with the code's remaining lifetime, and the problem of the last poll, if any. */
  onWait(left_seconds: number, problem: string | undefined): void;
}

/** Polls until approval (RFC 8628 section 3.4). Raises StartError: 1 for a denied or expired sign-in, 69 if invalid. */
export async function awaitApproval(waiting: Waiting): Promise<Tokens> {
  const { clock, code } = waiting;
  const end_ms = clock.now() + code.lifetime_seconds * SECOND_MS;
  let interval_seconds = code.interval_seconds;
  let problem: string | undefined;
  for (let wait_seconds = interval_seconds; ; ) {
    await waitAndReport(waiting, wait_seconds, end_ms, problem);
    const polled = await poll(waiting);
    problem = undefined;
    wait_seconds = interval_seconds;
    if (polled.outcome === 'approved') return polled.tokens;
    if (polled.outcome === 'slow_down') {
      interval_seconds += SLOWER_SECONDS;
      wait_seconds = interval_seconds;
    } else if (polled.outcome === 'retry') {
      problem = polled.text;
      wait_seconds = Math.max(interval_seconds, polled.retry_after_seconds);
    }
    if (clock.now() >= end_ms) throw expiredError(problem);
  }
}

function expiredError(problem: string | undefined): StartError {
  if (problem !== undefined) return new Unreachable(`sign-in failed: ${problem}`);
  return new StartError('the code expired before the sign-in was complete; start again', {
    exit_code: EXIT_REJECTED,
  });
}

async function waitAndReport(
  { clock, signal, onWait }: Waiting,
  seconds: number,
  end_ms: number,
  problem: string | undefined,
): Promise<void> {
  const until_ms = Math.min(clock.now() + seconds * SECOND_MS, end_ms);
  for (let now_ms = clock.now(); now_ms < until_ms; now_ms = clock.now()) {
    onWait(Math.ceil((end_ms - now_ms) / SECOND_MS), problem);
    await pause(clock, Math.min(SECOND_MS, until_ms - now_ms), signal);
  }
}

type Polled =
  | { readonly outcome: 'approved'; readonly tokens: Tokens }
  | { readonly outcome: 'pending' | 'slow_down' }
  | { readonly outcome: 'retry'; readonly text: string; readonly retry_after_seconds: number };

async function poll({ ask, token_endpoint, code, signal }: Waiting): Promise<Polled> {
  let answer: HttpAnswer;
  try {
    const form = { grant_type: DEVICE_GRANT, device_code: code.device_code };
    answer = await ask('POST', token_endpoint, { form, signal });
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    return { outcome: 'retry', text: error.message, retry_after_seconds: 0 };
  }
  if (answer.status === 200) return { outcome: 'approved', tokens: readTokens('sign-in', answer) };
  const error = oauthError(answer);
  if (error.code === 'authorization_pending') return { outcome: 'pending' };
  if (error.code === 'slow_down') return { outcome: 'slow_down' };
  if (answer.status >= 500 || answer.status === 429) {
    const retry_after_seconds = Math.min(answer.retry_after_seconds ?? 0, RETRY_AFTER_SECONDS_MAX);
    return { outcome: 'retry', text: unexpected('requesting the token', answer).message, retry_after_seconds };
  }
  throw rejection(error, answer);
}

function rejection({ code, text }: ReturnType<typeof oauthError>, answer: HttpAnswer): StartError {
  const rejected = (sentence: string) => new StartError(sentence, { exit_code: EXIT_REJECTED });
  if (code === 'access_denied') return rejected(`the sign-in was denied${text === undefined ? '' : `: ${text}`}`);
  if (code === 'expired_token') return expiredError(undefined);
  if (code === 'invalid_grant') {
    return rejected('the gateway no longer knows the code; start again');
  }
  return unexpected('sign-in', answer);
}

/** Waits; rejects with the signal's reason if it aborts first. */
export function pause(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      timer.close();
      reject(signal!.reason);
    };
    const timer = clock.after(milliseconds, () => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
    if (signal?.aborted === true) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}

/** Whether this process can open a browser on the user's screen. */
export function hasBrowser(env: NodeJS.ProcessEnv, platform: NodeJS.Platform): boolean {
  const set = (name: string) => (env[name] ?? '') !== '';
  if (set('SSH_CONNECTION') || set('SSH_CLIENT') || set('SSH_TTY')) return false;
  // Without a display xdg-open starts a text browser in the terminal.
  return platform === 'darwin' || platform === 'win32' || set('DISPLAY') || set('WAYLAND_DISPLAY');
}

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  // Not "start": a shell built-in, which would interpret the address.
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
};

/** Opens a page in the user's browser, without a shell. Ignores failures: the address is also printed. */
export function openBrowser(url: string, platform: NodeJS.Platform = process.platform): void {
  const [program = 'xdg-open', ...before] = OPENERS[platform] ?? ['xdg-open'];
  const opener = spawn(program, [...before, url], { stdio: 'ignore', detached: true });
  opener.on('error', () => {});
  opener.unref();
}

/** OAuth endpoints of a gateway, all on its own origin. */
export interface Endpoints {
  readonly device_authorization: string;
  readonly token: string;
  /** `undefined` if the gateway does not support revocation. */
  readonly revocation: string | undefined;
}

const discoveryOf = (base_url: string) => `${base_url}/.well-known/oauth-authorization-server`;

/** Whether a response is a gateway's error, which has a type. */
const isOfGateway = ({ body }: HttpAnswer) => typeof fieldsOf(fieldsOf(body).error).type === 'string';

const NO_SIGN_IN =
  'it has no identity provider (auth.oidc); ask its administrator for an access token (appscli tokens create)';

/** Raises StartError if the gateway reports that sign-in is disabled. */
export async function assertSignInAvailable(ask: Ask, base_url: string): Promise<void> {
  const answer = await ask('GET', discoveryOf(base_url)).catch(() => undefined);
  if (answer?.status !== 404 || !isOfGateway(answer)) return;
  throw new StartError(`you are not signed in at ${base_url}: ${NO_SIGN_IN}`, { exit_code: EXIT_REJECTED });
}

/** The discovery document (RFC 8414), all on the base URL's origin. Raises Unreachable, or StartError if invalid. */
export async function discover(ask: Ask, base_url: string, signal?: AbortSignal): Promise<Endpoints> {
  const url = discoveryOf(base_url);
  const answer = await ask('GET', url, { signal });
  const fail = (what: string) => {
    throw new StartError(`cannot sign in at ${base_url}: ${what}`);
  };
  if (answer.status >= 500 || answer.status === 429) {
    throw new Unreachable(unexpected(`reading ${url}`, answer).message);
  }
  if (answer.status === 404 && isOfGateway(answer)) return fail(NO_SIGN_IN);
  if (answer.status !== 200 || answer.kind !== 'json') {
    return fail(`no discovery document at ${url} (status ${answer.status}); check the address of the gateway`);
  }
  const document = fieldsOf(answer.body);
  const issuer = sentence(document.issuer);
  if (issuer === undefined) return fail(`the document at ${url} names no issuer`);
  if (!URL.canParse(issuer) || new URL(issuer).href.replace(/\/+$/, '') !== base_url) {
    return fail(`its issuer is ${issuer}; use that address if you trust it`);
  }
  const endpoint = (field: string): string => {
    const value = document[field];
    if (typeof value !== 'string') return fail(`the document at ${url} has no ${field}`);
    if (!sameOrigin(value, base_url)) return fail(`its ${field} is at another address, which is not trusted`);
    return value;
  };
  const grants = document.grant_types_supported;
  if (Array.isArray(grants) && !grants.includes(DEVICE_GRANT))
    return fail('it does not support sign-in from a terminal (device authorization grant)');
  return {
    device_authorization: endpoint('device_authorization_endpoint'),
    token: endpoint('token_endpoint'),
    revocation: document.revocation_endpoint === undefined ? undefined : endpoint('revocation_endpoint'),
  };
}
