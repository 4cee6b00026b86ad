import type { AdminApi, InJson } from '../../admin/operations.ts';
import type { AdminAction, AdminChange } from '../../audit/admin-changes.ts';
import type { Fetch } from '../../client/http.ts';
import { jsonText, printable, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';
import { formatTimestamp } from '../times.ts';

type Change = InJson<AdminChange> & { readonly words: string };

const WIDTH = 80;
/** What the admin API gives at once. */
const PAGE = 1000;

/** Which changes are meant, by the names of options. */
interface Meant {
  readonly since?: Date;
  readonly until?: Date;
  readonly actor?: string;
  readonly action?: AdminAction;
  readonly subject?: string;
  readonly lines: number;
}

/** `appscli audit changes`: who changed which access tokens, sessions and people, the oldest first. */
export async function changes(
  context: CommandContext,
  given: Location & Meant & { readonly json?: true },
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

async function latest(admin: AdminApi, { since, until, actor, action, subject, lines }: Meant): Promise<Change[]> {
  const found: Change[] = [];
  const filter = { since: since?.toISOString(), until: until?.toISOString(), actor, action, subject };
  let before: number | undefined;
  while (found.length < lines) {
    const limit = Math.min(PAGE, lines - found.length);
    const page = await admin('listChanges', { ...filter, limit, before });
    found.push(...page.changes);
    if (page.next === null || page.changes.length === 0) break;
    before = page.next;
  }
  return found;
}

/** A line with when, what and to what, and below it the sentence. */
function describeChange({ at, action, subject, words }: Change): string[] {
  return [
    ...wrapText(printable(`${formatTimestamp(at)}  ${action}  ${subject}`), WIDTH, '', '    '),
    ...wrapText(printable(words), WIDTH, '    '),
  ];
}
