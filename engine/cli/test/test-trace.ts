import { jsonText } from '../../kit/text/printable.ts';
import { formatCondition } from '../../rules/format-condition.ts';
import { factsSeen } from '../../rules/reasons.ts';
import { traceCondition } from '../../rules/trace.ts';
import type { Played } from '../../simulate/suite/played.ts';
import type { StageTrace } from '../../simulate/suite/watch.ts';

const VALUE_CHARACTERS = 50;
const TEXT_CHARACTERS = 300;

/** A text on one line, shortened. */
export function shorten(text: string, most = TEXT_CHARACTERS): string {
  const line = text.replaceAll(/\s*\n\s*/g, ' ');
  return line.length > most ? `${line.slice(0, most)}...` : line;
}

function briefly(value: unknown): string {
  return value === undefined ? 'not set' : shorten(jsonText(value), VALUE_CHARACTERS);
}

/** What a guard was about: its words, and the values it saw. */
function explainGuard({ entry, guard }: StageTrace): string[] {
  if (guard === undefined || entry.when === undefined) return [];
  const seen = new Map(factsSeen(traceCondition(entry.when, guard.facts)));
  return [
    `when ${formatCondition(entry.when)}: ${guard.held}`,
    ...[...seen].map(([path, value]) => `${path} is ${briefly(value)}`),
  ];
}

/** What became of an entry, for people. */
function stageState({ entry, ran, guard, raised, answered }: StageTrace): string {
  if (raised !== undefined) return `raised ${raised.code ?? 'an error'}: ${raised.message}`;
  if (answered?.kind === 'relay') return `passed on the upstream's answer, status ${answered.status}`;
  if (answered !== undefined) return `answered with status ${answered.status}`;
  if (ran) return 'ran';
  if (guard?.held === false) return 'skipped';
  if (entry.mode === 'shadow' && guard !== undefined) return 'held, in shadow mode';
  return 'not reached';
}

/** One entry and what there is to say about it. */
export interface TracedStage {
  readonly id: string;
  readonly state: string;
  readonly details: readonly string[];
}

/** What the stages of a pipeline did; clauses and shadows that had no part in it are left out. */
export function traceStages({ trace }: Played): TracedStage[] {
  const stages = (trace?.stages ?? []).filter(
    ({ list, ran, guard }) => list === 'stages' || ran || guard !== undefined,
  );
  return stages.map((stage) => ({
    id: stage.entry.id,
    state: stageState(stage),
    details: [
      ...explainGuard(stage),
      ...(stage.wrote.size === 0
        ? []
        : [`wrote ${[...stage.wrote].map(([path, value]) => `${path} ${briefly(value)}`).join(', ')}`]),
    ],
  }));
}
