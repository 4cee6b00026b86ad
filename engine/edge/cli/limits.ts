import { SPEND_SCOPES, type SpendScope } from '../../base/contract/config.ts';
import type { LimitWindow } from '../../base/contract/services.ts';
import { perWindow } from '../../base/contract/windows.ts';
import { printable, printableLines } from '../../base/kit/text/printable.ts';
import {
  AMOUNT_UNITS,
  type AmountUnit,
  amountUnit,
  describeNothingLimited,
  describePersonal,
  describeUnlimited,
  describeWhere,
  describeWhose,
  formatAmount,
  formatShownUsd,
  partsToFind,
  unitOfWindow,
} from '../../domain/budget/limits/limit-names.ts';
import type { LimitInForce as Limit, WrittenLimit } from '../../domain/budget/limits/limit-statuses.ts';
import { partsIn } from '../admin/limits.ts';
import type { InJson } from '../admin/operations.ts';
import { type AnswerOf, type CommandOptions, type OperationRow, operation } from './admin.ts';
import { type CommandContext, type CommandRow, EXIT_OK, expiryThere, required, usageError } from './commands.ts';
import { fields } from './gateway-admin.ts';
import { apart, formatMoment, paragraph, say, showReport, showResult } from './output.ts';

type LimitInForce = InJson<Limit>;

type WhoseOptions = Readonly<Partial<Record<SpendScope, string>>>;

interface LimitOptions extends WhoseOptions {
  readonly window: LimitWindow;
}

type AmountOptions = LimitOptions & Readonly<Partial<Record<AmountUnit, number>>> & { readonly reason?: string };
type ClearOptions = LimitOptions & { readonly unit?: AmountUnit };

function unitMeant({ window, unit }: ClearOptions): AmountUnit | undefined {
  const only = unitOfWindow(window);
  return unit ?? (only === undefined ? undefined : amountUnit(only));
}

function assertOneAmount(options: AmountOptions): void {
  const [unit, another] = AMOUNT_UNITS.filter((each) => options[each] !== undefined);
  if (unit === undefined) throw usageError('no amount: use --usd, --requests or --tokens');
  if (another !== undefined) throw usageError('--usd, --requests and --tokens exclude each other');
}

function titled(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`${title}:`, ...lines];
}

function showNow(context: CommandContext, now: InJson<LimitInForce>): void {
  context.terminal.info(printableLines(describeInForce(now)));
  for (const text of [describeNoRoom(now), describeWhere(now), describeNothingLimited(now)]) {
    if (text !== undefined) say(context, text);
  }
}

const INDENT = '    ';
function describeInForce(limit: LimitInForce): string[] {
  const { unit, set, grants, rules, time_zone } = limit;
  const amount = (value: number) => formatAmount(value, unit);
  const in_force = limit.limit === null ? describeUnlimited(limit) : amount(limit.limit);
  const because = (reason: string | null) => (reason === null ? '' : `: ${printable(reason)}`);
  const at = (moment: string) => formatMoment(moment, time_zone);
  const from = [
    formatStatus(limit),
    describePersonal(limit),
    limit.counted ? undefined : 'gateway.yaml has no such limit: set or granted amounts have no effect',
    set && `set to ${amount(set.limit)}${byWhom(set.set_by)}, ${at(set.set_at)}${because(set.reason)}`,
    ...grants.map((grant) => {
      const by = `${byWhom(grant.granted_by)}${because(grant.reason)}`;
      return `plus ${amount(grant.amount)} until ${at(grant.expires_at)}, ${grant.id}${by}`;
    }),
    ...rules.map((rule) => `gateway.yaml: ${formatRule(limit, rule)}`),
  ].filter((line) => typeof line === 'string');
  return [
    ...paragraph(`${describeWhose(limit)}: ${in_force}`, '', INDENT),
    ...from.flatMap((line) => paragraph(line, INDENT, `${INDENT}  `)),
  ];
}

function byWhom(who: string | null): string {
  return who === null ? '' : ` by ${printable(who)}`;
}

function describeNoRoom({ limit, room, spent, unit, window, resets_at, time_zone }: LimitInForce): string | undefined {
  if (limit === null || room !== 0) return undefined;
  if (limit === 0) return 'A limit of 0 rejects every request.';
  if (window === 'open') return 'The limit is reached: further requests are rejected until some in flight finish.';
  const until = resets_at === null ? '' : ` until ${formatMoment(resets_at, time_zone)}`;
  if (spent < limit)
    return 'Requests in flight have reserved the remainder: further ones are rejected until some finish.';
  return `Already ${verbFor(unit)} ${formatAmount(spent, unit)}: further requests are rejected${until}.`;
}

