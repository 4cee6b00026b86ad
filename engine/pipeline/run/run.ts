import { once } from 'node:events';
import { StageError } from '../../base/contract/errors.ts';
import type { Answer, Relay } from '../../base/contract/stage.ts';
import { endOfTurn } from '../../base/kit/end-of-turn.ts';
import { definitionFor } from '../../domain/protocols/definitions.ts';
import { sendWhole } from './answer.ts';
import type { CompiledStage } from './compiled.ts';
import { asError, discardResult, failureOf, isRefusal, type Result, reportFailure } from './contained/result.ts';
import { disconnectedError, type RequestContext } from './context.ts';
import { REQUEST_ID_HEADER } from './headers.ts';
import type { Plan } from './plan.ts';
import { relayResponse } from './relay.ts';
import type { LateResponse } from './resources.ts';
import { watchResponse } from './rewriting.ts';

/** Status recorded when the client disconnected before a response began. */
const CLIENT_CLOSED_REQUEST = 499;

/**
 * Runs one request through its pipeline: request hooks until a stage responds, the response, finish hooks newest first,
 * `finally` stages. Never rejects: failures become error responses, log lines and audit fields.
 * @param onResponseSent called when the response is complete and only bookkeeping is left
 */
export async function runRequest(plan: Plan, ctx: RequestContext, onResponseSent: () => void): Promise<void> {
  const leave = plan.enter();
  const { res } = ctx.call;
  res.on('close', () => {
    ctx.ended_at = plan.services.clock.monotonic();
    if (!res.writableFinished) ctx.onDisconnect();
  });
  try {
    await answer(plan, ctx);
    if (ctx.drain.late !== undefined) await drainLate(plan, ctx, ctx.drain.late);
    ctx.drain.end();
    ctx.leave();
    onResponseSent();
    await endOfTurn();
    await finish(plan, ctx);
    ctx.reportToTelemetry();
  } finally {
    leave();
  }
}

/** Runs the `finally` stages of a request that no pipeline serves. Never rejects. @param onResponseSent called when the response has closed, before the stages */
export async function runFinallyStages(plan: Plan, ctx: RequestContext, onResponseSent: () => void): Promise<void> {
  const leave = plan.enter();
  try {
    await once(ctx.call.res, 'close');
    ctx.ended_at = plan.services.clock.monotonic();
    ctx.aborted = !ctx.call.res.writableFinished;
    onResponseSent();
    await finish(plan, ctx);
  } finally {
    leave();
  }
}

/** Responds to the client. Never rejects: where even the error cannot be sent, it closes the connection. */
async function answer(plan: Plan, ctx: RequestContext): Promise<void> {
  try {
    const result = await findAnswer(ctx);
    if (result.kind === 'answer') sendAnswer(ctx, result);
    else {
      ctx.dropBody();
      await relay(plan, ctx, result);
    }
  } catch (error) {
    try {
      await answerError(plan, ctx, attribute(plan, ctx, error));
    } catch (failure) {
      reportEngineFailure(plan, ctx, failure);
      ctx.call.res.destroy();
    }
  } finally {
    ctx.dropBody();
  }
}

function reportEngineFailure(plan: Plan, ctx: RequestContext, error: unknown): void {
  const fields = { err: asError(error), request_id: ctx.peek('request.id'), trace_id: ctx.trace.trace_id };
  plan.services.log.error(fields, 'the engine failed on a request');
}

async function findAnswer(ctx: RequestContext): Promise<Result> {
  const { stages } = ctx.pipeline;
  for (let i = 0; i < stages.length; i++) {
    const stage = stages[i]!;
    if (!admit(ctx, stage)) continue;
    if (stage.hooks.request === undefined) continue;
    // Observers listed below the terminal stage observe its response and its failures, too.
    if (stage.definition.terminal)
      for (const observer of stages.slice(i + 1)) if (observer.hooks.request === undefined) admit(ctx, observer);
    ctx.stage = stage;
    ctx.notes.recordStage(i, ctx.clock.monotonic());
    const returned = stage.hooks.request(ctx);
    const result = returned instanceof Promise ? await returned : returned;
    if (ctx.aborted && !(ctx.drain.has_begun && result?.kind === 'relay')) {
      discardResult(result);
      throw disconnectedError();
    }
    ctx.stage = undefined;
    if (ctx.cancel_reason !== undefined && result?.kind !== 'answer') {
      discardResult(result);
      throw ctx.cancel_reason;
    }
    if (result !== undefined) return result;
  }
  throw new StageError('internal_error', 'No stage of the pipeline responded to this request.');
}

