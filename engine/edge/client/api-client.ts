import type { Clock } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { type DescribedOperation, operationOf, splitInput } from '../admin/description.ts';
import type { AdminApi } from '../admin/operations.ts';
import { shapeAnswer } from './answers.ts';
import { chooseBaseUrl } from './base-url.ts';
import { freshCredentials, openCredentials } from './credentials.ts';
import { assertSignInAvailable } from './device-sign-in.ts';
import { createAsk, sentence, signInOver } from './http.ts';

interface ApiAnswer {
  readonly status: number;
  readonly body: unknown;
}

export interface ApiClient {
  readonly base_url: string;
  /** Returns every JSON response but 401, also errors. Raises StartError: 1 without sign-in, 69 in an outage. */
  request(method: string, path: string, body?: unknown): Promise<ApiAnswer>;
}

/** As `chooseBaseUrl`; a service token in APPSCLI_SERVICE_TOKEN replaces the sign-in. Raises StartError (64, or 1). */
export async function openClient(options: {
  readonly base_url?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
  readonly clock?: Clock | undefined;
  readonly warn?: ((text: string) => void) | undefined;
}): Promise<ApiClient> {
  const { env, clock = systemClock } = options;
  const credentials = openCredentials(env, options.warn);
  const base_url = chooseBaseUrl(options.base_url, env, [...credentials.read().keys()]);
  const ask = createAsk();
  const fresh = (rejected?: string) => freshCredentials({ credentials, ask, clock, base_url, rejected });
  const service_token = env.APPSCLI_SERVICE_TOKEN || undefined;
  if (service_token === undefined) {
    if (!credentials.read().has(base_url)) await assertSignInAvailable(ask, base_url);
    await fresh();
  }

  async function send(method: string, path: string, body: unknown, token: string): Promise<ApiAnswer> {
    const answer = await ask(method, `${base_url}${path}`, {
      headers: { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { json: body }),
    });
    if (answer.kind !== 'other') return { status: answer.status, body: answer.body };
    throw new StartError(
      `${base_url} responded to ${method} ${path} with status ${answer.status}, not in JSON; check the address of the gateway`,
    );
  }

  return {
    base_url,
    async request(method, path, body) {
      if (!path.startsWith('/')) throw new TypeError(`a path begins with a slash: ${path}`);
      // A service token has no refresh.
      if (service_token !== undefined) return send(method, path, body, service_token);
      const { access_token } = await fresh();
      const answer = await send(method, path, body, access_token);
      if (answer.status !== 401) return answer;
      const renewed = await fresh(access_token);
      const again = await send(method, path, body, renewed.access_token);
      if (again.status === 401) throw signInOver(base_url, 'the gateway rejects the token');
      return again;
    },
  };
}

/** The admin operations of a running gateway. They raise StartError with the gateway's error message. */
export function createAdminApi(client: ApiClient, exitCodeOf: (status: number) => number): AdminApi {
  return async (name, input) => {
    const operation = operationOf(name);
    const sent = splitInput(operation, input);
    const { status, body } = await client.request(operation.method, targetOf(operation, sent), sent.body);
    if (status < 300) return shapeAnswer(operation.answer, body) as never;
    const reason = sentence(fieldsOf(fieldsOf(body).error).message);
    const message =
      reason ?? `${client.base_url} responded to ${operation.method} ${operation.path} with status ${status}`;
    throw new StartError(message, { exit_code: exitCodeOf(status) });
  };
}

function targetOf({ path }: DescribedOperation, sent: ReturnType<typeof splitInput>): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(sent.path[name] ?? ''));
  const query = new URLSearchParams(sent.query as Record<string, string>);
  return query.size === 0 ? filled : `${filled}?${query}`;
}
