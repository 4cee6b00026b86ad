import { systemClock } from '../../../base/kit/clock.ts';
import { jsonText } from '../../../base/kit/text/printable.ts';
import { chooseBaseUrl } from '../../client/base-url.ts';
import { openCredentials } from '../../client/credentials.ts';
import { freshCredentials } from '../../client/fresh-credentials.ts';
import { createAsk } from '../../client/http.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { option } from '../options.ts';
import { warner } from '../program-name.ts';

/** `appscli token`: prints a valid token, alone on standard output. */
export async function token(
  { terminal, env, clock = systemClock }: CommandContext,
  options: { readonly baseUrl?: string | undefined; readonly json?: true; readonly headers?: true },
): Promise<number> {
  const credentials = openCredentials(env, warner(terminal));
  const base_url = chooseBaseUrl(options.baseUrl, env, [...credentials.read().keys()]);
  const stored = await freshCredentials({ credentials, ask: createAsk(), clock, base_url });
  const { access_token, expires_at } = stored;
  if (options.headers) terminal.data(`${jsonText({ Authorization: `Bearer ${access_token}` })}\n`);
  else
    terminal.data(options.json ? `${jsonText({ token: access_token, expires_at, base_url })}\n` : `${access_token}\n`);
  return EXIT_OK;
}

/** `appscli token`. */
export const commands: readonly CommandRow[] = [
  {
    options: [option('--headers', 'print a JSON object with the Authorization header').conflicts('json')],
    place: 'gateway',
    json: 'print a JSON object: token, expires_at, base_url',
    notes: `Renews the token if it expires soon; concurrent calls renew it once. Exits 1 if
you have to sign in again, 69 if it has expired and the gateway is unreachable.`,
    examples: [
      'appscli token --base-url https://gateway.example.com',
      'curl -H "Authorization: Bearer $(appscli token)" $APPSCLI_BASE_URL/v1/models',
    ],
    run: token,
  },
];
