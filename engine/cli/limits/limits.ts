import type { Fetch } from '../../client/http.ts';
import { SPEND_SCOPES, type SpendScope } from '../../contract/config.ts';
import type { LimitWindow } from '../../contract/services.ts';
import { StartError } from '../../contract/start-error.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountUnit,
  type LimitParts,
  unitOfWindow,
} from '../../money/limits/limit-names.ts';
import type { LimitInForce } from '../../money/limits/limit-statuses.ts';
import { openAtGateway } from '../at-gateway.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, EXIT_USAGE } from '../exit-codes.ts';
import { momentWords } from '../times.ts';
import type { Place } from '../tokens/tokens.ts';
import { withDatabase } from '../with-database.ts';
import {
  amountWords,
  describeInForce,
  describeWritten,
  noRoomWords,
  nothingLimitedWords,
  onlyWhereWords,
  whoseWords,
} from './limit-words.ts';
import { type LimitBackend, limitsAtDatabase, limitsAtGateway } from './limits-backend.ts';

/** Whose limit it is, as options say it: several together are a combination. */
export type WhoseOptions = Readonly<Partial<Record<SpendScope, string>>>;

/** What a command is given that names one limit and an amount of it. */
export type AmountOptions = Place &
  WhoseOptions &
  Readonly<Partial<Record<AmountUnit, number>>> & {
    readonly window: LimitWindow;
    readonly reason?: string;
    readonly json?: true;
  };

const WIDTH = 80;

/** `appscli limits list`: what is in force, spent and reserved, for somebody or at a glance. */
export async function list(
  context: CommandContext,
  given: Place & WhoseOptions & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { terminal } = context;
  const found = await withBackend(context, given, (backend) => backend.list(partsIn(given)), fetch);
  const { written, limits } = found;
  if (given.json) terminal.data(`${jsonText(found, 2)}\n`);
  else if (written.length === 0 && limits.length === 0) terminal.words('There are no such limits.\n');
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
      : limits.flatMap(describeInForce);
    terminal.data(`${printableLines(blocks).trimEnd()}\n`);
  }
  return EXIT_OK;
}

/** `appscli limits set`: a limit on one counter in place of those of gateway.yaml. */
export async function set(context: CommandContext, given: AmountOptions, fetch?: Fetch): Promise<number> {
  const wish = { of: partsIn(given), window: given.window, ...amountIn(given), reason: given.reason };
  const done = await withBackend(context, given, (backend) => backend.set(wish), fetch);
  if (given.json) return inJson(context, done);
  const { previous, now } = done;
  const { unit } = now;
  const before = previous === null ? '' : `, in place of ${amountWords(previous, unit)}`;
  say(context, `Set ${whoseWords(now)} to ${amountWords(wish.amount, unit)}${before}. In force from now on:`);
  return tellNow(context, now);
}

/** `appscli limits clear`: takes back what was set. Exits 1 when nothing is. */
export async function clear(
  context: CommandContext,
  given: Place & WhoseOptions & { readonly window: LimitWindow; readonly unit?: AmountUnit; readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const { window } = given;
  const only = unitOfWindow(window);
  const unit = given.unit ?? (only === undefined ? undefined : amountUnit(only));
  if (unit === undefined) throw usage('a minute can have a limit of requests and one of tokens: which? Give --unit');
  const done = await withBackend(
    context,
    given,
    (backend) => backend.clear({ of: partsIn(given), window, unit }),
    fetch,
  );
  if (given.json) return inJson(context, done);
  const { previous, now } = done;
  const was = previous === null ? '' : ` of ${amountWords(previous, now.unit)}`;
  say(context, `Took back the limit${was} for ${whoseWords(now)}. In force from now on:`);
  return tellNow(context, now);
}

/** `appscli limits grant`: room on top of a limit for a time. */
export async function grant(
  context: CommandContext,
  given: AmountOptions & { readonly expires: Date },
  fetch?: Fetch,
): Promise<number> {
  const { window, reason, expires } = given;
  const wish = { of: partsIn(given), window, ...amountIn(given), reason, expires };
  const done = await withBackend(context, given, (backend) => backend.grant(wish), fetch);
  if (given.json) return inJson(context, done);
  const { id, amount, unit, expires_at } = done.grant;
  const until = `until ${momentWords(expires_at)}`;
  say(context, `Grant ${id}: ${amountWords(amount, unit)} more for ${whoseWords(done.now)}, ${until}.`);
  return tellNow(context, done.now);
}

/** `appscli limits revoke`: ends a grant before its time. Exits 1 when there is none to end. */
export async function revoke(
  context: CommandContext,
  id: string,
  given: Place & { readonly json?: true },
  fetch?: Fetch,
): Promise<number> {
  const done = await withBackend(context, given, (backend) => backend.revoke(id), fetch);
  if (given.json) return inJson(context, done);
  const { amount, unit } = done.grant;
  say(context, `Revoked ${id}: ${amountWords(amount, unit)} for ${whoseWords(done.now)}. In force from now on:`);
  return tellNow(context, done.now);
}

async function withBackend<T>(
  context: CommandContext,
  { config, baseUrl }: Place,
  use: (backend: LimitBackend) => Promise<T>,
  fetch: Fetch | undefined,
): Promise<T> {
  if (baseUrl !== undefined) return use(limitsAtGateway(await openAtGateway(context, baseUrl, fetch)));
  return withDatabase(context, config, (opened) => use(limitsAtDatabase(opened.config, opened.database)));
}

function partsIn(given: WhoseOptions): LimitParts {
  return Object.fromEntries(
    SPEND_SCOPES.flatMap((scope) => (given[scope] === undefined ? [] : [[scope, given[scope]]])),
  );
}

function amountIn(given: AmountOptions): { readonly unit: AmountUnit; readonly amount: number } {
  const [unit, another] = AMOUNT_UNITS.filter((each) => given[each] !== undefined);
  if (unit === undefined) throw usage('how much? Give --usd, --requests or --tokens');
  if (another !== undefined) throw usage('give one of --usd, --requests and --tokens, not several');
  return { unit, amount: given[unit]! };
}

function titled(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`${title}:`, ...lines, ''];
}

function inJson({ terminal }: CommandContext, value: object): number {
  terminal.data(`${jsonText(value)}\n`);
  return EXIT_OK;
}

function tellNow(context: CommandContext, now: LimitInForce): number {
  context.terminal.words(printableLines(describeInForce(now)));
  for (const words of [noRoomWords(now), onlyWhereWords(now), nothingLimitedWords(now)]) {
    if (words !== undefined) say(context, words);
  }
  return EXIT_OK;
}

function say({ terminal }: CommandContext, words: string): void {
  terminal.words(printableLines(wrapText(words, WIDTH)));
}

function usage(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_USAGE });
}
