import { fieldsOf } from '../client/answers.ts';
import { openClient } from '../client/api-client.ts';
import { sentence } from '../client/errors.ts';
import type { Fetch } from '../client/http.ts';
import { StartError } from '../contract/start-error.ts';
import { printable } from '../kit/text/printable.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_UNAVAILABLE, EXIT_USAGE } from './exit-codes.ts';
import { warner } from './surroundings.ts';

/** The fields of an object that a gateway sent; every text is safe to show. */
export type Answered = Readonly<Record<string, unknown>>;

/** The admin API of a running gateway, as the person who signed in there. */
export interface AtGateway {
  /** Asks, and returns the answer. Raises StartError with the words of the gateway when it refuses. */
  ask(method: string, path: string, body?: object): Promise<Answered>;
  /** All entries of a list, page by page. */
  all(path: string, list: string, query?: Readonly<Record<string, string | undefined>>): Promise<Answered[]>;
}

const PAGE = 1000;
/** More than anybody reads; a gateway that never comes to an end does not keep a command for ever. */
const MAX_PAGES = 100;
const NESTING_MAX = 20;

/** Opens the admin API of a gateway. Raises StartError when nobody is signed in there. */
export async function openAtGateway(
  { env, terminal }: CommandContext,
  base_url: string,
  fetch?: Fetch,
): Promise<AtGateway> {
  const client = await openClient({ base_url, env, fetch, warn: warner(terminal) });
  const ask: AtGateway['ask'] = async (method, path, body) => {
    const answer = await client.request(method, path, body);
    if (answer.status < 300) return safeToShow(fieldsOf(answer.body)) as Answered;
    const says = sentence(fieldsOf(fieldsOf(answer.body).error).message);
    const message = says ?? `${client.base_url} answered ${method} ${path} with status ${answer.status}`;
    throw new StartError(message, { exit_code: exitCodeOf(answer.status) });
  };
  return {
    ask,
    async all(path, list, query = {}) {
      const entries: Answered[] = [];
      let after: string | undefined;
      for (let page = 0; page < MAX_PAGES; page++) {
        const answer = await ask('GET', `${path}?${parameters({ ...query, limit: String(PAGE), after })}`);
        entries.push(...(Array.isArray(answer[list]) ? answer[list].map(fieldsOf) : []));
        if (typeof answer.next !== 'string') break;
        after = answer.next;
      }
      return entries;
    },
  };
}

/** A query without what is absent. */
export function parameters(values: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return new URLSearchParams(given).toString();
}

function exitCodeOf(status: number): number {
  if (status === 400) return EXIT_USAGE;
  return status >= 500 ? EXIT_UNAVAILABLE : EXIT_FINDINGS;
}

/** An answer without what moves the cursor, and without what is nested deeper than anything a gateway says. */
export function safeToShow(value: unknown, levels = NESTING_MAX): unknown {
  if (typeof value === 'string') return printable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((part) => safeToShow(part, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [printable(key), safeToShow(part, levels - 1)]));
}

/** A time in an answer; `null` where there is none. */
export function timeOf(value: unknown): Date | null {
  const date = typeof value === 'string' ? new Date(value) : undefined;
  return date === undefined || Number.isNaN(date.getTime()) ? null : date;
}

/** A text in an answer; empty where there is none. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