/** Enters a stage if its guard is true and it is not in shadow mode. An entered stage always gets its `finish` hook. */
function admit(ctx: RequestContext, stage: CompiledStage): boolean {
  ctx.stage = stage;
  if (stage.guard !== undefined && !stage.guard(ctx.facts)) return false;
  if (stage.shadow) {
    if (stage.hooks.rewrite === undefined) ctx.recordShadow(stage.id);
    else ctx.notes.response_rewrites.watching.push(stage);
    return false;
  }
  ctx.entered.push(stage);
  return true;
}

function sendAnswer(ctx: RequestContext, answer: Answer): void {
  ctx.countConnection();
  const headers: Record<string, string | number> = {
    ...answer.headers,
    // The content-length of a 304 would be that of the full response (RFC 9110 section 8.6).
    ...(answer.status === 304 ? {} : { 'content-length': Buffer.byteLength(answer.body) }),
    [REQUEST_ID_HEADER]: ctx.peek('request.id')!,
  };
  sendWhole(ctx.call.res, answer.status, headers, answer.body);
}

/** Drains the response of a failed request for its usage. Ignores errors: the client already has its error. */
async function drainLate(plan: Plan, ctx: RequestContext, late: LateResponse): Promise<void> {
  ctx.cancel = late.cancel;
  try {
    const result = await late.relay;
    ctx.putFact('upstream.status', result.response.statusCode!);
    await relay(plan, ctx, result);
  } catch {
  } finally {
    ctx.cancel = undefined;
  }
}

function relay(plan: Plan, ctx: RequestContext, result: Relay): Promise<void> {
  const watch = ctx.pipeline.rewrites
    ? watchResponse(ctx, (stage, error) => reportFailure(plan.services.log, ctx, stage, 'rewrite', error))
    : undefined;
  const observers = ctx.pipeline.observed ? ctx.entered.filter((stage) => stage.hooks.event !== undefined) : [];
  if (observers.length === 0 && watch === undefined) return relayResponse(ctx, result, undefined);
  return relayResponse(ctx, result, (event) => {
    for (const stage of observers) {
      ctx.stage = stage;
      stage.hooks.event!(ctx, event);
    }
    ctx.stage = undefined;
    watch?.(event);
  });
}

/** Maps anything thrown to an error of the catalogue, and records the stage that threw it. */
function attribute(plan: Plan, ctx: RequestContext, raised: unknown): StageError {
  const { failed } = ctx.attempted;
  const is_of_attempt = failed !== undefined && failed.thrown === raised;
  const { stage, error } = is_of_attempt ? failed : { stage: ctx.stage, error: raised };
  ctx.stage = undefined;
  if (stage !== undefined) {
    ctx.putFact('error.stage', stage.id);
    return refusalOf(plan, ctx, stage, is_of_attempt ? 'attempt' : 'request', error) ?? failureOf(stage, error);
  }
  if (error instanceof StageError) return error;
  reportEngineFailure(plan, ctx, error);
  return new StageError(
    'internal_error',
    'The gateway failed on this request. Give your administrator the request id.',
  );
}

/** The error, if it is a stage's rejection; otherwise logs the failure of the stage and returns `undefined`. */
function refusalOf(
  plan: Plan,
  ctx: RequestContext,
  stage: CompiledStage,
  moment: 'attempt' | 'request',
  error: unknown,
): StageError | undefined {
  if (isRefusal(stage, error)) return error;
  reportFailure(plan.services.log, ctx, stage, moment, error);
  return undefined;
}

async function answerError(plan: Plan, ctx: RequestContext, raised: StageError): Promise<void> {
  ctx.notes.error = raised;
  ctx.putFact('error.code', raised.code);
  ctx.putFact('error.status', raised.status);
  const { res } = ctx.call;
  if (ctx.aborted || res.destroyed) return;
  if (res.headersSent) {
    // After the first byte, an error is one more event of the stream; in any other response, a closed connection.
    if (ctx.endEvents === undefined) res.destroy();
    else res.end(ctx.endEvents(raised));
    return;
  }
  const handled = await handleError(plan, ctx, raised);
  if ('kind' in handled) {
    if (handled.kind === 'answer') return sendAnswer(ctx, handled);
    handled.response.destroy();
  }
  const error = handled instanceof StageError ? handled : raised;
  const { errors } = definitionFor(ctx.pipeline.spec.match.protocol, ctx);
  const { refusal_header } = plan.config.server.profile;
  sendAnswer(ctx, {
    kind: 'answer',
    status: error.status,
    headers: errors.headers(error, refusal_header),
    body: errorBody(ctx, (shown) => errors.body(shown, ctx.peek('request.id')!), error),
  });
}

