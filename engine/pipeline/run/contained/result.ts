/** What stages return and throw: taken apart and checked, so that nothing of a stage's own making reaches the socket. */
import { IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';
import { StageError } from '../../../base/contract/errors.ts';
import type { Log } from '../../../base/contract/services.ts';
import type { Answer, Capability, Relay, StageHooks } from '../../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import { describeSyntaxError } from '../../../base/kit/json/faults.ts';
import { ReceivedAnswer } from '../../../domain/upstreams/transports/direct-transport.ts';
import type { CompiledPipeline, CompiledStage } from '../compiled.ts';

/** A request that knows whose hook runs. */
interface Attributed {
  stage: CompiledStage | undefined;
}

/** What a log says of a request. */
interface Logged {
  readonly pipeline: CompiledPipeline;
  readonly trace: { readonly trace_id: string };
  peek(path: 'request.id'): string | undefined;
}

/** What a `request` hook ends a request with. */
export type Result = Answer | Relay;

/** Headers that belong to the connection, which is the engine's. */
const CONNECTION_HEADERS = new Set(['connection', 'content-length', 'keep-alive', 'transfer-encoding', 'upgrade']);

/** Throws for a capability that a stage does not declare. */
export function requireCapability({ definition }: CompiledStage, capability: Capability, what: string): void {
  if (definition.needs.includes(capability)) return;
  throw new Error(`${what} needs the capability "${capability}", which the stage does not declare under \`needs\``);
}

function checkStatus(status: unknown, least: number): number {
  if (Number.isInteger(status) && (status as number) >= least && (status as number) <= 599) return status as number;
  throw new Error(`the status is not one from ${least} to 599`);
}

/** Throws for a header that no response can have, and for one that frames the response or rules its connection. */
export function checkHeader(name: string, value: unknown): asserts value is string {
  validateHeaderName(name);
  validateHeaderValue(name, value as string);
  if (typeof value !== 'string') throw new Error(`the header ${name} is not a text`);
  const lower = name.toLowerCase();
  if (!CONNECTION_HEADERS.has(lower) || (lower === 'connection' && value === 'close')) return;
  throw new Error(`the header ${lower} is the gateway's to write`);
}

function checkHeaders(headers: unknown): Record<string, string> {
  if (typeof headers !== 'object' || headers === null) throw new Error('there are no `headers`, an object of texts');
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      checkHeader(name, value);
      return [name.toLowerCase(), value];
    }),
  );
}

function checkAnswer({ status, headers, body }: Partial<Answer>): Answer {
  if (typeof body !== 'string') throw new Error('an answer has a `body`, a text');
  return { kind: 'answer', status: checkStatus(status, 200), headers: checkHeaders(headers), body };
}

/** Throws for a text that is no JSON, without repeating it. */
export function checkJson(json: string): string {
  const text = String(json);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`what a body is replaced by ${describeSyntaxError(error)}`);
  }
  return text;
}

/** What Node's client received, or a transport of ours. */
function isResponse(value: unknown): value is UpstreamResponse {
  return value instanceof IncomingMessage || value instanceof ReceivedAnswer;
}

const areSeconds = (value: number) => value > 0 && value < 1e6;

function checkRelay(ctx: Attributed, stage: CompiledStage, returned: Relay): Relay {
  const relay = { ...returned };
  const { response, idle_seconds, first_chunk_seconds = idle_seconds, inspect } = relay;
  requireCapability(stage, 'network', 'relaying a response');
  if (!isResponse(response)) throw new Error('a relay has a `response`, as Node receives it');
  checkStatus(response.statusCode, 200);
  if (!areSeconds(idle_seconds)) throw new Error('a relay has `idle_seconds`, a number of seconds');
  if (!areSeconds(first_chunk_seconds)) throw new Error('the `first_chunk_seconds` of a relay are a number of seconds');
  if (inspect === undefined) return relay;
  const inspectAsStage = (first: Buffer | undefined) => {
    ctx.stage = stage;
    const refusal = inspect(first);
    if (refusal === undefined) ctx.stage = undefined;
    else if (!(refusal instanceof StageError)) throw new Error('`inspect` returns a StageError or nothing');
    return refusal && isRefusal(stage, refusal) ? checkError(refusal) : refusal;
  };
  return { ...relay, inspect: inspectAsStage };
}

/** The result of a contained stage, taken apart and checked. */
export function checkResult(ctx: Attributed, stage: CompiledStage, returned: unknown): Result | undefined {
  try {
    if (returned === undefined) {
      if (stage.definition.terminal) throw new Error('it is a stage that always answers, and did not');
      return undefined;
    }
    const kind = (returned as { kind?: unknown } | null)?.kind;
    if (kind !== 'answer' && kind !== 'relay') {
      throw new Error('a request hook returns nothing, an answer or a relay, and it returned something else');
    }
    requireCapability(stage, 'respond', 'answering');
    return kind === 'answer' ? checkAnswer(returned as Answer) : checkRelay(ctx, stage, returned as Relay);
  } catch (error) {
    discardResult(returned);
    throw error;
  }
}

/** Lets go of the upstream's response in a result that will not be used. */
export function discardResult(returned: unknown): void {
  const response = (returned as Partial<Relay> | null | undefined)?.response;
  if (isResponse(response)) response.destroy();
}

/** The error of a contained stage, taken apart and checked like a result. Throws when it can't be sent. */
export function checkError(error: StageError): StageError {
  const { code, message, status, headers, details } = error;
  if (typeof message !== 'string') throw new Error('the message of an error is not a text');
  const more = { status: checkStatus(status, 400), headers: checkHeaders(headers), cause: error };
  return new StageError(code, message, { ...more, details: JSON.parse(JSON.stringify(details)) });
}

/** Codes that the context itself raises, in every stage that reads a body or waits. */
const CONTEXT_CODES: ReadonlySet<string> = new Set([
  ...['bad_http', 'body_too_large', 'draining', 'invalid_encoding', 'invalid_json', 'overloaded'],
  ...['rate_limit_exceeded', 'request_timeout'],
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
  ctx: Logged,
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
