import type { AdminApi, InJson } from '../../admin/operations.ts';
import type { AdminChange } from '../../audit/admin-changes.ts';
import type { Fetch } from '../../client/http.ts';
import { jsonText, printable, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { formatTimestamp } from '../times.ts';

type Change = InJson<AdminChange>;

const WIDTH = 80;
/** What the admin API gives at once. */
const PAGE = 1000;

/** `appscli audit changes`: who changed which access tokens, sessions and people, the oldest first. */
export async function changes(
  context: CommandContext,
  given: Location & { readonly since?: Date; readonly lines: number; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const found = await withAdmin(context, given, (admin) => latest(admin, given), fetch);
  const oldest_first = found.toReversed();
  if (given.json) for (const change of oldest_first) terminal.data(`${jsonText(change)}\n`);
  else if (found.length === 0) terminal.info('Nothing was changed.\n');
  else terminal.data(printableLines(oldest_first.flatMap(describeChange)));
  return EXIT_OK;
}

async function latest(
  admin: AdminApi,
  { since, lines }: { readonly since?: Date; readonly lines: number },
): Promise<Change[]> {
  const found: Change[] = [];
  let before: number | undefined;
  while (found.length < lines) {
    const limit = Math.min(PAGE, lines - found.length);
    const page = await admin('listChanges', { since: since?.toISOString(), limit, before });
    found.push(...page.changes);
    if (page.next === null || page.changes.length === 0) break;
    before = page.next;
  }
  return found;
}

/** A line with what was done, and below it by whom and how. */
function describeChange({ at, actor, action, subject, before: was, after: is }: Change): string[] {
  const [before, after] = [was ?? {}, is ?? {}];
  const who = actor.kind === 'person' ? actor.name : `${actor.name} (${actor.kind})`;
  const before_alone = Object.keys(before).filter((key) => !(key in after));
  const told = [
    ...before_alone.map((key) => detail(key, before[key])),
    // When something was revoked is when the change was made.
    ...Object.keys(after)
      .filter((key) => key !== 'revoked_at')
      .map((key) =>
        key in before && before[key] !== null
          ? `${detail(key, before[key])} -> ${formatValue(after[key])}`
          : detail(key, after[key]),
      ),
  ].filter((text) => text !== undefined);
  return [
    ...wrapText(printable(`${formatTimestamp(at)}  ${action}  ${subject}`), WIDTH, '', '    '),
    ...wrapText(printable(`by ${who}${told.length === 0 ? '' : `: ${told.join(', ')}`}`), WIDTH, '    '),
  ];
}

/** Nothing for what there is not, and no more than the name of what there is. */
function detail(key: string, value: unknown): string | undefined {
  if (value === null || value === false || value === undefined) return undefined;
  const name = key.replaceAll('_', ' ');
  return value === true ? name : `${name} ${formatValue(value)}`;
}

function formatValue(value: unknown): string {
  return typeof value === 'string' ? value : jsonText(value);
}
