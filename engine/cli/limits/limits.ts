import type { InJson } from '../../admin/operations.ts';
import type { Fetch } from '../../client/http.ts';
import { SPEND_SCOPES, type SpendScope } from '../../contract/config.ts';
import type { LimitWindow } from '../../contract/services.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountUnit,
  type LimitParts,
  partsToFind,
  unitOfWindow,
} from '../../money/limits/limit-names.ts';
import type { LimitInForce } from '../../money/limits/limit-statuses.ts';
import { describeNothingLimited, describeWhere, describeWhose, formatAmount } from '../../money/limits/limit-words.ts';
import { type Location, withAdmin } from '../admin.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, usageError } from '../exit-codes.ts';
import { say, showResult } from '../show.ts';
import { formatMoment } from '../times.ts';
import { describeInForce, describeNoRoom, describeWritten } from './format-limits.ts';

/** Whose limit it is, as options say it: several together are a combination. */
export type WhoseOptions = Readonly<Partial<Record<SpendScope, string>>>;

/** What a command is given that names one limit and an amount of it. */
export type AmountOptions = Location &
  WhoseOptions &
  Readonly<Partial<Record<AmountUnit, number>>> & {
    readonly window: LimitWindow;
    readonly reason?: string;
    readonly json?: true;
  };

/** `appscli limits list`: what is in force, spent and reserved, for somebody or at a glance. */
export async function list(
  context: CommandContext,
  given: Location & WhoseOptions & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const found = await withAdmin(context, given, (admin) => admin('listLimits', partsToFind(partsIn(given))), fetch);
  const { written, limits } = found;
  if (given.json) terminal.data(`${jsonText(found, 2)}\n`);
  else if (written.length === 0 && limits.length === 0) terminal.info('There are no such limits.\n');
  else {
    const changed = limits.filter(({ set, grants }) => set !== null || grants.length > 0);
    const at_a_glance = Object.keys(partsIn(given)).length === 0 && written.length > 0;
    const blocks = at_a_glance
      ? [
          ...titled('In gateway.yaml', describeWritten(written)),
          ...titled('Set or granted', changed.flatMap(describeInForce)),
          ...titled(
            'Nearest to their limit',
            limits.filter((limit) => !changed.includes(limit)).flatMap(describeInForce),
          ),
        ]
      : [
          ...limits.flatMap(describeInForce),
          ...(limits.length > 0 && written.length > 0 ? [''] : []),
          ...titled('Also in gateway.yaml for their requests', describeWritten(written)),
        ];
    terminal.data(`${printableLines(blocks).trimEnd()}\n`);
  }
  return EXIT_OK;
}

/** `appscli limits set`: a limit on one counter in place of those of gateway.yaml. */
export async function set(context: CommandContext, given: AmountOptions, fetch?: Fetch): Promise<number> {
  const done = await withAdmin(context, given, (admin) => admin('setLimit', wishIn(given)), fetch);
  return showResult(context, done, given.json, () => {
    const { previous, now } = done;
    const before = previous === null ? '' : `, in place of ${formatAmount(previous, now.unit)}`;
    const amount = formatAmount(given[now.unit]!, now.unit);
    say(context, `Set ${describeWhose(now)} to ${amount}${before}. In force from now on:`);
    tellNow(context, now);
  });
}

/** `appscli limits clear`: takes back what was set. Exits 1 when nothing is. */
export async function clear(
  context: CommandContext,
  given: Location & WhoseOptions & { readonly window: LimitWindow; readonly unit?: AmountUnit; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { window } = given;
  const only = unitOfWindow(window);
  const unit = given.unit ?? (only === undefined ? undefined : amountUnit(only));
  if (unit === undefined)
    throw usageError('a minute can have a limit of requests and one of tokens: which? Give --unit');
  const done = await withAdmin(
    context,
    given,
    (admin) => admin('clearLimit', { ...partsIn(given), window, unit }),
    fetch,
  );
  return showResult(context, done, given.json, () => {
    const { previous, now } = done;
    const was = previous === null ? '' : ` of ${formatAmount(previous, now.unit)}`;
    say(context, `Took back the limit${was} for ${describeWhose(now)}. In force from now on:`);
    tellNow(context, now);
  });
}

/** `appscli limits grant`: room on top of a limit for a time. */
export async function grant(
  context: CommandContext,
  given: AmountOptions & { readonly expires: Date | string },
  fetch?: Fetch,
): Promise<number> {
  const { expires } = given;
  // A day begins where the gateway is: it says when.
  const end = typeof expires === 'string' ? { expires_on: expires } : { expires_at: expires.toISOString() };
  const wish = { ...wishIn(given), ...end };
  const done = await withAdmin(context, given, (admin) => admin('grantLimit', wish), fetch);
  return showResult(context, done, given.json, () => {
    const { id, amount, unit, expires_at } = done.grant;
    const until = `until ${formatMoment(expires_at, done.now.time_zone)}`;
    say(context, `Grant ${id}: ${formatAmount(amount, unit)} more for ${describeWhose(done.now)}, ${until}.`);
    tellNow(context, done.now);
  });
}

/** `appscli limits revoke`: ends a grant before its time. Exits 1 when there is none to end. */
export async function revoke(
  context: CommandContext,
  id: string,
  given: Location & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const done = await withAdmin(context, given, (admin) => admin('revokeGrant', { id }), fetch);
  return showResult(context, done, given.json, () => {
    const { amount, unit } = done.grant;
    say(context, `Revoked ${id}: ${formatAmount(amount, unit)} for ${describeWhose(done.now)}. In force from now on:`);
    tellNow(context, done.now);
  });
}

function partsIn(given: WhoseOptions): LimitParts {
  return Object.fromEntries(
    SPEND_SCOPES.flatMap((scope) => (given[scope] === undefined ? [] : [[scope, given[scope]]])),
  );
}

function wishIn(given: AmountOptions) {
  const [unit, another] = AMOUNT_UNITS.filter((each) => given[each] !== undefined);
  if (unit === undefined) throw usageError('how much? Give --usd, --requests or --tokens');
  if (another !== undefined) throw usageError('give one of --usd, --requests and --tokens, not several');
  return { ...partsIn(given), window: given.window, [unit]: given[unit], reason: given.reason };
}

function titled(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`${title}:`, ...lines, ''];
}

function tellNow(context: CommandContext, now: InJson<LimitInForce>): void {
  context.terminal.info(printableLines(describeInForce(now)));
  for (const text of [describeNoRoom(now), describeWhere(now), describeNothingLimited(now)]) {
    if (text !== undefined) say(context, text);
  }
}
