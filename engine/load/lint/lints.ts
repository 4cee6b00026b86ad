import type { GatewayConfig } from '../../contract/config.ts';
import { ERRORS, type ErrorCode } from '../../contract/errors.ts';
import type { FactPath } from '../../contract/facts.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { routingRules } from '../../rules/config-rules.ts';
import { coverAll, implies } from '../../rules/guards.ts';
import { simplify } from '../../rules/simplify.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, type MapNode, type Mark, nodeAt } from '../../source/node.ts';
import type { PipelineSpec } from '../../source/spec.ts';
import { isAudit, isEnforced, type LinkedPipeline } from '../flow.ts';
import type { LinkedStage } from '../link/link-stages.ts';
import { constantGuard } from './constant-guard.ts';
import { lintRewriting } from './lint-rewriting.ts';

/** Codes the engine itself raises around any stage. */
const ENGINE_CODES: readonly ErrorCode[] = ['bad_http', 'draining', 'internal_error', 'stage_failed'];

/** Codes that streaming an upstream's response raises. */
const RELAY_CODES: readonly ErrorCode[] = ['upstream_failed', 'upstream_timeout'];

/** A check that requests should pass before or while they are sent out, known by the fact it writes. */
interface Safeguard {
  readonly code: 'W7010' | 'W7011' | 'W7012';
  readonly writes: FactPath;
  readonly stage: string;
  readonly missing: string;
  readonly why: string;
  /** Codes that only its stage raises; a clause for them is missing the stage, not wrong. */
  readonly raises: readonly ErrorCode[];
}

const SAFEGUARDS: readonly Safeguard[] = [
  {
    code: 'W7010',
    writes: 'principal.id',
    stage: 'authenticate',
    missing: 'anybody who reaches the gateway can spend your money:',
    why: 'nothing above asks who is calling',
    raises: ['credential_missing', 'credential_invalid', 'credential_expired', 'credential_revoked'],
  },
  {
    code: 'W7011',
    writes: 'spend.reserved_nano_usd',
    stage: 'check-budget',
    missing: 'no spend limit applies to what is sent:',
    why: 'nothing above reserves a budget',
    raises: ['spend_limit_exceeded'],
  },
  {
    code: 'W7012',
    writes: 'usage.cost_nano_usd',
    stage: 'meter-usage',
    missing: 'what requests use is not measured:',
    why: 'nothing above reads the response',
    raises: [],
  },
];

/**
 * Warns about a pipeline that runs, but probably leaves a way open that nobody meant to.
 * @param isShared whether what stands there serves pipelines that differ in what they match.
 */
export function lintPipeline(
  pipeline: LinkedPipeline,
  match: PipelineSpec['match'],
  isShared: (mark: Mark) => boolean,
  findings: Findings,
): void {
  const at = pipeline.stages.findIndex(
    (stage) => isEnforced(stage) && stage.entry.definition.terminal && stage.entry.definition.needs.includes('network'),
  );
  if (at >= 0) {
    const sender = pipeline.stages[at]!;
    for (const safeguard of SAFEGUARDS) lintSafeguard(sender, pipeline.stages.slice(0, at), safeguard, findings);
    lintAudit(sender, pipeline, findings);
  }
  lintRewriting(pipeline, at >= 0, findings);
  lintErrorCodes(pipeline, at >= 0, findings);
  lintTwins(pipeline.stages, findings);
  lintTwins(pipeline.finally, findings);
  for (const stage of [...pipeline.stages, ...pipeline.on_error, ...pipeline.finally])
    lintGuard(stage, match, isShared, findings);
}

function lintSafeguard(
  sender: LinkedStage,
  above: readonly LinkedStage[],
  { code, writes, stage, missing, why }: Safeguard,
  findings: Findings,
): void {
  const all = above.filter(({ entry }) => entry.definition.writes.includes(writes));
  const [first, ...more] = all.filter(isEnforced);
  const sends = quote(sender.entry.id);
  if (first === undefined) {
    const [shadow] = all;
    const reason = shadow === undefined ? why : `${quote(shadow.entry.id)} is in shadow mode and never runs`;
    const help = shadow === undefined ? `add \`- stage: ${stage}\` above ${sends}` : 'remove `mode: shadow`';
    findings.report(code, (shadow ?? sender).mark, `${missing} ${reason}`, { help });
    return;
  }
  const candidates = [first, ...more];
  const ways = [
    ...candidates.filter(({ entry }) => implies(sender.entry.when, entry.when)).map((stage) => [stage]),
    ...candidates.flatMap((one) =>
      more.filter((other) => coverAll(one.entry.when, other.entry.when)).map((other) => [one, other]),
    ),
  ];
  if (ways.some((way) => way.every(({ entry }) => entry.fail_closed))) return;
  const open = ways[0]?.find(({ entry }) => !entry.fail_closed);
  if (open !== undefined) {
    const id = quote(open.entry.id);
    findings.report('W7024', open.mark, `requests that ${id} fails on reach ${sends} without it`, {
      help: 'remove `fail_closed: false`: such requests are then refused',
    });
    return;
  }
  const message = `requests that its guard leaves out reach ${sends} without ${quote(first.entry.id)}`;
  findings.report('W7015', first.mark, message, {
    help: `remove the guard of ${quote(first.entry.id)}, or put the same one on ${sends}`,
  });
}

