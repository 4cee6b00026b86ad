/** Validates and copies what stages return and throw, before any of it reaches the socket. @module */
import { IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';
import { StageError } from '../../../base/contract/errors.ts';
import type { Log } from '../../../base/contract/services.ts';
import type { Answer, Capability, Relay, StageHooks } from '../../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../../base/contract/upstream-response.ts';
import { describeSyntaxError } from '../../../base/kit/json/faults.ts';
import { ReceivedResponse } from '../../../domain/upstreams/transports/direct-transport.ts';
import type { CompiledPipeline, CompiledStage } from '../compiled.ts';

interface Attributed {
  stage: CompiledStage | undefined;
}

interface Logged {
  readonly pipeline: CompiledPipeline;
  readonly trace: { readonly trace_id: string };
  peek(path: 'request.id'): string | undefined;
}

/** The result of a `request` hook that responds. */
export type Result = Answer | Relay;

/** Headers of the connection and of framing, which only the engine writes. */
const CONNECTION_HEADERS = new Set(['connection', 'content-length', 'keep-alive', 'transfer-encoding', 'upgrade']);

/** Throws for a capability that a stage does not declare. */
export function requireCapability({ definition }: CompiledStage, capability: Capability, what: string): void {
  if (definition.needs.includes(capability)) return;
  throw new Error(`${what} needs the capability "${capability}", which the stage does not declare under \`needs\``);
}

function checkStatus(status: unknown, min: number): number {
  if (Number.isInteger(status) && (status as number) >= min && (status as number) <= 599) return status as number;
  throw new Error(`the status must be a whole number from ${min} to 599`);
}

/** Throws for an invalid header, and for one that frames the response or controls its connection. */
export function checkHeader(name: string, value: unknown): asserts value is string {
  validateHeaderName(name);
  validateHeaderValue(name, value as string);
  if (typeof value !== 'string') throw new Error(`the header ${name} must be a string`);
  const lower = name.toLowerCase();
  if (!CONNECTION_HEADERS.has(lower) || (lower === 'connection' && value === 'close')) return;
  throw new Error(`only the gateway may set the header ${lower}`);
}

function checkHeaders(headers: unknown): Record<string, string> {
  if (typeof headers !== 'object' || headers === null) throw new Error('`headers` must be an object of strings');
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => {
      checkHeader(name, value);
      return [name.toLowerCase(), value];
    }),
  );
}

function checkAnswer({ status, headers, body }: Partial<Answer>): Answer {
  if (typeof body !== 'string') throw new Error('the `body` of a response must be a string');
  return { kind: 'answer', status: checkStatus(status, 200), headers: checkHeaders(headers), body };
}

/** Throws for invalid JSON, without quoting it. */
export function checkJson(json: string): string {
  const text = String(json);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`the new body ${describeSyntaxError(error)}`);
  }
  return text;
}

/** Whether a value is a response of Node's HTTP client or of a transport of the gateway. */
function isResponse(value: unknown): value is UpstreamResponse {
  return value instanceof IncomingMessage || value instanceof ReceivedResponse;
}

const areSeconds = (value: number) => value > 0 && value < 1e6;

function checkRelay(ctx: Attributed, stage: CompiledStage, returned: Relay): Relay {
  const relay = { ...returned };
  const { response, idle_seconds, first_chunk_seconds = idle_seconds, inspect } = relay;
  requireCapability(stage, 'network', 'relaying a response');
  if (!isResponse(response)) throw new Error('the `response` of a relay must be an http.IncomingMessage');
  checkStatus(response.statusCode, 200);
  if (!areSeconds(idle_seconds)) throw new Error('`idle_seconds` of a relay must be a positive number');
  if (!areSeconds(first_chunk_seconds)) throw new Error('`first_chunk_seconds` of a relay must be a positive number');
  if (inspect === undefined) return relay;
  const inspectAsStage = (first: Buffer | undefined) => {
    ctx.stage = stage;
    const refusal = inspect(first);
    if (refusal === undefined) ctx.stage = undefined;
    else if (!(refusal instanceof StageError)) throw new Error('`inspect` must return a StageError or nothing');
    return refusal && isRefusal(stage, refusal) ? checkError(refusal) : refusal;
  };
  return { ...relay, inspect: inspectAsStage };
}

/** A validated copy of a contained stage's result. Throws the problem, and discards the result. */
export function checkResult(ctx: Attributed, stage: CompiledStage, returned: unknown): Result | undefined {
  try {
    if (returned === undefined) {
      if (stage.definition.terminal) throw new Error('a terminal stage must respond, and it returned nothing');
      return undefined;
    }
    const kind = (returned as { kind?: unknown } | null)?.kind;
    if (kind !== 'answer' && kind !== 'relay') {
      throw new Error('a request hook must return a response, a relay or nothing');
    }
    requireCapability(stage, 'respond', 'answering');
    return kind === 'answer' ? checkAnswer(returned as Answer) : checkRelay(ctx, stage, returned as Relay);
  } catch (error) {
    discardResult(returned);
    throw error;
  }
}

/** Destroys the upstream response in a result that will not be used. */
export function discardResult(returned: unknown): void {
  const response = (returned as Partial<Relay> | null | undefined)?.response;
  if (isResponse(response)) response.destroy();
}

/** A validated copy of a contained stage's error. Throws when it can't be sent. */
export function checkError(error: StageError): StageError {
  const { code, message, status, headers, details } = error;
  if (typeof message !== 'string') throw new Error('the message of an error must be a string');
  const more = { status: checkStatus(status, 400), headers: checkHeaders(headers), cause: error };
  return new StageError(code, message, { ...more, details: JSON.parse(JSON.stringify(details)) });
}

/** Codes that the context raises, in every stage that reads a body or waits. */
const CONTEXT_CODES: ReadonlySet<string> = new Set([
  ...['bad_http', 'body_too_large', 'draining', 'invalid_encoding', 'invalid_json', 'overloaded'],
  ...['rate_limit_exceeded', 'request_timeout'],
]);

/** The engine's own timeout errors, by identity: a stage could throw a similar one with any text. */
const timeouts = new WeakSet<object>();

/** The error of a stage that timed out. */
export function timeoutOf(id: string, seconds: number): StageError {
  const message = `The stage "${id}" did not finish within ${seconds} seconds.`;
  const error = new StageError('stage_failed', message, { details: { stage: id } });
  timeouts.add(error);
  return error;
}

/** Whether an error is a rejection that the stage declares in `raises`, rather than a failure of the stage. */
export function isRefusal({ definition }: Pick<CompiledStage, 'definition'>, error: unknown): error is StageError {
  if (!(error instanceof StageError)) return false;
  return CONTEXT_CODES.has(error.code) || definition.raises.includes(error.code);
}

/** The error for the client of a request on which a stage failed. */
export function failureOf({ id }: CompiledStage, error: unknown): StageError {
  if (timeouts.has(error as object)) return error as StageError;
  return new StageError(
    'stage_failed',
    `The stage "${id}" failed on this request. Give your administrator the request id.`,
    {
      details: { stage: id },
    },
  );
}

/** Logs the failure of a stage. A failure that does not change the response appears nowhere else. */
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
    // Reading the properties of an error can throw; the other hooks must still run.
    log.error(where, message);
  }
}

/** The thrown value as an Error for the log. Any other value may contain prompt text and is not logged. */
export function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(`it threw ${thrown === null ? 'null' : `a value of type ${typeof thrown}`}, not an Error`);
}
