import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { type DescribedOperation, operationOf, splitInput } from '../admin/description.ts';
import type { AdminApi } from '../admin/operations.ts';
import { fieldsOf, shapeAnswer } from './answers.ts';
import { chooseBaseUrl } from './base-url.ts';
import { openCredentials } from './credentials.ts';
import { demandSignIn } from './device-sign-in.ts';
import { freshCredentials } from './fresh-credentials.ts';
import { createAsk, sentence, signInOver } from './http.ts';

/** A gateway's answer: HTTP status, and its JSON body; `undefined` where there is none. */
export interface ApiAnswer {
  readonly status: number;
  readonly body: unknown;
}

/** The HTTP API of a gateway, as the person who signed in at it with `appscli login`. */
export interface ApiClient {
  /** Address of the gateway, without a trailing slash. */
  readonly base_url: string;
  /**
   * Sends one request; `path` begins with a slash, `body` goes as JSON. Every JSON answer but 401 is returned, errors as
   * well. Raises StartError: exit code 1 when the sign-in is over, 69 when there is no answer of a gateway.
   */
  request(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
}

/**
 * Opens the API of a gateway: the one given, else that of APPSCLI_BASE_URL, else the only one signed in at. Raises
 * StartError with exit code 64 when that leaves a choice, 1 when nobody is signed in there. A service token in
 * APPSCLI_SERVICE_TOKEN takes the place of a sign-in.
 */
export async function openClient(options: {
  readonly base_url?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  readonly clock?: Clock | undefined;
  /** Told what a person should know about the credentials file. */
  readonly warn?: ((text: string) => void) | undefined;
}): Promise<ApiClient> {
  const { env, clock = systemClock } = options;
  const credentials = openCredentials(env, options.warn);
  const base_url = chooseBaseUrl(options.base_url, env, [...credentials.read().keys()]);
  const ask = createAsk();
  const fresh = (rejected?: string) => freshCredentials({ credentials, ask, clock, base_url, rejected });
  const service_token = env.APPSCLI_SERVICE_TOKEN || undefined;
  if (service_token === undefined) {
    if (!credentials.read().has(base_url)) await demandSignIn(ask, base_url);
    await fresh();
  }

  async function send(method: string, path: string, body: unknown, token: string): Promise<ApiAnswer> {
    const answer = await ask(method, `${base_url}${path}`, {
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { json: body }),
    });
    if (answer.kind !== 'other') return { status: answer.status, body: answer.body };
    throw new StartError(
      `${base_url} answered ${method} ${path} with status ${answer.status} and something that is not JSON; is it the address of a gateway?`,
    );
  }

  return {
    base_url,
    async request(method, path, body) {
      if (!path.startsWith('/')) throw new TypeError(`a path begins with a slash: ${path}`);
      // Automation signs in nowhere: its token is good or it is not.
      if (service_token !== undefined) return send(method, path, body, service_token);
      const { access_token } = await fresh();
      const answer = await send(method, path, body, access_token);
      if (answer.status !== 401) return answer;
      const renewed = await fresh(access_token);
      const again = await send(method, path, body, renewed.access_token);
      if (again.status === 401) throw signInOver(base_url, 'the gateway refuses it');
      return again;
    },
  };
}

/** The admin operations of a running gateway. Raises StartError with what the gateway says when it refuses. */
export function createAdminApi(client: ApiClient, exitCodeOf: (status: number) => number): AdminApi {
  return async (name, input) => {
    const operation = operationOf(name);
    const sent = splitInput(operation, input);
    const { status, body } = await client.request(operation.method, targetOf(operation, sent), sent.body);
    if (status < 300) return shapeAnswer(operation.answer, body) as never;
    const said = sentence(fieldsOf(fieldsOf(body).error).message);
    const message = said ?? `${client.base_url} answered ${operation.method} ${operation.path} with status ${status}`;
    throw new StartError(message, { exit_code: exitCodeOf(status) });
  };
}

function targetOf({ path }: DescribedOperation, sent: ReturnType<typeof splitInput>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(sent.path[name] ?? ''));
  const query = new URLSearchParams(sent.query as Record<string, string>);
  return query.size === 0 ? filled : `${filled}?${query}`;
}
