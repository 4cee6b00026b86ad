import { StageError } from '../contract/errors.ts';
import type { Relay, ResponseEvent, StageHooks } from '../contract/stage.ts';
import { errorBody, errorHeaders } from './answer/envelopes.ts';
import type { CompiledStage } from './compile-stage.ts';
import {
  asError,
  callEvent,
  callLast,
  callRequest,
  callResponse,
  type FailureReport,
  isRefusal,
  isTimeout,
} from './contain.ts';
import type { RequestContext } from './context.ts';
import type { LateAnswer } from './drain.ts';
import { REQUEST_ID_HEADER } from './headers.ts';
import type { Plan } from './plan.ts';
import { relayResponse } from './relay.ts';
import { sendAnswer } from './respond.ts';
import { checkError, discardResult, type Result } from './result.ts';

/** Status recorded for a client that went away before anything was sent to it. */
const CLIENT_CLOSED_REQUEST = 499;

/**
 * Runs one request through its pipeline: request hooks until a stage answers, the response, finish hooks newest first,
 * `finally` stages. Never rejects: whatever fails is answered, logged and recorded.
 * @param onAnswered called when the client has its answer and only the gateway's own bookkeeping is left
 */
export async function runRequest(plan: Plan, ctx: RequestContext, onAnswered: () => void): Promise<void> {
  const leave = plan.enter();
  const { res } = ctx.exchange;
  res.on('close', () => {
    ctx.ended_at = plan.services.clock.monotonic();
    if (!res.writableFinished) ctx.clientGone();
  });
  try {
    await answer(plan, ctx);
    if (ctx.late !== undefined) await drainLate(plan, ctx, ctx.late);
    ctx.endDrain();
    ctx.leave();
    onAnswered();
    await finish(plan, ctx);
  } finally {
    leave();
  }
}

/** Never rejects: where even the error cannot be sent, the connection is cut. */
async function answer(plan: Plan, ctx: RequestContext): Promise<void> {
  try {
    await respond(plan, ctx, await findAnswer(plan, ctx));
  } catch (error) {
    try {
      await answerError(plan, ctx, attribute(plan, ctx, error));
    } catch (failure) {
      reportEngineFailure(plan, ctx, failure);
      ctx.exchange.res.destroy();
    }
  } finally {
    ctx.dropBody();
  }
}

function reportEngineFailure(plan: Plan, ctx: RequestContext, error: unknown): void {
  const fields = { err: asError(error), request_id: ctx.peek('request.id') };
  plan.services.log.error(fields, 'the engine failed on a request');
}

async function findAnswer(plan: Plan, ctx: RequestContext): Promise<Result> {
  const { stages } = ctx.pipeline;
  for (let i = 0; i < stages.length; i++) {
    const stage = stages[i]!;
    if (!admit(ctx, stage)) continue;
    const { request } = stage.hooks;
    if (request === undefined) continue;
    // Observers written below the stage that answers watch it too, also when it fails.
    if (stage.definition.terminal) admitObservers(ctx, stages.slice(i + 1));
    ctx.stage = stage;
    const returned = stage.contained ? callRequest(ctx, stage, reportTo(plan, ctx)) : request.call(stage.hooks, ctx);
    const result = returned instanceof Promise ? await returned : returned;
    if (ctx.aborted && !(ctx.drain !== undefined && result?.kind === 'relay')) {
      discardResult(result);
      throw new StageError('bad_http', 'The client went away.');
    }
    ctx.stage = undefined;
    if (result !== undefined) return result;
  }
  throw new StageError('internal_error', 'No stage of the pipeline answered this request.');
}

/** Enters a stage unless its guard says no or it is in shadow mode. From then on its `finish` hook is owed. */
function admit(ctx: RequestContext, stage: CompiledStage): boolean {
  ctx.stage = stage;
  if (stage.guard !== undefined && !stage.guard(ctx.facts)) return false;
  if (stage.shadow) {
    ctx.noteShadow(stage.id);
    return false;
  }
  ctx.entered.push(stage);
  return true;
}

function admitObservers(ctx: RequestContext, stages: readonly CompiledStage[]): void {
  for (const stage of stages) if (stage.hooks.request === undefined) admit(ctx, stage);
}

