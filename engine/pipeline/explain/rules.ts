import type { GatewayConfig } from '../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../base/contract/errors.ts';
import { accessRules, formatRoute, formatUpstreams, routingRules } from '../../base/rules/config-rules.ts';
import { formatCondition } from '../../base/rules/format-condition.ts';
import { shownPath } from '../../base/source/diagnostics/render.ts';
import type { SourcePosition } from '../../base/source/node.ts';
import type { Loaded, StageEntry } from '../../base/source/spec.ts';
import { describeLimit, spendLimits } from '../../domain/budget/limits/spend-limits.ts';

/** A rule of the configuration with its position. */
export interface EffectiveRule {
  readonly kind: 'routing' | 'access' | 'spend' | 'guard' | 'on_error' | 'named';
  readonly name: string;
  readonly mode: 'enforce' | 'shadow';
  /** JSON-Logic after expansion; `true` for always. */
  readonly logic: unknown;
  readonly text: string;
  readonly effect: string;
  readonly file: string;
  readonly line: number;
}

/** A rule in words. The logic of an older configuration is unknown. */
export type RuleInWords = Omit<EffectiveRule, 'kind' | 'logic'> & { readonly kind: string; readonly logic?: unknown };

/** The effect of an access rule that matches. */
export const ACCESS_EFFECT = 'rejects: 403 forbidden';

/** Every rule of a configuration after expansion: those of gateway.yaml in order of evaluation, then those of each pipeline. */
export function effectiveRules(loaded: Loaded, config: GatewayConfig, cwd: string): EffectiveRule[] {
  const inForce = (
    kind: EffectiveRule['kind'],
    { name, logic, mode = 'enforce' }: { name: string; logic: unknown; mode?: EffectiveRule['mode'] },
    effect: string,
    position: SourcePosition | undefined,
  ): EffectiveRule => ({
    ...{ kind, name, mode, logic, text: logic === true ? 'always' : formatCondition(logic), effect },
    file: position === undefined ? 'gateway.yaml' : shownPath(position.file, cwd),
    line: position?.line ?? 1,
  });
  const at = (pointer: string) => loaded.positionOf(pointer);
  const default_at = at('/routing/default_upstream') ?? at('/routing/default_upstreams');
  const default_effect = `goes to ${formatUpstreams(config.routing.default_upstreams)}`;
  return [
    ...routingRules(config).map((rule) => inForce('routing', rule, `goes to ${formatRoute(rule)}`, at(rule.pointer))),
    { ...inForce('routing', { name: 'default', logic: true }, default_effect, default_at), text: 'otherwise' },
    ...accessRules(config).map((rule) => inForce('access', rule, ACCESS_EFFECT, at(rule.pointer))),
    ...spendLimits(config).map((limit) =>
      inForce('spend', limit, `at most ${describeLimit(limit, config.spend_limits?.time_zone)}`, at(limit.pointer)),
    ),
    ...loaded.pipelines.flatMap((pipeline) => [
      ...pipeline.rules.map(({ name, logic, position }) =>
        inForce('named', { name: `${pipeline.name}/${name}`, logic }, 'names this condition', position),
      ),
      ...(['stages', 'on_error', 'finally'] as const).flatMap((list) =>
        pipeline[list].flatMap((entry) => {
          const errors = 'errors' in entry ? (entry.errors as readonly string[] | undefined) : undefined;
          const { id, mode, when, position, when_position = position } = entry;
          if (when === undefined && errors === undefined) return [];
          const rule = { name: `${pipeline.name}/${id}`, mode, logic: when ?? true };
          const handled = errors === undefined ? '' : ` for ${errors.join(', ')}`;
          const kind = list === 'on_error' ? 'on_error' : 'guard';
          return inForce(kind, rule, `${effectOf(entry)}${handled}`, when_position);
        }),
      ),
    ]),
  ];
}

function effectOf({ definition, options: all, id }: StageEntry): string {
  const options = all as { readonly error?: ErrorCode; readonly status?: number };
  if (definition.name === 'reject' && options.error !== undefined) {
    return `rejects: ${options.status ?? ERRORS[options.error].status} ${options.error}`;
  }
  if (definition.name === 'respond') return `responds: ${options.status ?? 200}`;
  return definition.terminal ? `responds by ${id}` : `runs ${id}`;
}

/** Titles of the kinds of rules, in display order. */
export const RULE_TITLES: Readonly<Record<EffectiveRule['kind'], string>> = {
  routing: 'Routing: the first match decides',
  access: 'Access: any match rejects',
  spend: 'Spending: every limit that applies must have headroom',
  guard: 'Guards of stages',
  on_error: 'Error handlers: the first match',
  named: 'Named rules',
};
