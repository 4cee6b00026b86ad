import type { GatewayConfig } from '../contract/config.ts';
import { ERRORS, type ErrorCode } from '../contract/errors.ts';
import { describeLimit, spendLimits } from '../money/limits/spend-limits.ts';
import { accessRules, formatRoute, formatUpstreams, routingRules } from '../rules/config-rules.ts';
import { formatCondition } from '../rules/format-condition.ts';
import { shownPath } from '../source/diagnostics/render.ts';
import type { SourcePosition } from '../source/node.ts';
import type { Loaded, StageEntry } from '../source/spec.ts';

/** A rule in force with the position it comes from. */
export interface EffectiveRule {
  readonly kind: 'routing' | 'access' | 'spend' | 'guard' | 'on_error' | 'named';
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** JSON-Logic after expansion; `true` for always. */
  readonly logic: unknown;
  readonly text: string;
  /** What happens when it holds. */
  readonly effect: string;
  readonly file: string;
  readonly line: number;
}

/** A rule as it is told; of a configuration that is no longer in force nobody knows the logic. */
export type RuleInWords = Omit<EffectiveRule, 'kind' | 'logic'> & { readonly kind: string; readonly logic?: unknown };

/** Every rule of a configuration after expansion: of gateway.yaml in the order of decision, then of each pipeline. */
export function effectiveRules(loaded: Loaded, config: GatewayConfig, cwd: string): EffectiveRule[] {
  const at = (position: SourcePosition | undefined) => ({
    file: position === undefined ? 'gateway.yaml' : shownPath(position.file, cwd),
    line: position?.line ?? 1,
  });
  const format = (logic: unknown) => (logic === true ? 'always' : formatCondition(logic));
  const routing = routingRules(config).map((rule): EffectiveRule => {
    const { index, name, mode, logic } = rule;
    const position = loaded.positionOf(`/routing/rules/${index}`);
    return {
      kind: 'routing',
      name,
      mode,
      logic,
      text: format(logic),
      effect: `goes to ${formatRoute(rule)}`,
      ...at(position),
    };
  });
  const otherwise: EffectiveRule = {
    kind: 'routing',
    name: 'default',
    mode: 'enforce',
    logic: true,
    text: 'otherwise',
    effect: `goes to ${formatUpstreams(config.routing.default_upstreams)}`,
    ...at(loaded.positionOf('/routing/default_upstream') ?? loaded.positionOf('/routing/default_upstreams')),
  };
  const access = accessRules(config).map(({ index, name, mode, logic }): EffectiveRule => {
    const position = loaded.positionOf(`/access/rules/${index}`);
    return { kind: 'access', name, mode, logic, text: format(logic), effect: ACCESS_EFFECT, ...at(position) };
  });
  return [
    ...routing,
    otherwise,
    ...access,
    ...spendingRules(loaded, config, at, format),
    ...pipelineRules(loaded, at, format),
  ];
}

/** What becomes of a request for which an access rule holds. */
export const ACCESS_EFFECT = 'refuses: 403 forbidden';

type At = (position: SourcePosition | undefined) => { file: string; line: number };
type FormatLogic = (logic: unknown) => string;

function spendingRules(loaded: Loaded, config: GatewayConfig, at: At, format: FormatLogic): EffectiveRule[] {
  return spendLimits(config).map((limit) => ({
    kind: 'spend',
    name: limit.name,
    mode: limit.mode,
    logic: limit.logic,
    text: format(limit.logic),
    effect: `at most ${describeLimit(limit, config.spend_limits?.time_zone)}`,
    ...at(loaded.positionOf(limit.pointer)),
  }));
}

/** What an entry does to the requests that its guard lets through. */
function effectOf({ definition, options, id }: StageEntry): string {
  const given = options as { readonly error?: ErrorCode; readonly status?: number };
  if (definition.name === 'fail' && given.error !== undefined) {
    return `refuses: ${given.status ?? ERRORS[given.error].status} ${given.error}`;
  }
  if (definition.name === 'answer') return `answers: ${given.status ?? 200}`;
  return definition.terminal ? `answers by ${id}` : `runs ${id}`;
}

function pipelineRules({ pipelines }: Loaded, at: At, format: FormatLogic): EffectiveRule[] {
  return pipelines.flatMap((pipeline) => [
    ...pipeline.rules.map(
      ({ name, logic, position }): EffectiveRule => ({
        kind: 'named',
        name: `${pipeline.name}/${name}`,
        mode: 'enforce',
        logic,
        text: format(logic),
        effect: 'is a name for this condition',
        ...at(position),
      }),
    ),
    ...(['stages', 'on_error', 'finally'] as const).flatMap((list) =>
      pipeline[list].flatMap((entry): EffectiveRule[] => {
        const errors = 'errors' in entry ? (entry.errors as readonly string[] | undefined) : undefined;
        if (entry.when === undefined && errors === undefined) return [];
        const logic = entry.when ?? true;
        const handled = errors === undefined ? '' : ` for ${errors.join(', ')}`;
        return [
          {
            kind: list === 'on_error' ? 'on_error' : 'guard',
            name: `${pipeline.name}/${entry.id}`,
            mode: entry.mode,
            logic,
            text: format(logic),
            effect: `${effectOf(entry)}${handled}`,
            ...at(entry.when_position ?? entry.position),
          },
        ];
      }),
    ),
  ]);
}

/** What rules of a kind do, as a title above them; in the order to be shown. */
export const RULE_TITLES: Readonly<Record<EffectiveRule['kind'], string>> = {
  routing: 'Routing: the first that holds decides',
  access: 'Access: whatever holds refuses',
  spend: 'Spending: every limit that applies must have room',
  guard: 'Guards of stages',
  on_error: 'Answers to errors: the first that holds',
  named: 'Names for conditions',
};
