import { IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http';
import { StageError } from '../../contract/errors.ts';
import type { Answer, Capability, Relay } from '../../contract/stage.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { ReceivedAnswer } from '../../upstreams/transports/received-answer.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';
import { isRefusal } from './stage-failure.ts';

/** What a `request` hook ends a request with. */
export type Result = Answer | Relay;

/** Headers that belong to the connection, which is the engine's. */
const CONNECTION_HEADERS = new Set(['connection', 'content-length', 'keep-alive', 'transfer-encoding', 'upgrade']);

function requireCapability({ definition }: CompiledStage, capability: Capability, what: string): void {
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
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    checkHeader(name, value);
    checked[name.toLowerCase()] = value;
  }
  return checked;
}

function checkAnswer({ status, headers, body }: Partial<Answer>): Answer {
  if (typeof body !== 'string') throw new Error('an answer has a `body`, a text');
  return { kind: 'answer', status: checkStatus(status, 200), headers: checkHeaders(headers), body };
}

/** What Node's client received, or a transport of ours. */
function isResponse(value: unknown): value is UpstreamResponse {
  return value instanceof IncomingMessage || value instanceof ReceivedAnswer;
}

const areSeconds = (value: number) => value > 0 && value < 1e6;

function checkRelay(ctx: RequestContext, stage: CompiledStage, relay: Relay): Relay {
  const { response, idle_seconds, first_chunk_seconds = idle_seconds, inspect, begun } = relay;
  requireCapability(stage, 'network', 'relaying a response');
  if (!isResponse(response)) throw new Error('a relay has a `response`, as Node receives it');
  checkStatus(response.statusCode, 200);
  if (!areSeconds(idle_seconds)) throw new Error('a relay has `idle_seconds`, a number of seconds');
  if (!areSeconds(first_chunk_seconds)) throw new Error('the `first_chunk_seconds` of a relay are a number of seconds');
  const checked = { kind: 'relay', response, idle_seconds, first_chunk_seconds, ...(begun && { begun }) } as const;
  if (inspect === undefined) return checked;
  const inspectAsStage = (first: Buffer | undefined) => {
    ctx.stage = stage;
    const refusal = inspect(first);
    if (refusal === undefined) ctx.stage = undefined;
    else if (!(refusal instanceof StageError)) throw new Error('`inspect` returns a StageError or nothing');
    return refusal && isRefusal(stage, refusal) ? checkError(refusal) : refusal;
  };
  return { ...checked, inspect: inspectAsStage };
}

/** The result of a contained stage, taken apart and checked: nothing of the stage's own making reaches the socket. */
export function checkResult(ctx: RequestContext, stage: CompiledStage, returned: unknown): Result | undefined {
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
