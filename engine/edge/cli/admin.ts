import type { GatewayConfig } from '../../base/contract/config.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { systemClock } from '../../base/kit/clock.ts';
import type { Database } from '../../base/store/database.ts';
import { createSessions } from '../../domain/identity/sessions/sessions.ts';
import { createModelCatalog } from '../../domain/upstreams/models.ts';
import { programCaller, refusalOf } from '../admin/calls.ts';
import { operationOf, splitInput } from '../admin/description.ts';
import { type AdminApi, type AdminOperations, createRunOperation, type InJson } from '../admin/operations.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { adminAtGateway, exitCodeOf, inputOf } from './gateway-admin.ts';
import { say, showList, showReport, showResult, showSecret } from './show.ts';
import type { ColumnGiven } from './table.ts';
import { operator, withDatabase } from './with-database.ts';

/** Options of a command that works at a gateway (`--base-url`) or on the database of a configuration. */
export type Given<Options = object> = Options & {
  readonly config: string;
  readonly baseUrl?: string;
  readonly json?: true;
};

/** The answer of an operation, as JSON has it. */
export type AnswerOf<Name extends keyof AdminOperations> = InJson<Awaited<ReturnType<AdminOperations[Name]>>>;

/** Runs `use` against the local database or, with `--base-url`, against the admin API as the signed-in person. Raises StartError. */
async function withAdmin<T>(context: CommandContext, given: Given, use: (admin: AdminApi) => Promise<T>): Promise<T> {
  const used = async (admin: AdminApi): Promise<T> => {
    try {
      return await use(admin);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === undefined) throw error;
      throw new StartError(refusal.message, { exit_code: exitCodeOf(refusal.status) });
    }
  };
  const { config, baseUrl } = given;
  if (baseUrl !== undefined) return used((await adminAtGateway(context, baseUrl)).admin);
  return withDatabase(context, config, (opened) => used(adminAtDatabase(opened.config, opened.database)));
}

/** The same operations as at a gateway, with answers as JSON would have them. */
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

/** How the answer of an operation is shown to people. `--json` prints it as it is. */
interface Shows<Answer, Options> {
  /** Sentences on standard error. */
  sentence?(answer: Answer, given: Given<Options>): string | readonly string[];
  /** Lines on standard output. */
  lines?(answer: Answer, context: CommandContext, given: Given<Options>): readonly string[];
  /** A sentence before a secret that stands alone on standard output. */
  secret?(answer: Answer): string;
  /** Replaces all of the above; returns the exit code. */
  show?(context: CommandContext, answer: Answer, given: Given<Options>): number;
}

/** A command that carries out an operation of the admin API. */
interface OperationRow<Answer, Options> extends Words, Shows<Answer, Options> {
  /** Input of the operation by field name. Options of the same name are passed on anyway; these values win. */
  input?(given: Given<Options>): object;
  /** Where it takes more than one call. */
  call?(admin: AdminApi, given: Given<Options>): Promise<Answer>;
  /** Raises what is wrong with the command line before anything is asked. */
  check?(given: Given<Options>): void;
}

/** Makes the command of an operation, at a gateway or beside its database. */
export function operation<Name extends keyof AdminOperations, Options = object, Answer = AnswerOf<Name>>(
  name: Name,
  row: OperationRow<Answer, Options>,
): CommandRow {
  const { input = () => ({}), call, check, sentence, lines, secret, show, ...words } = row;
  const asked = (given: Given<Options>) => inputOf(name, Object.assign({}, given, input(given)));
  return {
    json: 'print a JSON object',
    ...words,
    place: 'either',
    async run(context, given: Given<Options>) {
      check?.(given);
      const answer = await withAdmin(context, given, (admin) =>
        call === undefined ? (admin(name, asked(given) as never) as Promise<Answer>) : call(admin, given),
      );
      const { json } = given;
      if (show !== undefined) return show(context, answer, given);
      if (secret !== undefined) return showSecret(context, answer as { readonly token: string }, json, secret(answer));
      if (lines !== undefined) return showReport(context, json, answer as object, () => lines(answer, context, given));
      return showResult(context, answer as object, json, () => {
        for (const text of [sentence!(answer, given)].flat()) say(context, text);
      });
    },
  };
}

/** A command that lists what an operation has, page by page. */
interface ListRow<Entry, Options> extends Words {
  /** What is said where there is nothing. */
  readonly none: string;
  readonly columns: readonly (readonly [title: ColumnGiven, cell: (entry: Entry) => string | null])[];
  /** Where a table is no longer whole, in columns; without end where nothing is said. */
  readonly within?: 'terminal';
  input?(given: Given<Options>): object;
  /** What is said below a table. */
  below?(entries: readonly Entry[]): string | undefined;
}

/** Makes the command of an operation whose answer has a list in the field `list`. */
export function listing<
  Name extends keyof AdminOperations,
  List extends keyof AnswerOf<Name>,
  Options = object,
  Entry = AnswerOf<Name>[List] extends readonly (infer One)[] ? One : never,
>(name: Name, list: List, row: ListRow<Entry, Options>): CommandRow {
  const { none, columns, within, input = () => ({}), below, ...words } = row;
  return operation<Name, Options, readonly Entry[]>(name, {
    json: 'print a JSON array',
    ...words,
    call: (admin, given) => allEntries<Entry>(admin, name, list as string, { ...given, ...input(given) }),
    show(context, entries, { json }) {
      showList(context, entries, json, {
        none,
        columns: columns.map(([title]) => title),
        cells: (entry) => columns.map(([, cell]) => cell(entry) ?? ''),
        ...(within && { width: context.terminal.columns }),
      });
      const text = json ? undefined : below?.(entries);
      if (text !== undefined) say(context, text);
      return 0;
    },
  });
}

const PAGE = 1000;
/** A gateway whose list never ends does not keep a command for ever. */
const MAX_PAGES = 100;

/** All entries of a list that may come in pages. */
export async function allEntries<Entry>(
  admin: AdminApi,
  name: keyof AdminOperations,
  list: string,
  values: object,
): Promise<Entry[]> {
  const asked = inputOf(name, values);
  const pages = Object.hasOwn(operationOf(name).query.properties as object, 'after') ? MAX_PAGES : 1;
  const all: Entry[] = [];
  let after: unknown;
  for (let page = 0; page < pages; page++) {
    const input = { ...asked, ...(pages > 1 && { limit: PAGE }), ...(after !== undefined && { after }) };
    const answer = (await admin(name, input as never)) as Record<string, unknown>;
    all.push(...(answer[list] as Entry[]));
    if ((answer.next ?? null) === null) break;
    after = answer.next;
  }
  return all;
}
