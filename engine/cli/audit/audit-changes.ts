import { type AdminChange, listChanges } from '../../audit/admin-changes.ts';
import { fieldsOf } from '../../client/answers.ts';
import type { Fetch } from '../../client/http.ts';
import { jsonText, printable, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { openAtGateway, parameters, textOf } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { momentWord } from '../times.ts';
import type { Place } from '../tokens/tokens.ts';
import { withDatabase } from '../with-database.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A change as it is shown. */
interface ShownChange {
  readonly at: string;
  readonly actor: { readonly kind: string; readonly name: string };
  readonly action: string;
  readonly subject: string;
  readonly before: Fields;
  readonly after: Fields;
}

const WIDTH = 80;
/** What the admin API gives at once. */
const PAGE = 1000;

/** `appscli audit changes`: who changed which access tokens, sessions and people, the oldest first. */
export async function changes(
  context: CommandContext,
  given: Place & { readonly since?: Date; readonly lines: number; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const found = given.baseUrl === undefined ? await inDatabase(context, given) : await atGateway(context, given, fetch);
  const oldest_first = found.toReversed();
  if (given.json) for (const change of oldest_first) terminal.data(`${jsonText(change)}\n`);
  else if (found.length === 0) terminal.words('Nothing was changed.\n');
  else terminal.data(printableLines(oldest_first.flatMap((change) => describeChange(shownOf(change)))));
  return EXIT_OK;
}

function inDatabase(
  context: CommandContext,
  { config, since, lines }: Place & { readonly since?: Date; readonly lines: number },
): Promise<AdminChange[]> {
  return withDatabase(context, config, ({ database }) => listChanges(database, { since, limit: lines }));
}

async function atGateway(
  context: CommandContext,
  { baseUrl, since, lines }: Place & { readonly since?: Date; readonly lines: number },
  fetch: Fetch | undefined,
): Promise<Fields[]> {
  const gateway = await openAtGateway(context, baseUrl!, fetch);
  const found: Fields[] = [];
  let before: string | undefined;
  while (found.length < lines) {
    const limit = String(Math.min(PAGE, lines - found.length));
    const answer = await gateway.ask(
      'GET',
      `/admin/api/changes?${parameters({ since: since?.toISOString(), limit, before })}`,
    );
    const page = Array.isArray(answer.changes) ? answer.changes.map(fieldsOf) : [];
    found.push(...page);
    if (typeof answer.next !== 'number' || page.length === 0) break;
    before = String(answer.next);
  }
  return found;
}

function shownOf(change: AdminChange | Fields): ShownChange {
  const { at, actor, action, subject, before, after } = change;
  const { kind, name } = fieldsOf(actor);
  return {
    at: at instanceof Date ? at.toISOString() : textOf(at),
    actor: { kind: textOf(kind), name: textOf(name) },
    action: textOf(action),
    subject: textOf(subject),
    before: fieldsOf(before),
    after: fieldsOf(after),
  };
}

function localMoment(text: string): string {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : momentWord(date);
}

/** A line with what was done, and below it by whom and how. */
function describeChange({ at, actor, action, subject, before, after }: ShownChange): string[] {
  const who = actor.kind === 'person' ? actor.name : `${actor.name} (${actor.kind})`;
  const before_alone = Object.keys(before).filter((key) => !(key in after));
  const told = [
    ...before_alone.map((key) => detail(key, before[key])),
    // When something was revoked is when the change was made.
    ...Object.keys(after)
      .filter((key) => key !== 'revoked_at')
      .map((key) =>
        key in before && before[key] !== null
          ? `${detail(key, before[key])} -> ${worded(after[key])}`
          : detail(key, after[key]),
      ),
  ].filter((text) => text !== undefined);
  return [
    ...wrapText(printable(`${localMoment(at)}  ${action}  ${subject}`), WIDTH, '', '    '),
    ...wrapText(printable(`by ${who}${told.length === 0 ? '' : `: ${told.join(', ')}`}`), WIDTH, '    '),
  ];
}

/** Nothing for what there is not, and no more than the name of what there is. */
function detail(key: string, value: unknown): string | undefined {
  if (value === null || value === false || value === undefined) return undefined;
  const name = key.replaceAll('_', ' ');
  return value === true ? name : `${name} ${worded(value)}`;
}

function worded(value: unknown): string {
  return typeof value === 'string' ? value : jsonText(value);
}