function describeWritten(written: readonly WrittenLimit[]): string[] {
  return written.flatMap(({ rule, scope, window, unit, limit, by_group, mode, always, condition }) => {
    const amounts = formatAmounts({ limit, by_group }, unit);
    const scopes = scope.split('+').filter((each) => each !== 'rule');
    const each = `each ${scopes.join(' and ')} ${perWindow(window)}`;
    const matching = scope.endsWith('+rule');
    const extra = [forWhich({ always, condition }, matching), mode === 'shadow' ? ', shadow mode (only recorded)' : ''];
    return paragraph(`${rule}: ${amounts}, ${each}${extra.join('')}`, '', INDENT);
  });
}

function formatAmounts({ limit, by_group }: Pick<WrittenLimit, 'limit' | 'by_group'>, unit: AmountUnit): string {
  const amounts = [
    ...Object.entries(by_group ?? {}).map(([group, most]) => `${formatAmount(most, unit)} for ${group}`),
    ...(limit === null ? [] : [`${formatAmount(limit, unit)}${by_group === null ? '' : ' for others'}`]),
  ];
  return amounts.length === 0 ? 'by group' : amounts.join(', ');
}

function forWhich({ always, condition }: Pick<WrittenLimit, 'always' | 'condition'>, matching: boolean): string {
  if (condition === null) return always ? '' : ', for some requests';
  return matching ? `, counting only requests where ${condition}` : `, for requests where ${condition}`;
}

function verbFor(unit: AmountUnit): string {
  return unit === 'usd' ? 'spent' : 'used';
}

function formatStatus({ window, unit, spent, reserved, in_flight, room, resets_at, time_zone }: LimitInForce): string {
  const bare = (value: number) => (unit === 'usd' ? formatShownUsd(value) : String(value));
  const left = room === null ? '' : `, ${bare(room)} left`;
  if (window === 'open') return `${in_flight} in flight${left}`;
  const in_flight_part =
    reserved === 0 ? '' : `, ${bare(reserved)} reserved by ${formatAmount(in_flight, 'requests')} in flight`;
  const resets = resets_at === null ? '' : `; resets ${formatMoment(resets_at, time_zone)}`;
  return `${formatAmount(spent, unit)} ${verbFor(unit)}${in_flight_part}${left}${resets}`;
}

function formatRule({ unit, set, of }: LimitInForce, rule: LimitInForce['rules'][number]): string {
  const { limit, by_group, mode, always, condition } = rule;
  const name = `${formatAmounts({ limit, by_group }, unit)} (${printable(rule.rule)})`;
  const which = printable(
    forWhich({ always: always || limit === null || by_group !== null, condition }, of.rule !== undefined),
  );
  if (mode === 'shadow') return `${name}, shadow mode (only recorded)${which}`;
  return set === null ? `${name}${which}` : `${name}, replaced`;
}

const WHOSE = fields('listLimits', ...SPEND_SCOPES);
const WHICH = [...WHOSE, ...fields('setLimit', 'window')];
const AMOUNT = [...WHICH, ...fields('setLimit', 'usd', 'requests', 'tokens', 'reason')];

function change<Name extends 'setLimit' | 'clearLimit' | 'grantLimit' | 'revokeGrant', Options>(
  name: Name,
  {
    sentence,
    ...row
  }: OperationRow<AnswerOf<Name>, Options> & {
    sentence(done: AnswerOf<Name>, options: CommandOptions<Options>): string;
  },
): CommandRow {
  return operation<Name, Options>(name, {
    ...row,
    show: (context, done, options) =>
      showResult(context, done as object, options.json, () => {
        say(context, sentence(done, options));
        showNow(context, done.now);
      }),
  });
}

