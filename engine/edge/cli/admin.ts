import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import type { Database } from '../../base/store/database.ts';
import { createSessions } from '../../domain/identity/sessions/sessions.ts';
import { isWellFormedServiceToken, isWellFormedToken } from '../../domain/identity/tokens/token-format.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { programCaller, refusalOf } from '../admin/calls.ts';
import { operationOf, splitInput } from '../admin/description.ts';
import { type AdminApi, type AdminOperations, createRunOperation, type InJson } from '../admin/operations.ts';
import type { CommandContext, CommandRow } from './commands.ts';
import { adminAtGateway, exitCodeOf, inputOf } from './gateway-admin.ts';
import { type Columns, say, showList, showReport, showResult, showSecret } from './output.ts';
import { operator, withDatabase } from './with-database.ts';

export type CommandOptions<Options = object> = Options & {
  readonly config: string;
  readonly baseUrl?: string;
  readonly json?: true;
};

/** The JSON response of an operation. */
export type AnswerOf<Name extends keyof AdminOperations> = InJson<Awaited<ReturnType<AdminOperations[Name]>>>;

/** Runs `use` against the local database or, with `--base-url`, the remote admin API. Raises StartError. */
async function withAdmin<T>(
  context: CommandContext,
  options: CommandOptions,
  use: (admin: AdminApi) => Promise<T>,
): Promise<T> {
  const used = async (admin: AdminApi): Promise<T> => {
    try {
      return await use(admin);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === undefined) throw error;
      throw new StartError(refusal.message, { exit_code: exitCodeOf(refusal.status) });
    }
  };
  const { config, baseUrl } = options;
  if (baseUrl !== undefined) return used((await adminAtGateway(context, baseUrl)).admin);
  return withDatabase(context, config, (opened) => used(adminAtDatabase(opened.config, opened.database)));
}

/** The admin API on the local database, with JSON responses as a gateway would send them. */
export function adminAtDatabase(config: GatewayConfig, database: Database): AdminApi {
  const clock = systemClock;
  const sessions = createSessions({ database, clock });
  const run = createRunOperation({ config, database, clock, sessions, models: createModelCatalog(config) });
  const actor = operator();
  const caller = programCaller('command', actor.name, actor);
  return async (name, input) => {
    const operation = operationOf(name);
    return JSON.parse(JSON.stringify(await run(operation, caller, splitInput(operation, input))));
  };
}

type Words = Omit<CommandRow, 'place' | 'run'>;

type Output<Answer, Options> =
  | { sentence(answer: Answer, options: CommandOptions<Options>): string | readonly string[] }
  | { lines(answer: Answer, context: CommandContext, options: CommandOptions<Options>): readonly string[] }
  | { secret(answer: Answer): string }
  | { show(context: CommandContext, answer: Answer, options: CommandOptions<Options>): number };

export interface OperationRow<Answer, Options> extends Words {
  /** Input of the operation by field name. Options of the same name are passed on by default; these values override them. */
  input?(options: CommandOptions<Options>): object;
  call?(admin: AdminApi, options: CommandOptions<Options>): Promise<Answer>;
  check?(options: CommandOptions<Options>): void;
}

/** A response with a token. Raises StartError without one: a script would continue with an empty token. */
function madeIn(answer: unknown): { readonly token: string } {
  const made = answer as { readonly token: string };
  if (isWellFormedToken(made.token) || isWellFormedServiceToken(made.token)) return made;
  throw new StartError('the response contains no token; check the address of the gateway');
}

/** Makes the command of an operation, which runs against the local database or a remote gateway. */
export function operation<Name extends keyof AdminOperations, Options = object, Answer = AnswerOf<Name>>(
  name: Name,
  row: OperationRow<Answer, Options> & Output<Answer, Options>,
): CommandRow {
  const { input = () => ({}), call, check } = row;
  const request = (options: CommandOptions<Options>) => inputOf(name, Object.assign({}, options, input(options)));
  return {
    json: 'print a JSON object',
    ...row,
    place: 'either',
    async run(context, options: CommandOptions<Options>) {
      check?.(options);
      const answer = await withAdmin(context, options, (admin) =>
        call === undefined ? (admin(name, request(options) as never) as Promise<Answer>) : call(admin, options),
      );
      const { json } = options;
      if ('show' in row) return row.show(context, answer, options);
      if ('secret' in row) return showSecret(context, madeIn(answer), json, row.secret(answer));
      if ('lines' in row) return showReport(context, json, answer as object, () => row.lines(answer, context, options));
      return showResult(context, answer as object, json, () => {
        for (const text of [row.sentence(answer, options)].flat()) say(context, text);
      });
    },
  };
}

/** Makes the command of an operation whose response has a list in the field `list`. */
export function listing<
  Name extends keyof AdminOperations,
  List extends keyof AnswerOf<Name>,
  Options = object,
  Entry = AnswerOf<Name>[List] extends readonly (infer One)[] ? One : never,
>(
  name: Name,
  list: List,
  row: Words & {
    readonly none: string;
    readonly columns: Columns<Entry>;
    input?(options: CommandOptions<Options>): object;
    below?(entries: readonly Entry[]): string | undefined;
  },
): CommandRow {
  const { none, columns, input = () => ({}), below, ...words } = row;
  return operation<Name, Options, readonly Entry[]>(name, {
    json: 'print a JSON array',
    ...words,
    call: (admin, options) => allEntries<Entry>(admin, name, list as string, { ...options, ...input(options) }),
    show(context, entries, { json }) {
      showList(context, entries, json, { none, columns });
      const text = json ? undefined : below?.(entries);
      if (text !== undefined) say(context, text);
      return 0;
    },
  });
}

const PAGE = 1000;
const ENTRIES_MAX = 100 * PAGE;

/** The entries of a list, at most `most`, page by page. */
export async function allEntries<Entry>(
  admin: AdminApi,
  name: keyof AdminOperations,
  list: string,
  values: object,
  most = ENTRIES_MAX,
): Promise<Entry[]> {
  const request = inputOf(name, values);
  const known = operationOf(name).query.properties as object;
  const cursor = ['after', 'before'].find((field) => Object.hasOwn(known, field));
  const all: Entry[] = [];
  for (let next: unknown; all.length < most; ) {
    const page = cursor && { limit: Math.min(PAGE, most - all.length), ...(next !== undefined && { [cursor]: next }) };
    const answer = (await admin(name, { ...request, ...page } as never)) as Record<string, unknown>;
    const entries = answer[list] as Entry[];
    all.push(...entries);
    next = answer.next ?? undefined;
    if (cursor === undefined || next === undefined || entries.length === 0) break;
  }
  return all;
}