async function respond(plan: Plan, ctx: RequestContext, result: Result): Promise<void> {
  if (result.kind === 'answer') {
    sendAnswer(ctx, result);
    return;
  }
  ctx.dropBody();
  await relay(plan, ctx, result);
}

/** Reads the answer of a request that has failed already, if it still comes. Whatever goes wrong, there is nobody to tell. */
async function drainLate(plan: Plan, ctx: RequestContext, late: LateAnswer): Promise<void> {
  ctx.cancel = late.cancel;
  try {
    const result = await late.relay;
    ctx.note('upstream.status', result.response.statusCode!);
    await relay(plan, ctx, result);
  } catch {
  } finally {
    ctx.cancel = undefined;
  }
}

async function relay(plan: Plan, ctx: RequestContext, result: Relay): Promise<void> {
  const observers = ctx.pipeline.observed ? ctx.entered.filter((stage) => stage.hooks.event !== undefined) : [];
  await relayResponse(ctx, result, {
    onHead(head) {
      for (const stage of ctx.entered) {
        if (stage.hooks.response === undefined) continue;
        ctx.stage = stage;
        if (stage.contained) callResponse(ctx, stage, head, reportTo(plan, ctx));
        else stage.hooks.response(ctx, head);
      }
      ctx.stage = undefined;
      head.headers.push(REQUEST_ID_HEADER, ctx.peek('request.id')!);
    },
    ...(observers.length > 0 && { onEvent: (event) => observe(plan, ctx, observers, event) }),
  });
}

function observe(plan: Plan, ctx: RequestContext, observers: readonly CompiledStage[], event: ResponseEvent): void {
  for (const stage of observers) {
    ctx.stage = stage;
    try {
      if (stage.contained) callEvent(ctx, stage, event, reportTo(plan, ctx));
      else stage.hooks.event!(ctx, event);
    } catch (error) {
      // The client already has the bytes; an observer that fails must not cut its stream.
      reportFailure(plan, ctx, stage, 'event', error);
    }
  }
  ctx.stage = undefined;
}

/** Makes a stage's failure known: the log is the only place where one that changes no answer can be seen. */
function reportFailure(
  plan: Plan,
  ctx: RequestContext,
  stage: CompiledStage,
  moment: keyof StageHooks,
  error: unknown,
): void {
  const where = { stage: stage.id, pipeline: ctx.pipeline.spec.name, request_id: ctx.peek('request.id') };
  const message = `a stage failed in its ${moment} hook`;
  try {
    plan.services.log.error({ err: asError(error), ...where }, message);
  } catch {
    // An error whose properties throw when they are read must not take the hooks of others with it.
    plan.services.log.error(where, message);
  }
}

function reportTo(plan: Plan, ctx: RequestContext): FailureReport {
  return (stage, moment, error) => reportFailure(plan, ctx, stage, moment, error);
}

/** Turns anything thrown into a catalogue error, and records the stage it came from. */
function attribute(plan: Plan, ctx: RequestContext, error: unknown): StageError {
  const { stage } = ctx;
  ctx.stage = undefined;
  if (stage !== undefined) ctx.note('error.stage', stage.id);
  if (stage !== undefined) return refusalOf(plan, ctx, stage, error) ?? stageFailed(stage, error);
  if (error instanceof StageError) return error;
  reportEngineFailure(plan, ctx, error);
  return new StageError('internal_error', 'The gateway failed on this request; its log says why.');
}

/** The error when a stage refuses with it; `undefined` when it is a failure of the stage, which is then reported. */
function refusalOf(plan: Plan, ctx: RequestContext, stage: CompiledStage, error: unknown): StageError | undefined {
  try {
    if (!isRefusal(stage, error)) throw error;
    return stage.contained ? checkError(error) : error;
  } catch (failure) {
    reportFailure(plan, ctx, stage, 'request', failure);
    return undefined;
  }
}

function stageFailed({ id }: CompiledStage, error: unknown): StageError {
  if (isTimeout(error)) return error;
  return new StageError('stage_failed', `The stage "${id}" failed on this request; the gateway's log says why.`, {
    details: { stage: id },
  });
}

