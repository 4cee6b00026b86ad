import { StageError } from '../../contract/errors.ts';
import type { Log } from '../../contract/services.ts';
import type { StageHooks } from '../../contract/stage.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';

/** Codes that the context itself raises, in every stage that reads a body or waits. */
const CONTEXT_CODES: ReadonlySet<string> = new Set([
  'bad_http',
  'body_too_large',
  'draining',
  'invalid_encoding',
  'invalid_json',
  'overloaded',
  'rate_limit_exceeded',
  'request_timeout',
]);

/** The errors of stages that ran out of time. A stage could make one that looks alike, and put any text into it. */
const timeouts = new WeakSet<object>();

/** The failure of a stage that ran out of time. */
export function timeoutOf(id: string, seconds: number): StageError {
  const message = `The stage "${id}" did not finish within ${seconds} seconds.`;
  const error = new StageError('stage_failed', message, { details: { stage: id } });
  timeouts.add(error);
  return error;
}

/** Whether an error is a stage's way to refuse a request rather than a failure of the stage. */
export function isRefusal({ definition }: Pick<CompiledStage, 'definition'>, error: unknown): error is StageError {
  if (!(error instanceof StageError)) return false;
  return CONTEXT_CODES.has(error.code) || definition.raises.includes(error.code);
}

/** What a request is refused with because a stage failed on it. */
export function failureOf({ id }: CompiledStage, error: unknown): StageError {
  if (timeouts.has(error as object)) return error as StageError;
  return new StageError('stage_failed', `The stage "${id}" failed on this request; the gateway's log says why.`, {
    details: { stage: id },
  });
}

/** Makes a stage's failure known: the log is the only place where one that changes no answer can be seen. */
export function reportFailure(
  log: Log,
  ctx: RequestContext,
  { id }: Pick<CompiledStage, 'id'>,
  moment: keyof StageHooks,
  error: unknown,
): void {
  const request = { request_id: ctx.peek('request.id'), trace_id: ctx.trace.trace_id };
  const where = { stage: id, pipeline: ctx.pipeline.spec.name, ...request };
  const message = `a stage failed in its ${moment} hook`;
  try {
    log.error({ err: asError(error), ...where }, message);
  } catch {
    // An error whose properties throw when they are read must not take the hooks of others with it.
    log.error(where, message);
  }
}

/** What a stage threw, as something a log can show; anything but an error may be prompt text and is not repeated. */
export function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(`it threw ${thrown === null ? 'null' : `a value of type ${typeof thrown}`}, which is no error`);
}
