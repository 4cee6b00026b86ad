import { programCaller, refusalOf } from '../admin/calls.ts';
import { operationOf, splitInput } from '../admin/description.ts';
import { type AdminApi, createRunOperation } from '../admin/operations.ts';
import type { Fetch } from '../client/http.ts';
import type { GatewayConfig } from '../contract/config.ts';
import { StartError } from '../contract/start-error.ts';
import { createSessions } from '../identity/sessions/sessions.ts';
import { systemClock } from '../kit/clock.ts';
import type { Database } from '../store/database.ts';
import { createModelCatalog } from '../upstreams/models.ts';
import type { CommandContext } from './context.ts';
import { adminAtGateway, exitCodeOf } from './gateway-admin.ts';
import { operator, withDatabase } from './with-database.ts';

/** Where a command works: at a running gateway when its address is given, else on the database of a configuration. */
export interface Location {
  readonly config: string;
  readonly baseUrl?: string;
}

/**
 * Gives a command the admin operations of where it works, as whoever runs it or as the person who signed in there. Raises
 * StartError for what is refused.
 */
export async function withAdmin<T>(
  context: CommandContext,
  { config, baseUrl }: Location,
  use: (admin: AdminApi) => Promise<T>,
  fetch?: Fetch,
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
  if (baseUrl === undefined) {
    return withDatabase(context, config, (opened) => used(adminAtDatabase(opened.config, opened.database)));
  }
  return used((await adminAtGateway(context, baseUrl, { fetch })).admin);
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

/**
 * What a command does that carries out admin operations where it works, and tells what came of them. `check` raises what is wrong
 * with the command line before anything is asked.
 */
export function administering<Given extends Location & { readonly json?: true }, Answer>(
  ask: (admin: AdminApi, given: Given) => Promise<Answer>,
  tell: (context: CommandContext, answer: Answer, given: Given) => number,
  check?: (given: Given) => void,
): (context: CommandContext, given: Given, fetch?: Fetch) => Promise<number> {
  return async (context, given, fetch) => {
    check?.(given);
    return tell(context, await withAdmin(context, given, (admin) => ask(admin, given), fetch), given);
  };
}

const PAGE = 1000;
/** More than anybody reads; a gateway that never comes to an end does not keep a command for ever. */
const MAX_PAGES = 100;

/** All entries of a list that comes in pages. */
export async function allPages<Entry>(
  read: (page: { readonly limit: number; readonly after?: string }) => Promise<{
    readonly entries: readonly Entry[];
    readonly next: string | null;
  }>,
): Promise<Entry[]> {
  const all: Entry[] = [];
  let after: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const { entries, next } = await read({ limit: PAGE, ...(after !== undefined && { after }) });
    all.push(...entries);
    if (next === null) break;
    after = next;
  }
  return all;
}