function lintAudit(sender: LinkedStage, pipeline: LinkedPipeline, findings: Findings): void {
  if (pipeline.finally.some((stage) => isAudit(stage) && isEnforced(stage) && stage.entry.when === undefined)) return;
  // What may rewrite bodies unrecorded is an error already.
  if (pipeline.stages.some((stage) => isEnforced(stage) && stage.entry.definition.needs.includes('rewrite-body')))
    return;
  const audit = pipeline.finally.find(isAudit);
  const message =
    audit === undefined
      ? `nothing records who sends what through ${quote(sender.entry.id)}`
      : `${quote(audit.entry.id)} does not record every request that goes through ${quote(sender.entry.id)}`;
  findings.report('W7013', (audit ?? sender).mark, message, {
    help: audit === undefined ? 'add to the pipeline: finally: [{ stage: audit }]' : 'remove its guard and its `mode`',
  });
}

/** Codes one entry can raise. A stage that can raise them all, such as fail, names the one it does in its options. */
function codesOf({ entry }: LinkedStage): readonly ErrorCode[] {
  const { raises } = entry.definition;
  const { error } = entry.options as { error?: ErrorCode };
  const any = raises.length === Object.keys(ERRORS).length;
  return any && error !== undefined ? [error] : raises;
}

function lintErrorCodes({ stages, on_error }: LinkedPipeline, relays: boolean, findings: Findings): void {
  const raised = new Set<ErrorCode>([...ENGINE_CODES, ...(relays ? RELAY_CODES : [])]);
  for (const { writes, raises } of relays ? SAFEGUARDS : []) {
    if (!stages.some(({ entry }) => entry.definition.writes.includes(writes)))
      for (const code of raises) raised.add(code);
  }
  for (const stage of stages.filter(isEnforced)) for (const code of codesOf(stage)) raised.add(code);
  for (const { error_marks } of on_error) {
    for (const [code, mark] of error_marks) {
      if (raised.has(code)) continue;
      findings.report('W7014', mark, `no stage of this pipeline raises ${code}`, {
        help: 'remove the code, or name the one that is meant',
      });
    }
  }
}

function sameText(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function lintTwins(stages: readonly LinkedStage[], findings: Findings): void {
  stages.forEach(({ entry, mark }, index) => {
    const { definition, options, when, mode } = entry;
    const earlier = stages.slice(0, index).find(({ entry: other }) => {
      if (other.definition !== definition || other.mode !== mode || !sameText(other.when, when)) return false;
      return definition.terminal || sameText(other.options, options);
    });
    if (earlier === undefined) return;
    const other = quote(earlier.entry.id);
    const effect = definition.terminal
      ? `${other} has already answered`
      : `${other} has the same stage, options and guard`;
    findings.report('W7016', mark, `the stage does nothing more: ${effect}`, { help: 'remove one of the two' });
  });
}

function lintGuard(
  stage: LinkedStage,
  match: PipelineSpec['match'],
  isShared: (mark: Mark) => boolean,
  findings: Findings,
): void {
  const { guard_mark, guard_linted } = stage;
  const { when } = stage.entry;
  if (guard_mark === undefined || guard_linted || isShared(guard_mark)) return;
  if (typeof simplify(when, new Map()) === 'boolean') return;
  const outcome = constantGuard(when, match);
  if (outcome === undefined) return;
  const message = outcome
    ? 'the guard holds for every request the pipeline serves'
    : 'the entry never runs: its guard holds for no request the pipeline serves';
  const served = `${match.methods.join(', ')} on ${match.paths.join(', ')}`;
  findings.report('W7018', guard_mark, message, { help: `the pipeline serves ${served}, protocol ${match.protocol}` });
}

/** What a routing rule asks for: the models it is for, and its other conditions, each as text. */
interface RouteDemand {
  readonly models: ReadonlySet<string>;
  readonly conditions: ReadonlySet<string>;
}

function conditionsOf(logic: unknown): readonly string[] {
  if (logic === true) return [];
  const both = (logic as { and?: readonly unknown[] }).and;
  return both === undefined ? [JSON.stringify(logic)] : both.flatMap(conditionsOf);
}

function isWithin(part: ReadonlySet<string>, whole: ReadonlySet<string>): boolean {
  for (const item of part) if (!whole.has(item)) return false;
  return true;
}

function demandsOf(config: GatewayConfig): readonly RouteDemand[] {
  const { rules } = config.routing;
  const ids = config.models.map(({ id }) => id);
  const others = rules.map(({ models: _models, ...rest }) => rest);
  return routingRules({ ...config, routing: { ...config.routing, rules: others } }).map(({ logic, index }) => {
    const globs = rules[index]!.models;
    return {
      models: new Set(ids.filter((id) => globs?.some((glob) => matchesGlob(glob, id)) ?? true)),
      conditions: new Set(conditionsOf(logic)),
    };
  });
}

/** Warns about routing rules of gateway.yaml that never match because an earlier one always does. */
export function lintRouting(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const { rules } = config.routing;
  const demands = demandsOf(config);
  rules.forEach((rule, index) => {
    if (rule.mode === 'shadow') return;
    const { models, conditions } = demands[index]!;
    const earlier = rules.find((other, i) => {
      if (i >= index || other.mode === 'shadow') return false;
      return isWithin(demands[i]!.conditions, conditions) && isWithin(models, demands[i]!.models);
    });
    // A rule for models that do not exist is reported as that.
    if (earlier === undefined || models.size === 0) return;
    const rule_node = nodeAt(root, `/routing/rules/${index}`);
    const { mark } = childOf(rule_node, 'name') ?? rule_node;
    findings.report(
      'W7017',
      mark,
      `the rule never matches: ${quote(earlier.name)} above it matches whatever it would`,
      {
        help: `move it above ${quote(earlier.name)}, or remove one of the two`,
      },
    );
  });
}
