import type { GatewayConfig } from '../../base/contract/config.ts';
import { containingFact } from '../../base/contract/own-facts.ts';
import type { AuditRecord, FactView } from '../../base/contract/services.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { pathFinder } from '../../base/kit/path-patterns.ts';
import { factView } from '../../base/rules/fact-view.ts';
import type { Loaded, PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';
import { RECORDED_FACTS, recordedFacts, seenFacts } from '../../domain/audit/recorded-facts.ts';
import type { Counted } from '../../domain/budget/limits/headroom.ts';
import { type RequestAttempt, readRequestAttempts } from '../../domain/budget/reports/request-ledger.ts';
import { readCounted } from '../../domain/budget/reports/spending.ts';
import { findAuditRecord } from '../../domain/budget/reports/usage.ts';
import {
  accessSteps,
  type DryRun,
  decisionOf,
  entryStep,
  limitsOfPast,
  routingSteps,
  type StageStep,
  spendingSteps,
  upstreamSteps,
} from './dry-run.ts';
import { pastRoute } from './past-route.ts';
import { attemptsOf, traceOf } from './trace.ts';

type Facts = Readonly<Record<string, unknown>>;

const viewOf = (facts: Facts): FactView => factView(Object.entries(facts));

/** The step of an entry, as far as the recorded facts determine it. */
function stageStep(entry: StageEntry, list: StageStep['list'], facts: Facts): StageStep {
  const step = { ...entryStep(entry, list), wrote: {} };
  const fate = entry.mode === 'shadow' ? 'skipped' : 'runs';
  if (entry.when === undefined) return { ...step, fate };
  const guard = decisionOf(entry.when, viewOf(facts));
  const seen = guard.reasons.flatMap(({ saw }) => Object.keys(saw));
  const missing = [...new Set(seen)].filter((path) => !RECORDED_FACTS.has(path) && !(containingFact(path) in facts));
  if (missing.length > 0) return { ...step, fate: 'unknown', missing };
  return { ...step, guard, fate: guard.held ? fate : 'skipped' };
}

interface Replay {
  readonly stages: readonly StageStep[];
  /** The recorded facts, with those of the new route. */
  readonly facts: Facts;
}

/** Replays the stages up to the one that responds. */
function replayStages(pipeline: PipelineSpec, loaded: Loaded, config: GatewayConfig, recorded: Facts): Replay {
  const { stages, finally: last } = pipeline;
  let facts = recorded;
  let answered = false;
  const steps = stages.map((entry): StageStep => {
    if (answered) return { ...entryStep(entry, 'stages'), fate: 'unreached', wrote: {} };
    const step = stageStep(entry, 'stages', facts);
    if (step.fate !== 'runs') return step;
    answered = entry.definition.terminal;
    if (step.stage === 'route-to') {
      const { upstream } = entry.options as { upstream: string };
      facts = { ...facts, 'route.upstream': upstream };
      return { ...step, wrote: { 'route.upstream': upstream } };
    }
    if (step.stage !== 'resolve-route' || facts['request.model'] === undefined) return step;
    const route = pastRoute(loaded, config, pipeline, facts);
    if ('refusal' in route) {
      answered = true;
      return { ...step, raised: route.refusal };
    }
    facts = { ...facts, ...route.wrote };
    const refused = accessRefusal(loaded, config, facts);
    answered = refused !== undefined;
    return { ...step, wrote: route.wrote, ...(refused && { raised: refused }) };
  });
  return { stages: [...steps, ...last.map((entry) => stageStep(entry, 'finally', facts))], facts };
}

function accessRefusal(loaded: Loaded, config: GatewayConfig, facts: Facts): StageStep['raised'] {
  const rule = accessSteps(loaded, config, viewOf(facts)).find(({ held, mode }) => held && mode === 'enforce');
  if (rule === undefined) return undefined;
  return { code: 'forbidden', message: `the access rule ${rule.name} rejects it` };
}

/** The `charge` of the pipeline's check-budget stages; `undefined` without one. */
function chargeOf({ stages }: PipelineSpec, steps: readonly StageStep[]): 'full' | 'nothing' | undefined {
  const charging = stages.filter(
    ({ id, definition }) =>
      definition.name === 'check-budget' && steps.some((step) => step.id === id && step.fate === 'runs'),
  );
  if (charging.length === 0) return undefined;
  return charging.some(({ options }) => (options as { charge?: string }).charge !== 'nothing') ? 'full' : 'nothing';
}

function pipelineFor({ pipelines }: Loaded, path: unknown, method: unknown): PipelineSpec {
  const served_path = pathFinder(pipelines.flatMap(({ match }) => match.paths))(String(path));
  const serves = ({ match }: PipelineSpec) =>
    match.paths.includes(served_path ?? '') && match.methods.includes(String(method));
  const pipeline = pipelines.find(serves);
  if (pipeline !== undefined) return pipeline;
  throw new StartError(`no pipeline serves ${String(method)} ${String(path)} any more`, { exit_code: 1 });
}

/** A past request in the database. */
export interface Remembered {
  readonly record: AuditRecord;
  /** The attempts of its ledger row. */
  readonly attempts?: readonly RequestAttempt[];
  /** The counters of the current windows. */
  readonly counted: Counted;
}

/** Reads a past request; `undefined` for an unknown id. Raises store_unavailable. */
export async function recallRequest(
  database: Pick<Database, 'query'>,
  config: GatewayConfig,
  request_id: string,
): Promise<Remembered | undefined> {
  const record = await findAuditRecord(database, request_id);
  if (record === undefined) return undefined;
  const counted = await readCounted(database, Date.now(), config.spend_limits?.time_zone ?? 'UTC');
  const attempts = await readRequestAttempts(database, request_id);
  return { record, attempts, counted };
}

/** Replays a request's audit record with another configuration: guards, routing, spend rules. Raises StartError. */
export function replayRecord(
  { loaded, config }: { readonly loaded: Loaded; readonly config: GatewayConfig },
  { record, attempts = [], counted }: Remembered,
): DryRun {
  const recorded = { ...seenFacts(record), ...recordedFacts(record) };
  const pipeline = pipelineFor(loaded, recorded['request.path'], recorded['request.method']);
  const { stages, facts } = replayStages(pipeline, loaded, config, recorded);
  const view = viewOf(facts);
  const routed = facts['route.upstream'] !== undefined;
  const charge = routed ? chargeOf(pipeline, stages) : undefined;
  return {
    pipeline: pipeline.name,
    past: {
      request_id: String(record.request_id),
      ...(typeof record.trace_id === 'string' && { trace_id: record.trace_id }),
      received_at: String(record.received_at ?? record.at),
      why: traceOf(record, { attempts }).why,
      // The attempts of the ledger also have what may be billed.
      attempts: attempts.length > 0 ? attempts : attemptsOf(record),
      dropped: Array.isArray(record.dropped) ? record.dropped.map(String) : [],
    },
    facts,
    stages,
    routing: routed ? routingSteps(loaded, config, view) : [],
    access: routed ? accessSteps(loaded, config, view) : [],
    upstreams: upstreamSteps(config, facts),
    spending: charge === undefined ? [] : spendingSteps(loaded, config, view, charge),
    limits: charge === undefined ? [] : limitsOfPast(config, facts, view, counted, charge),
    shadow: [],
  };
}
