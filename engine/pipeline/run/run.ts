import { once } from 'node:events';
import { StageError } from '../../base/contract/errors.ts';
import type { Answer, Relay, ResponseEvent } from '../../base/contract/stage.ts';
import { endOfTurn } from '../../base/kit/end-of-turn.ts';
import { definitionFor } from '../../domain/protocols/definitions.ts';
import { sendWhole } from './answer.ts';
import type { CompiledStage } from './compiled.ts';
import { asError, discardResult, failureOf, isRefusal, type Result, reportFailure } from './contained/result.ts';
import { clientGone, type RequestContext } from './context.ts';
import type { LateAnswer } from './drain.ts';
import { REQUEST_ID_HEADER } from './headers.ts';
import type { Plan } from './plan.ts';
import { relayResponse } from './relay.ts';
import { watchAnswer } from './rewriting.ts';

/** Status recorded for a client that went away before anything was sent to it. */
const CLIENT_CLOSED_REQUEST = 499;

/**
 * Runs one request through its pipeline: request hooks until a stage answers, the response, finish hooks newest first,
 * `finally` stages. Never rejects: whatever fails is answered, logged and recorded.
 * @param onAnswered called when the client has its answer and only the gateway's own bookkeeping is left
 */
export async function runRequest(plan: Plan, ctx: RequestContext, onAnswered: () => void): Promise<void> {
  const leave = plan.enter();
  const { res } = ctx.call;
  res.on('close', () => {
    ctx.ended_at = plan.services.clock.monotonic();
    if (!res.writableFinished) ctx.clientGone();
  });
  try {
    await answer(plan, ctx);
    if (ctx.draining.late !== undefined) await drainLate(plan, ctx, ctx.draining.late);
    ctx.draining.end();
    ctx.leave();
    onAnswered();
    await endOfTurn();
    await finish(plan, ctx);
    ctx.tellTelemetry();
  } finally {
    leave();
  }
}

/**
 * Runs the `finally` stages of a request that no pipeline serves, once it is answered. Never rejects.
 * @param onAnswered called before, to note what is known of the request by then
 */
export async function runAfterwards(plan: Plan, ctx: RequestContext, onAnswered: () => void): Promise<void> {
  const leave = plan.enter();
  try {
    await once(ctx.call.res, 'close');
    ctx.ended_at = plan.services.clock.monotonic();
    ctx.aborted = !ctx.call.res.writableFinished;
    onAnswered();
    await finish(plan, ctx);
  } finally {
    leave();
  }
}

/** Never rejects: where even the error cannot be sent, the connection is cut. */
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
    // Observers written below the stage that answers watch it too, also when it fails.
    if (stage.definition.terminal) admitObservers(ctx, stages.slice(i + 1));
    ctx.stage = stage;
    ctx.notes.stageBegins(i, ctx.clock.monotonic());
    const returned = stage.hooks.request(ctx);
    const result = returned instanceof Promise ? await returned : returned;
    if (ctx.aborted && !(ctx.drain !== undefined && result?.kind === 'relay')) {
      discardResult(result);
      throw clientGone();
    }
    ctx.stage = undefined;
    if (ctx.given_up !== undefined && result?.kind !== 'answer') {
      discardResult(result);
      throw ctx.given_up;
    }
    if (result !== undefined) return result;
  }
  throw new StageError('internal_error', 'No stage of the pipeline answered this request.');
}

/** Enters a stage unless its guard says no or it is in shadow mode. From then on its `finish` hook is owed. */
function admit(ctx: RequestContext, stage: CompiledStage): boolean {
  ctx.stage = stage;
  if (stage.guard !== undefined && !stage.guard(ctx.facts)) return false;
  if (stage.shadow) {
    if (stage.hooks.rewrite === undefined) ctx.noteShadow(stage.id);
    else ctx.notes.answer_rewrites.watching.push(stage);
    return false;
  }
  ctx.entered.push(stage);
  return true;
}

function admitObservers(ctx: RequestContext, stages: readonly CompiledStage[]): void {
  for (const stage of stages) if (stage.hooks.request === undefined) admit(ctx, stage);
}

