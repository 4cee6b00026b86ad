/** Coverage: the decisions of a configuration, and the outcomes that tests have seen. */

import { compileCondition } from '../../../base/rules/compile.ts';
import { type AccessRule, accessRules, routingRules } from '../../../base/rules/config-rules.ts';
import type { SourcePosition } from '../../../base/source/node.ts';
import type { Loaded, PipelineSpec } from '../../../base/source/spec.ts';
import { spendLimits } from '../../../domain/budget/limits/spend-limits.ts';
import { constantGuard } from '../../../pipeline/load/lints.ts';
import type { Played } from './play.ts';

/** A decision and its outcomes, each with whether a test saw it. */
export interface Point {
  readonly position: SourcePosition;
  readonly kind: 'guard' | 'on_error' | 'routing rule' | 'access rule' | 'spend rule';
  readonly name: string;
  readonly outcomes: Map<string, boolean>;
  /** The entry it is part of: a fragment is seen in each of its uses. */
  readonly use?: { readonly pipeline: string; readonly id: string };
}

/** A record of decisions seen. */
export type Coverage = ReturnType<typeof createCoverage>;

function keyOf({ position, kind, use }: Pick<Point, 'position' | 'kind' | 'use'>): string {
  return [kind, placeOf(position), use?.pipeline, use?.id].join('\n');
}

const placeOf = ({ file, line, column }: SourcePosition): string => `${file}\n${line}\n${column}`;

export function createCoverage() {
  const points = new Map<string, Point>();

  function expectPoint(point: Omit<Point, 'outcomes'>, outcomes: readonly string[]): void {
    const key = keyOf(point);
    if (!points.has(key)) points.set(key, { ...point, outcomes: new Map(outcomes.map((each) => [each, false])) });
  }

  function expectStages(spec: PipelineSpec, isOurs: (position: SourcePosition) => boolean): void {
    const { name: pipeline, file, match, stages, on_error, finally: last } = spec;
    for (const { id, when, when_position: position } of [...stages, ...on_error, ...last]) {
      if (position === undefined || !isOurs(position)) continue;
      // A guard of `all_pipelines` may be constant in a pipeline, for example on its paths.
      const constant = position.file === file ? undefined : constantGuard(when, match);
      const point = { position, kind: 'guard', name: id, use: { pipeline, id } } as const;
      if (constant === undefined) expectPoint(point, ['true', 'false']);
    }
    // A clause in shadow mode is never entered.
    for (const { position, id, mode } of on_error) {
      if (mode === 'shadow' || !isOurs(position)) continue;
      expectPoint({ position, kind: 'on_error', name: id, use: { pipeline, id } }, ['entered']);
    }
  }

  function expectRules({ config, positionOf }: Loaded, file: string): void {
    if (config === undefined) return;
    const expectRule = (pointer: string, kind: Point['kind'], name: string, outcomes: readonly string[]) => {
      const position = positionOf(pointer);
      if (position?.file === file) expectPoint({ position, kind, name }, outcomes);
    };
    const BOTH = ['matching', 'not matching'];
    for (const { pointer, name, logic } of routingRules(config))
      expectRule(pointer, 'routing rule', name, logic === true ? ['matching'] : BOTH);
    for (const { pointer, name } of accessRules(config)) expectRule(pointer, 'access rule', name, BOTH);
    // A rule with several amounts is one decision: it rejects if any of them has no headroom.
    for (const { pointer, name } of spendLimits(config)) {
      if (pointer.startsWith('/spend_limits/rules/'))
        expectRule(pointer, 'spend rule', name, ['refusing', 'letting pass']);
    }
  }

  function note(position: SourcePosition | undefined, kind: Point['kind'], outcome: string, use?: Point['use']): void {
    const outcomes = position && points.get(keyOf({ position, kind, ...(use && { use }) }))?.outcomes;
    if (outcomes?.has(outcome)) outcomes.set(outcome, true);
  }

  function seeStages({ trace }: Played): void {
    const pipeline = trace?.pipeline.name ?? '';
    for (const { entry, list, guard, ran } of trace?.stages ?? []) {
      const use = { pipeline, id: entry.id };
      if (guard !== undefined) note(entry.when_position, 'guard', String(guard.held), use);
      if (list === 'on_error' && ran) note(entry.position, 'on_error', 'entered', use);
    }
  }

  /** Rules are evaluated in order until one decides, also those in shadow mode: routing, and access once the route is chosen. */
  function seeRules({ config, positionOf }: Loaded, { facts }: Played): void {
    const { rule, upstream } = (facts.route as { rule?: string; upstream?: string } | undefined) ?? {};
    const evaluate = <Rule extends Pick<AccessRule, 'pointer' | 'logic' | 'mode'>>(
      kind: Point['kind'],
      rules: readonly Rule[],
      decides: (rule: Rule, holds: boolean) => boolean,
    ) => {
      for (const one of rules) {
        const holds = compileCondition(one.logic)(facts);
        note(positionOf(one.pointer), kind, holds ? 'matching' : 'not matching');
        if (one.mode !== 'shadow' && decides(one, holds)) return;
      }
    };
    if (config === undefined) return;
    if (rule !== undefined) evaluate('routing rule', routingRules(config), ({ name }) => name === rule);
    if (upstream !== undefined) evaluate('access rule', accessRules(config), (_, holds) => holds);
  }

  function seeSpending(loaded: Loaded, { reservations }: Played): void {
    const limits = loaded.config === undefined ? [] : spendLimits(loaded.config);
    for (const { statuses } of reservations) {
      for (const { pointer, name, window, unit } of limits) {
        const demand = statuses.find((one) => one.rule === name && one.window === window && one.unit === unit);
        if (demand === undefined || demand.limit === null) continue;
        note(loaded.positionOf(pointer), 'spend rule', demand.room ? 'letting pass' : 'refusing');
      }
    }
  }

  function files() {
    const by_file = Map.groupBy(named(points.values()), ({ position }) => position.file);
    return [...by_file].map(([file, all]) => {
      const outcomes = all.flatMap((point) => [...point.outcomes.values()]);
      const sorted = all.toSorted((a, b) => a.position.line - b.position.line || a.position.column - b.position.column);
      return { file, points: sorted, seen: outcomes.filter(Boolean).length, total: outcomes.length };
    });
  }

  return {
    /** Adds the decisions of pipelines in some files and, if read from a file, of gateway.yaml. */
    expect(loaded: Loaded, isOurs: (position: SourcePosition) => boolean, gateway_file: string | undefined): void {
      for (const pipeline of loaded.pipelines) expectStages(pipeline, isOurs);
      if (gateway_file !== undefined) expectRules(loaded, gateway_file);
    },
    see(loaded: Loaded, played: Played): void {
      seeStages(played);
      seeRules(loaded, played);
      seeSpending(loaded, played);
    },
    files,
    /** Percentage of outcomes seen, rounded down; 100 without decisions. */
    percent(): number {
      const all = files();
      const total = all.reduce((sum, file) => sum + file.total, 0);
      const seen = all.reduce((sum, file) => sum + file.seen, 0);
      return total === 0 ? 100 : Math.floor((100 * seen) / total);
    },
  };
}

function named(points: Iterable<Point>): readonly Point[] {
  const by_place = Map.groupBy(points, ({ kind, position }) => `${kind}\n${placeOf(position)}`);
  return [...by_place.values()].flatMap((uses) =>
    uses.length === 1 ? uses : uses.map((point) => ({ ...point, name: `${point.use?.pipeline}/${point.name}` })),
  );
}
