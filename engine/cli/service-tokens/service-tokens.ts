import { fieldsOf } from '../../client/answers.ts';
import type { Fetch } from '../../client/http.ts';
import { StartError } from '../../contract/start-error.ts';
import { DEFAULT_OVERLAP_SECONDS } from '../../identity/tokens/rotate-token.ts';
import {
  createServiceToken,
  listServiceTokens,
  revokeServiceToken,
  rotateServiceToken,
  showServiceToken,
} from '../../identity/tokens/service-tokens.ts';
import { isWellFormedServiceToken } from '../../identity/tokens/token-format.ts';
import { TokenError } from '../../identity/tokens/tokens.ts';
import { systemClock } from '../../kit/clock.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type Answered, openAtGateway, textOf, timeOf } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE } from '../exit-codes.ts';
import { operator } from '../operator.ts';
import { type Column, formatList, withoutEmptyColumns } from '../table.ts';
import { dayWords, momentWords, titleInZone } from '../times.ts';
import type { Place } from '../tokens/tokens.ts';
import { withDatabase } from '../with-database.ts';

type Given = Place & { readonly json?: true };

const PATH = '/admin/api/service-tokens';
const WIDTH = 80;

/** `appscli service-tokens create`: prints a new service token, alone on standard output. */
export async function create(
  context: CommandContext,
  given: Given & { readonly name: string; readonly scope: readonly string[]; readonly expires?: Date },
  fetch?: Fetch,
): Promise<number> {
  const { name, scope: scopes, expires: expires_at } = given;
  const made = await at(context, given, fetch, {
    gateway: (ask) => ask('POST', PATH, { name, scopes, expires_at }),
    database: (by) => createServiceToken(by, { name, scopes, expires_at }),
  });
  return showMade(context, given, made);
}

/** `appscli service-tokens list`: what is known about all service tokens. */
export async function list(context: CommandContext, given: Given, fetch?: Fetch): Promise<number> {
  const { terminal } = context;
  const tokens =
    given.baseUrl === undefined
      ? await withDatabase(context, given.config, async ({ database }) =>
          (await listServiceTokens(database)).map((token) => fieldsOf(showServiceToken(token, Date.now()))),
        )
      : await listed(await openAtGateway(context, given.baseUrl, fetch));
  if (given.json) terminal.data(`${jsonText(tokens, 2)}\n`);
  else if (tokens.length === 0) terminal.words('There are no service tokens.\n');
  else terminal.data(printableLines(describe(tokens, terminal.columns)));
  return EXIT_OK;
}

/** `appscli service-tokens rotate`: prints a new service token that takes another's place. */
export async function rotate(
  context: CommandContext,
  id: string,
  given: Given & { readonly overlap?: number; readonly expires?: Date },
  fetch?: Fetch,
): Promise<number> {
  const { overlap: overlap_seconds = DEFAULT_OVERLAP_SECONDS, expires: expires_at } = given;
  const made = await at(context, given, fetch, {
    gateway: (ask) => ask('POST', `${PATH}/${encodeURIComponent(id)}/rotate`, { overlap_seconds, expires_at }),
    database: (by) => rotateServiceToken(by, id, { overlap_seconds, expires_at }),
  });
  return showMade(context, given, made);
}

/** `appscli service-tokens revoke`: ends a service token. Exits 1 when there is none to end. */
export async function revoke(context: CommandContext, id: string, given: Given, fetch?: Fetch): Promise<number> {
  const ended = await at(context, given, fetch, {
    gateway: (ask) => ask('DELETE', `${PATH}/${encodeURIComponent(id)}`),
    async database(by) {
      await revokeServiceToken(by, id);
      return { id };
    },
  });
  if (given.json) context.terminal.data(`${jsonText(ended)}\n`);
  else say(context, `Revoked ${id}: "${textOf(ended.name)}".`);
  return EXIT_OK;
}

type Ask = Awaited<ReturnType<typeof openAtGateway>>['ask'];
type By = Parameters<typeof createServiceToken>[0];

/** Does something at a running gateway or on the database, and returns what is then known of the token. */
async function at(
  context: CommandContext,
  { config, baseUrl }: Place,
  fetch: Fetch | undefined,
  how: {
    gateway(ask: Ask): Promise<Answered>;
    database(by: By): Promise<{ readonly id: string; readonly token?: string }>;
  },
): Promise<Answered> {
  if (baseUrl !== undefined) return how.gateway((await openAtGateway(context, baseUrl, fetch)).ask);
  return withDatabase(context, config, async ({ database }) => {
    try {
      const made = await how.database({ database, clock: systemClock, actor: operator() });
      const [known] = await listServiceTokens(database, made.id);
      return { ...made, ...showServiceToken(known!, Date.now()) };
    } catch (error) {
      if (!(error instanceof TokenError)) throw error;
      throw new StartError(error.message, { exit_code: error.problem === 'invalid' ? EXIT_USAGE : EXIT_FINDINGS });
    }
  });
}

async function listed({ ask }: { readonly ask: Ask }): Promise<Answered[]> {
  const { service_tokens } = await ask('GET', PATH);
  return Array.isArray(service_tokens) ? service_tokens.map(fieldsOf) : [];
}

function showMade(context: CommandContext, { json }: Given, made: Answered): number {
  const token = textOf(made.token);
  if (!isWellFormedServiceToken(token)) {
    throw new StartError('the answer holds no service token; is it the address of a gateway?', {
      exit_code: EXIT_UNAVAILABLE,
    });
  }
  if (json) {
    context.terminal.data(`${jsonText(made)}\n`);
    return EXIT_OK;
  }
  const expires_at = made.expires_at instanceof Date ? made.expires_at : timeOf(made.expires_at);
  const end = expires_at === null ? 'a day the gateway did not tell' : momentWords(expires_at);
  const what = `Service token ${textOf(made.id)} for "${textOf(made.name)}"`;
  say(context, `${what}. It expires on ${end}, opens the admin API alone, and is shown only this once:`);
  context.terminal.data(`${token}\n`);
  return EXIT_OK;
}

function say({ terminal }: CommandContext, words: string): void {
  terminal.words(printableLines(wrapText(words, WIDTH)));
}

const columnsHere = (): Column[] => [
  { title: 'ID', kind: 'text' },
  { title: 'NAME', kind: 'text' },
  { title: 'SCOPES', kind: 'text' },
  { title: 'OWNER', kind: 'text' },
  { title: 'USED', kind: 'text' },
  { title: titleInZone('UNTIL'), kind: 'text' },
  { title: 'STATE', kind: 'text' },
];

function describe(tokens: readonly Answered[], line_width: number): string[] {
  const day = (value: unknown) => {
    const date = value instanceof Date ? value : timeOf(value);
    return date === null ? '' : dayWords(date);
  };
  const cells = tokens.map((token) => [
    textOf(token.id),
    textOf(token.name),
    Array.isArray(token.scopes) ? token.scopes.map(textOf).join(' ') : '',
    textOf(token.owner),
    day(token.last_used_at),
    day(token.expires_at),
    textOf(token.state),
  ]);
  const { columns, rows } = withoutEmptyColumns(columnsHere(), cells);
  return formatList(columns, rows, line_width);
}