/** Sends a complete answer. */
function sendAnswer(ctx: RequestContext, answer: Answer): void {
  ctx.claimConnection();
  const headers: Record<string, string | number> = {
    ...answer.headers,
    // A 304 would state the length of what it stands for (RFC 9110 section 8.6).
    ...(answer.status === 304 ? {} : { 'content-length': Buffer.byteLength(answer.body) }),
    [REQUEST_ID_HEADER]: ctx.peek('request.id')!,
  };
  sendWhole(ctx.call.res, answer.status, headers, answer.body);
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

function relay(plan: Plan, ctx: RequestContext, result: Relay): Promise<void> {
  const watch = ctx.pipeline.rewrites ? watchAnswer(ctx, reportRewrite(plan, ctx)) : undefined;
  const observers = ctx.pipeline.observed ? ctx.entered.filter((stage) => stage.hooks.event !== undefined) : [];
  return relayResponse(ctx, result, {
    onHead(head) {
      for (const stage of ctx.entered) {
        if (stage.hooks.response === undefined) continue;
        ctx.stage = stage;
        stage.hooks.response(ctx, head);
      }
      ctx.stage = undefined;
      head.headers.push(REQUEST_ID_HEADER, ctx.peek('request.id')!);
      // The upstream's own, which would take its place, stays beside it.
      const vary = ctx.call.res.getHeader('vary');
      if (vary !== undefined) head.headers.push('vary', String(vary));
    },
    ...((observers.length > 0 || watch !== undefined) && {
      onEvent(event) {
        observe(ctx, observers, event);
        watch?.(event);
      },
    }),
  });
}

function reportRewrite({ services: { log } }: Plan, ctx: RequestContext) {
  return (stage: CompiledStage, error: unknown) => reportFailure(log, ctx, stage, 'rewrite', error);
}

function observe(ctx: RequestContext, observers: readonly CompiledStage[], event: ResponseEvent): void {
  for (const stage of observers) {
    ctx.stage = stage;
    stage.hooks.event!(ctx, event);
  }
  ctx.stage = undefined;
}

/** Turns anything thrown into a catalogue error, and records the stage it came from. */
function attribute(plan: Plan, ctx: RequestContext, raised: unknown): StageError {
  const { failed } = ctx.attempted;
  const is_of_attempt = failed !== undefined && failed.thrown === raised;
  const { stage, error } = is_of_attempt ? failed : { stage: ctx.stage, error: raised };
  ctx.stage = undefined;
  if (stage !== undefined) {
    ctx.note('error.stage', stage.id);
    return refusalOf(plan, ctx, stage, is_of_attempt ? 'attempt' : 'request', error) ?? failureOf(stage, error);
  }
  if (error instanceof StageError) return error;
  reportEngineFailure(plan, ctx, error);
  return new StageError('internal_error', 'The gateway failed on this request; its log says why.');
}

/** The error when a stage refuses with it; `undefined` when it is a failure of the stage, which is then reported. */
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
  ctx.note('error.code', raised.code);
  ctx.note('error.status', raised.status);
  const { res } = ctx.call;
  if (ctx.aborted || res.destroyed) return;
  if (res.headersSent) return endBrokenStream(ctx, raised);
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
    body: sayWithoutTexts(ctx, (said) => errors.body(said, ctx.peek('request.id')!), error),
  });
}

/** The body of an error in which an upstream's words may be, which stages of the request replace like those of an answer. */
function sayWithoutTexts(ctx: RequestContext, say: (error: StageError) => string, error: StageError): string {
  const rewriter = ctx.pipeline.rewrites ? ctx.notes.answer_rewrites.rewriter : undefined;
  if (rewriter === undefined) return say(error);
  try {
    return rewriter.document(say(error));
  } catch {
    return say(new StageError('stage_failed', 'The error could not be told, as a stage failed on its words.'));
  }
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

/** After the first byte an error can only be one more event; where no event fits, the cut connection says it. */
function endBrokenStream({ call: { res }, endEvents }: RequestContext, error: StageError): void {
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
    if (stage.hooks.finish === undefined) continue;
    ctx.stage = stage;
    const ended = stage.hooks.finish(ctx);
    if (ended instanceof Promise) await ended;
  }
  ctx.stage = undefined;
  const last = ctx.pipeline.finally;
  for (const stage of last) if (stage.shadow && isMeant(plan, ctx, stage)) ctx.noteShadow(stage.id);
  if (ctx.shadows.length > 0) ctx.note('outcome.shadow', ctx.shadows);
  for (const stage of last) {
    if (stage.shadow || !isMeant(plan, ctx, stage)) continue;
    ctx.stage = stage;
    const ended = stage.hooks.finally?.(ctx);
    if (ended instanceof Promise) await ended;
    ctx.stage = undefined;
  }
}

function noteOutcome(plan: Plan, ctx: RequestContext): void {
  const { res } = ctx.call;
  ctx.note('outcome.status', res.headersSent ? res.statusCode : CLIENT_CLOSED_REQUEST);
  ctx.note('outcome.aborted', ctx.aborted);
  ctx.note('outcome.duration_ms', (ctx.ended_at ?? plan.services.clock.monotonic()) - ctx.started_at);
  if (ctx.drain !== undefined) ctx.note('outcome.drained', ctx.drained);
  if (ctx.unread) ctx.note('outcome.unread', true);
  const error = ctx.peek('error.code');
  if (error !== undefined && !ctx.aborted) ctx.note('outcome.error', error);
  if (ctx.rewrites.length > 0) ctx.note('outcome.rewrites', ctx.rewrites);
  if (ctx.pipeline.rewrites) noteReplaced(ctx);
}

function noteReplaced(ctx: RequestContext): void {
  const { replaced, watched } = ctx.notes.answer_rewrites;
  if (replaced !== undefined) ctx.note('outcome.replaced', replaced);
  for (const id of watched.keys()) ctx.noteShadow(id);
}

/** Whether the guard of a `finally` stage holds; one that cannot be evaluated does not. */
function isMeant(plan: Plan, ctx: RequestContext, stage: CompiledStage): boolean {
  try {
    return stage.guard === undefined || stage.guard(ctx.facts);
  } catch (error) {
    reportFailure(plan.services.log, ctx, stage, 'finally', error);
    return false;
  }
}
