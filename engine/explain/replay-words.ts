import { DROP_REASONS } from '../contract/forwarding.ts';
import type { AuditRecord } from '../contract/services.ts';
import { formatUsd, usdToNano } from '../kit/money.ts';
import { describeCounter } from '../money/limits/spend-limits.ts';
import type { Decision, DryRun } from './dry-run.ts';
import type { LimitStep } from './limits.ts';
import type { ToldReason } from './told.ts';
import { describeReason } from './words.ts';

const reasonsOf = ({ reasons }: Decision): ToldReason[] =>
  reasons.map((reason) => ({ held: reason.held, words: describeReason(reason) }));

function limitWords({ scope, key, unit, limit, spent, reserved, needed, window, room }: LimitStep): string {
  const shown = (amount: number) => (unit === 'usd' ? `${formatUsd(usdToNano(amount))} USD` : `${amount} ${unit}`);
  const per = window === 'open' ? 'at once' : `per ${window}`;
  const used = `${shown(spent + reserved)} of ${shown(limit)} ${per} used now`;
  return `${describeCounter({ scope, key })}: ${used}, likely to need ${shown(needed)}: ${room ? 'there is room' : 'no room'}`;
}

/** The first thing that a request would come to now, in one sentence. */
function outcomeOf({ stages, limits, facts, routing }: DryRun): {
  readonly would: 'go_out' | 'refused' | 'unknown';
  readonly words: string;
} {
  const raised = stages.find((stage) => stage.raised !== undefined)?.raised;
  if (raised !== undefined)
    return { would: 'refused', words: `It would be refused now: ${raised.message} (${raised.code ?? 'error'}).` };
  const full = limits.find(({ room }) => !room);
  if (full !== undefined)
    return { would: 'refused', words: `It would be refused now by the limit ${full.rule}: ${limitWords(full)}.` };
  const unknown = stages.find(({ fate }) => fate === 'unknown');
  const upstream = facts['route.upstream'];
  if (upstream === undefined)
    return { would: 'unknown', words: 'Nothing that was kept of it tells where it would go now.' };
  const rule = routing.find(({ held, mode }) => held && mode === 'enforce');
  const route = facts['route.rule'] === undefined ? 'its pipeline' : 'the default route';
  const by = rule === undefined ? route : `the rule ${rule.name}`;
  const unless = unknown === undefined ? '' : ` The stage ${unknown.id} depends on what was not kept.`;
  return { would: 'go_out', words: `It would go to ${String(upstream)} now, by ${by}.${unless}` };
}

/** What the configuration in force would make of a request of the past, in words. */
export function tellReplay(run: DryRun, record: AuditRecord) {
  const { would, words } = outcomeOf(run);
  const was = typeof record.upstream === 'string' && record.error === null ? record.upstream : undefined;
  const is_same = would === 'go_out' ? was === run.facts['route.upstream'] : would === 'refused' && was === undefined;
  return {
    would,
    words: `${words}${is_same ? ' As it did then.' : ''}`,
    pipeline: run.pipeline,
    stages: run.stages
      .filter(({ fate, list }) => fate !== 'unreached' && list !== 'on_error')
      .map((stage) => ({
        id: stage.id,
        fate: stage.fate as 'runs' | 'skipped' | 'unknown',
        missing: [...(stage.missing ?? [])],
        condition: stage.guard?.text ?? null,
        reasons: stage.guard === undefined ? [] : reasonsOf(stage.guard),
        raised: stage.raised?.message ?? null,
      })),
    rules: run.routing.map((rule) => ({
      name: rule.name,
      mode: rule.mode,
      held: rule.after_decision ? null : rule.held,
      condition: rule.text,
      effect: rule.effect,
      reasons: reasonsOf(rule),
    })),
    upstreams: run.upstreams.map(({ upstream, dropped }) =>
      dropped === undefined ? upstream : `${upstream}: ${DROP_REASONS[dropped]}`,
    ),
    limits: run.limits.map((limit) => ({ rule: limit.rule, room: limit.room, words: limitWords(limit) })),
  };
}
