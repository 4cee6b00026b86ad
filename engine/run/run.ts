import type { Answer, Relay, ResponseEvent } from '../api.ts';
import { StageError } from '../errors.ts';
import { errorBody, errorHeaders } from '../http/envelopes.ts';
import type { RequestContext } from './context.ts';
import { REQUEST_ID_HEADER } from './headers.ts';
import type { CompiledStage, Plan } from './plan.ts';
import { relayResponse } from './relay.ts';
import { sendAnswer } from './respond.ts';

/** Status recorded for a client that went away before anything was sent to it. */
const CLIENT_CLOSED_REQUEST = 499;

type Result = Answer | Relay;

/**
 * Runs one request through its pipeline: request hooks until a stage answers, the response, finish hooks newest first,
 * `finally` stages. Never rejects: whatever fails is answered, logged and recorded.
 * @param onAnswered called when the client has its answer and only the gateway's own bookkeeping is left
 */
export async function runRequest(plan: Plan, ctx: RequestContext, onAnswered: () => void): Promise<void> {
  const leave = plan.enter();
  const { res } = ctx.exchange;
  res.on('close', () => {
    if (!res.writableFinished) ctx.aborted = true;
  });
  try {
    await answer(plan, ctx).finally(onAnswered);
    await finish(plan, ctx);
  } catch (error) {
    plan.services.log.error({ err: error, request_id: ctx.peek('request.id') }, 'the engine failed on a request');
    res.destroy();
  } finally {
    leave();
  }
}

async function answer(plan: Plan, ctx: RequestContext): Promise<void> {
  try {
    await respond(plan, ctx, await findAnswer(ctx));
  } catch (error) {
    await answerError(plan, ctx, attribute(plan, ctx, error));
  } finally {
    ctx.dropBody();
  }
}

async function findAnswer(ctx: RequestContext): Promise<Result> {
  const { stages } = ctx.pipeline;
  for (let i = 0; i < stages.length; i++) {
    const stage = stages[i]!;
    if (!admit(ctx, stage)) continue;
    const { request } = stage.hooks;
    if (request === undefined) continue;
    // Observers written below the stage that answers watch it too, also when it fails.
    if (stage.definition.terminal) admitObservers(ctx, stages.slice(i + 1));
    ctx.stage = stage;
    const returned = request.call(stage.hooks, ctx);
    const result = returned instanceof Promise ? await returned : returned;
    if (ctx.aborted) throw new StageError('bad_http', 'The client went away.');
    ctx.stage = undefined;
    if (result !== undefined) return result;
  }
  throw new StageError('internal_error', 'No stage of the pipeline answered this request.');
}