async function answerError(plan: Plan, ctx: RequestContext, raised: StageError): Promise<void> {
  ctx.note('error.code', raised.code);
  ctx.note('error.status', raised.status);
  const { res } = ctx.exchange;
  if (ctx.aborted || res.destroyed) return;
  if (res.headersSent) return endBrokenStream(ctx, raised);
  const handled = await handleError(plan, ctx, raised);
  if ('kind' in handled) {
    if (handled.kind === 'answer') return sendAnswer(ctx, handled);
    handled.response.destroy();
  }
  const error = handled instanceof StageError ? handled : raised;
  const { protocol } = ctx.pipeline.spec.match;
  const { refusal_header } = plan.config.server.profile;
  sendAnswer(ctx, {
    kind: 'answer',
    status: error.status,
    headers: errorHeaders(protocol, error, refusal_header),
    body: errorBody(protocol, error, ctx.peek('request.id')!),
  });
}

/** What the first matching `on_error` clause makes of an error; the error itself without one. */
async function handleError(plan: Plan, ctx: RequestContext, raised: StageError): Promise<Result | StageError> {
  for (const clause of ctx.pipeline.on_error) {
    if (clause.errors !== undefined && !clause.errors.has(raised.code)) continue;
    try {
      if (clause.guard !== undefined && !clause.guard(ctx.facts)) continue;
      if (clause.shadow) {
        ctx.noteShadow(clause.id);
        continue;
      }
      ctx.stage = clause;
      const answered = clause.contained ? callRequest(ctx, clause, reportTo(plan, ctx)) : clause.hooks.request!(ctx);
      return (await answered) ?? raised;
    } catch (error) {
      return refusalOf(plan, ctx, clause, error) ?? raised;
    } finally {
      ctx.stage = undefined;
    }
  }
  return raised;
}

/** After the first byte an error can only be one more event; where no event fits, the cut connection says it. */
function endBrokenStream({ exchange: { res }, endEvents }: RequestContext, error: StageError): void {
  if (endEvents === undefined) res.destroy();
  else res.end(endEvents(error));
}

/** Never rejects: every hook that is owed runs once, whatever the others do. */
async function finish(plan: Plan, ctx: RequestContext): Promise<void> {
  try {
    noteOutcome(plan, ctx);
  } catch (error) {
    reportEngineFailure(plan, ctx, error);
  }
  for (let i = ctx.entered.length - 1; i >= 0; i--) {
    const stage = ctx.entered[i]!;
    if (stage.hooks.finish !== undefined) await runLast(plan, ctx, stage, 'finish');
  }
  const last = ctx.pipeline.finally;
  for (const stage of last) if (stage.shadow) await runLast(plan, ctx, stage, 'finally');
  if (ctx.shadow !== undefined) ctx.note('outcome.shadow', [...ctx.shadow]);
  for (const stage of last) if (!stage.shadow) await runLast(plan, ctx, stage, 'finally');
}

function noteOutcome(plan: Plan, ctx: RequestContext): void {
  const { res } = ctx.exchange;
  ctx.note('outcome.status', res.headersSent ? res.statusCode : CLIENT_CLOSED_REQUEST);
  ctx.note('outcome.aborted', ctx.aborted);
  ctx.note('outcome.duration_ms', (ctx.ended_at ?? plan.services.clock.monotonic()) - ctx.started_at);
  if (ctx.drain !== undefined) ctx.note('outcome.drained', ctx.drained);
  if (ctx.unread) ctx.note('outcome.unread', true);
  const error = ctx.peek('error.code');
  if (error !== undefined && !ctx.aborted) ctx.note('outcome.error', error);
  if (ctx.rewrites.length > 0) ctx.note('outcome.rewrites', ctx.rewrites);
}

/** Runs a `finish` or `finally` hook by itself: its failure is logged and changes nothing for the others. */
async function runLast(
  plan: Plan,
  ctx: RequestContext,
  stage: CompiledStage,
  moment: 'finish' | 'finally',
): Promise<void> {
  try {
    if (moment === 'finally' && stage.guard !== undefined && !stage.guard(ctx.facts)) return;
    if (stage.shadow) return ctx.noteShadow(stage.id);
    ctx.stage = stage;
    const returned = stage.contained
      ? callLast(ctx, stage, moment, reportTo(plan, ctx))
      : stage.hooks[moment]!.call(stage.hooks, ctx);
    if (returned instanceof Promise) await returned;
  } catch (error) {
    reportFailure(plan, ctx, stage, moment, error);
  } finally {
    ctx.stage = undefined;
  }
}