export const commands: readonly CommandRow[] = [
  operation<'listLimits', WhoseOptions>('listLimits', {
    name: 'list',
    about: 'list limits: in force, spent, reserved, left; without filters the most important ones',
    options: WHOSE,
    examples: ['appscli limits list', 'appscli limits list --user ana@example.com --team search'],
    call: (admin, options) => admin('listLimits', partsToFind(partsIn(options))),
    show(context, found, options) {
      const { written, limits } = found;
      if (!options.json && written.length === 0 && limits.length === 0) {
        context.terminal.info('No matching limits.\n');
        return EXIT_OK;
      }
      const changed = limits.filter(({ set, grants }) => set !== null || grants.length > 0);
      const others = limits.filter((limit) => !changed.includes(limit));
      const at_a_glance = Object.keys(partsIn(options)).length === 0 && written.length > 0;
      return showReport(context, options.json, found, () => {
        const blocks = at_a_glance
          ? [
              titled('In gateway.yaml', describeWritten(written)),
              titled('Set or granted', changed.flatMap(describeInForce)),
              titled('Nearest to their limit', others.flatMap(describeInForce)),
            ]
          : [
              limits.flatMap(describeInForce),
              titled('Also in gateway.yaml for their requests', describeWritten(written)),
            ];
        return apart(blocks);
      });
    },
  }),
  change<'setLimit', AmountOptions>('setLimit', {
    name: 'set',
    about: 'override a limit of gateway.yaml; applies from the next request',
    options: AMOUNT,
    json: 'print a JSON object: the previous override, and the counter',
    examples: [
      'appscli limits set --user ana@example.com --window day --usd 100',
      'appscli limits set --team search --model coder-1 --window month --usd 500',
      'appscli limits set --user ana@example.com --window minute --tokens 90000',
    ],
    check: assertOneAmount,
    sentence({ previous, now }, options) {
      const before = previous === null ? '' : `, replacing ${formatAmount(previous, now.unit)}`;
      const amount = formatAmount(options[now.unit]!, now.unit);
      return `Set ${describeWhose(now)} to ${amount}${before}. In force now:`;
    },
  }),
  change<'clearLimit', ClearOptions>('clearLimit', {
    name: 'clear',
    about: 'remove an override; the limits of gateway.yaml apply again',
    options: [...WHICH, ...fields('clearLimit', 'unit')],
    json: 'print a JSON object: the removed override, and the counter',
    examples: ['appscli limits clear --user ana@example.com --window day'],
    check(options) {
      if (unitMeant(options) !== undefined) return;
      throw usageError('window minute has limits of requests and of tokens: choose one with --unit');
    },
    input: (options) => ({ unit: unitMeant(options) }),
    sentence({ previous, now }) {
      const was = previous === null ? '' : ` of ${formatAmount(previous, now.unit)}`;
      return `Removed the limit${was} for ${describeWhose(now)}. In force now:`;
    },
  }),
  change<'grantLimit', AmountOptions & { readonly expires: Date | string }>('grantLimit', {
    name: 'grant',
    about: 'raise a limit temporarily',
    options: [
      ...AMOUNT,
      required(
        '--expires <when>',
        'end of the grant, at most a year from now: 3d, 12h or a date; a grant ends when that day begins (spend_limits.time_zone)',
        expiryThere,
      ),
    ],
    json: 'print a JSON object: the grant, and the counter',
    examples: [
      'appscli limits grant --user ana@example.com --window day --usd 20 --expires 3d',
      'appscli limits grant --team search --window month --usd 9 --expires 12h',
      'appscli limits grant --user ana@example.com --team search --window month \\\n    --usd 40 --expires 2027-01-30',
    ],
    check: assertOneAmount,
    // A date begins in the time zone of the gateway, which resolves it.
    input: ({ expires }) =>
      typeof expires === 'string' ? { expires_on: expires } : { expires_at: expires.toISOString() },
    sentence({ grant: { id, amount, unit, expires_at }, now }) {
      const until = `until ${formatMoment(expires_at, now.time_zone)}`;
      return `Grant ${id}: ${formatAmount(amount, unit)} more for ${describeWhose(now)}, ${until}.`;
    },
  }),
  change<'revokeGrant', { readonly id: string }>('revokeGrant', {
    name: 'revoke',
    about: 'end a grant early',
    arguments: [['<id>', 'id of the grant, see limits list']],
    json: 'print a JSON object: the grant, and the counter',
    examples: ['appscli limits revoke grt_1a2b3c4d5e6f7'],
    sentence: ({ grant: { amount, unit }, now }, { id }) =>
      `Revoked ${id}: ${formatAmount(amount, unit)} for ${describeWhose(now)}. In force now:`,
  }),
];