/** Enters a stage unless its guard says no. From then on its `finish` hook is owed. */
function admit(ctx: RequestContext, stage: CompiledStage): boolean {
  ctx.stage = stage;
  const admitted = stage.guard === undefined || stage.guard(ctx.facts);
  if (admitted) ctx.entered.push(stage);
  return admitted;
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
  const observers = ctx.pipeline.observed ? ctx.entered.filter((stage) => stage.hooks.event !== undefined) : [];
  await relayResponse(ctx, result, {
    onHead(head) {
      for (const stage of ctx.entered) {
        if (stage.hooks.response === undefined) continue;
        ctx.stage = stage;
        stage.hooks.response(ctx, head);
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
      stage.hooks.event!(ctx, event);
    } catch (error) {
      // The client already has the bytes; an observer that fails must not cut its stream.
      plan.services.log.error(
        { err: error, stage: stage.id, request_id: ctx.peek('request.id') },
        'a stage failed on an event',
      );
    }
  }
  ctx.stage = undefined;
}

/** Turns anything thrown into a catalogue error that names the stage it came from. */
function attribute(plan: Plan, ctx: RequestContext, error: unknown): StageError {
  const stage = ctx.stage?.id;
  ctx.stage = undefined;
  if (stage !== undefined) ctx.note('error.stage', stage);
  if (error instanceof StageError) return error;
  plan.services.log.error({ err: error, stage, request_id: ctx.peek('request.id') }, 'a stage failed');
  return stage === undefined
    ? new StageError('internal_error', 'The gateway failed on this request; its log says why.')
    : new StageError('stage_failed', `The stage "${stage}" failed on this request; the gateway's log says why.`, {
        details: { stage },
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
  sendAnswer(ctx, {
    kind: 'answer',
    status: error.status,
    headers: errorHeaders(error),
    body: errorBody(ctx.pipeline.spec.match.surface, error, ctx.peek('request.id')!),
  });
}

/** What the first matching `on_error` clause makes of an error; the error itself without one. */
async function handleError(plan: Plan, ctx: RequestContext, raised: StageError): Promise<Result | StageError> {
  for (const clause of ctx.pipeline.on_error) {
    if (clause.errors !== undefined && !clause.errors.has(raised.code)) continue;
    try {
      if (clause.guard !== undefined && !clause.guard(ctx.facts)) continue;
      ctx.stage = clause;
      return (await clause.hooks.request!(ctx)) ?? raised;
    } catch (error) {
      if (error instanceof StageError) return error;
      plan.services.log.error(
        { err: error, stage: clause.id, request_id: ctx.peek('request.id') },
        'an on_error stage failed',
      );
      return raised;
    } finally {
      ctx.stage = undefined;
    }
  }
  return raised;
}

/** After the first byte an error can only be one more event; where no event fits, the cut connection says it. */
function endBrokenStream(ctx: RequestContext, error: StageError): void {
  const { res } = ctx.exchange;
  if (ctx.last_events === undefined) {
    res.destroy();
    return;
  }
  const { surface } = ctx.pipeline.spec.match;
  const between_events = /\n\r?\n$/.test(ctx.last_events.toString('latin1'));
  const name = surface === 'chat' ? '' : 'event: error\n';
  const data = `data: ${errorBody(surface, error, ctx.peek('request.id')!)}\n\n`;
  res.end(`${between_events ? '' : '\n\n'}${name}${data}`);
}

async function finish(plan: Plan, ctx: RequestContext): Promise<void> {
  const { res } = ctx.exchange;
  ctx.note('outcome.status', res.headersSent ? res.statusCode : CLIENT_CLOSED_REQUEST);
  ctx.note('outcome.aborted', ctx.aborted);
  ctx.note('outcome.duration_ms', plan.services.clock.monotonic() - ctx.started_at);
  const error = ctx.peek('error.code');
  if (error !== undefined && !ctx.aborted) ctx.note('outcome.error', error);
  if (ctx.rewrites.length > 0) ctx.note('outcome.rewrites', ctx.rewrites);
  for (let i = ctx.entered.length - 1; i >= 0; i--) {
    const stage = ctx.entered[i]!;
    if (stage.hooks.finish !== undefined) await runLast(plan, ctx, stage, 'finish');
  }
  for (const stage of ctx.pipeline.finally) {
    await runLast(plan, ctx, stage, 'finally');
  }
}

/** Runs a `finish` or `finally` hook by itself: its failure is logged and changes nothing for the others. */
async function runLast(
  plan: Plan,
  ctx: RequestContext,
  stage: CompiledStage,
  moment: 'finish' | 'finally',
): Promise<void> {
  const hook = stage.hooks[moment];
  if (hook === undefined) return;
  try {
    if (moment === 'finally' && stage.guard !== undefined && !stage.guard(ctx.facts)) return;
    ctx.stage = stage;
    const returned = hook.call(stage.hooks, ctx);
    if (returned instanceof Promise) await returned;
  } catch (error) {
    plan.services.log.error(
      { err: error, stage: stage.id, request_id: ctx.peek('request.id') },
      `a stage failed in its ${moment} hook`,
    );
  } finally {
    ctx.stage = undefined;
  }
}