/** The body of an error. It may quote the upstream, so stages that rewrite responses rewrite it, too. */
function errorBody(ctx: RequestContext, format: (error: StageError) => string, error: StageError): string {
  const rewriter = ctx.pipeline.rewrites ? ctx.notes.response_rewrites.rewriter : undefined;
  if (rewriter === undefined) return format(error);
  try {
    return rewriter.document(format(error));
  } catch {
    return format(new StageError('stage_failed', 'The error is withheld: a stage failed to rewrite its text.'));
  }
}

/** The result of the first matching `on_error` clause; the error itself without one. */
async function handleError(plan: Plan, ctx: RequestContext, raised: StageError): Promise<Result | StageError> {
  for (const clause of ctx.pipeline.on_error) {
    if (clause.errors !== undefined && !clause.errors.has(raised.code)) continue;
    try {
      if (clause.guard !== undefined && !clause.guard(ctx.facts)) continue;
      if (clause.shadow) {
        ctx.recordShadow(clause.id);
        continue;
      }
      ctx.stage = clause;
      const result = await clause.hooks.request!(ctx);
      if (result !== undefined) ctx.notes.clause = clause.id;
      return result ?? raised;
    } catch (error) {
      return refusalOf(plan, ctx, clause, 'request', error) ?? raised;
    } finally {
      ctx.stage = undefined;
    }
  }
  return raised;
}

/** Runs the `finish` hooks and the `finally` stages, each once whether or not others fail. Never rejects. */
async function finish(plan: Plan, ctx: RequestContext): Promise<void> {
  try {
    recordOutcome(plan, ctx);
  } catch (error) {
    reportEngineFailure(plan, ctx, error);
  }
  for (let i = ctx.entered.length - 1; i >= 0; i--) {
    const stage = ctx.entered[i]!;
    if (stage.hooks.finish === undefined) continue;
    ctx.stage = stage;
    const ended = stage.hooks.finish(ctx);
    if (ended instanceof Promise) await ended;
  }
  ctx.stage = undefined;
  const last = ctx.pipeline.finally;
  for (const stage of last) if (stage.shadow && guardHolds(plan, ctx, stage)) ctx.recordShadow(stage.id);
  if (ctx.shadows.length > 0) ctx.putFact('outcome.shadow', ctx.shadows);
  for (const stage of last) {
    if (stage.shadow || !guardHolds(plan, ctx, stage)) continue;
    ctx.stage = stage;
    const ended = stage.hooks.finally?.(ctx);
    if (ended instanceof Promise) await ended;
    ctx.stage = undefined;
  }
}

function recordOutcome(plan: Plan, ctx: RequestContext): void {
  const { res } = ctx.call;
  ctx.putFact('outcome.status', res.headersSent ? res.statusCode : CLIENT_CLOSED_REQUEST);
  ctx.putFact('outcome.aborted', ctx.aborted);
  ctx.putFact('outcome.duration_ms', (ctx.ended_at ?? plan.services.clock.monotonic()) - ctx.started_at);
  if (ctx.drain.has_begun) ctx.putFact('outcome.drained', ctx.drained);
  if (ctx.unread) ctx.putFact('outcome.unread', true);
  const error = ctx.peek('error.code');
  if (error !== undefined && !ctx.aborted) ctx.putFact('outcome.error', error);
  if (ctx.rewrites.length > 0) ctx.putFact('outcome.rewrites', ctx.rewrites);
  if (ctx.pipeline.rewrites) recordReplaced(ctx);
}

function recordReplaced(ctx: RequestContext): void {
  const { replaced, watched } = ctx.notes.response_rewrites;
  if (replaced !== undefined) ctx.putFact('outcome.replaced', replaced);
  for (const id of watched.keys()) ctx.recordShadow(id);
}

/** Whether the guard of a `finally` stage is true; a guard that throws counts as false. */
function guardHolds(plan: Plan, ctx: RequestContext, stage: CompiledStage): boolean {
  try {
    return stage.guard === undefined || stage.guard(ctx.facts);
  } catch (error) {
    reportFailure(plan.services.log, ctx, stage, 'finally', error);
    return false;
  }
}
