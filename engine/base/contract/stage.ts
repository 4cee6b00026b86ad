/** The stage API: definition, hooks and request context. @module */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { GatewayConfig } from './config.ts';
import type { ErrorCode, StageError } from './errors.ts';
import type { FactPath, FactValue } from './facts.ts';
import type { AttemptRecord, Candidate, DropReason, RouteFacts } from './forwarding.ts';
import type { JsonSchema, ValueOf } from './json-schema.ts';
import type { StageFact } from './own-facts.ts';
import type { RequestBody } from './request-body.ts';
import type { Rewriting } from './rewriting.ts';
import type { LimitStatus, Reservation, Services } from './services.ts';
import type { TraceIdentity } from './telemetry.ts';
import type { UpstreamResponse } from './upstream-response.ts';

/**
 * Permissions of a stage beyond reading and writing facts.
 * - `raw-body`: `body` and `readBody`.
 * - `rewrite-body`: `body.rewrite`, `rename`, `remove`, `addFields`, `replaceTexts` and `replace`.
 * - `convert-response`: `convertResponse`; for shipped stages only.
 * - `rewrite-response`: the `rewrite` hook.
 * - `respond`: return a response or a relay.
 * - `network`: `call`, and return a relay.
 * - `database`: the services `tokens`, `ledger` and `audit`.
 */
export type Capability =
  | 'raw-body'
  | 'rewrite-body'
  | 'convert-response'
  | 'rewrite-response'
  | 'respond'
  | 'network'
  | 'database';

/** A complete response made by the gateway itself. */
export interface Answer {
  readonly kind: 'answer';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Limits on reading a response to its end for its usage after the client has disconnected. */
export interface ReadToEndLimits {
  readonly seconds: number;
  readonly bytes: number;
  /** Most such responses at once; the engine counts them in `running`, by caller in `running_of`. */
  readonly requests: number;
  running: number;
  readonly running_of: Map<string, number>;
}

/** An upstream response to stream to the client. */
export interface Relay {
  readonly kind: 'relay';
  readonly response: UpstreamResponse;
  /** Idle timeout between two chunks, in seconds. */
  readonly idle_seconds: number;
  /** Idle timeout before the first chunk; default `idle_seconds`. */
  readonly first_chunk_seconds?: number;
  /** Checks the first chunk (`undefined` for an empty body) before anything is sent. Returns an error to send instead. */
  readonly inspect?: (first: Buffer | undefined) => StageError | undefined;
  /** Chunks already read from the response; the relay reads the rest. */
  readonly begun?: readonly Buffer[];
}

export type { JsonValue, RequestBody, SkimmedBody } from './request-body.ts';

/** A JSON response. */
export function answerJson(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return {
    kind: 'answer',
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(value),
  };
}

/** Transforms a response for the client, in chunks of any size without content encoding; it buffers what it must. */
export interface ResponseConverter {
  /** Raises upstream_invalid. */
  write(chunk: Buffer): Buffer | string;
  /** The upstream's response has ended. Raises upstream_invalid and upstream_failed. */
  end(): Buffer | string;
  /** Complete events that end a stream after an error once part of it was sent. Absent: those of the engine. */
  fail?(error: StageError): string;
  /** Whether the client already has the end of the stream, or an error. Absent: the last bytes sent decide. */
  hasEnd?(): boolean;
}

/** Status and headers of the upstream response, before anything is sent to the client. */
export interface ResponseHead {
  readonly status: number;
  get(name: string): string | undefined;
  /** Throws for an invalid header, and for a framing or connection header. */
  set(name: string, value: string): void;
  remove(name: string): void;
  /** Replaces all headers whose name begins with `prefix` (lower case, not empty). Throws like `set`. */
  replaceAll(prefix: string, headers: Readonly<Record<string, string>>): void;
}

/** The head of a converted response. Its status may change until the converter returns the first bytes. */
export interface ConvertedHead extends Omit<ResponseHead, 'status'> {
  status: number;
}

/** A server-sent event (`message` if unnamed, as in WHATWG HTML); of a JSON response its whole body, without a name. */
export interface ResponseEvent {
  readonly name: string | undefined;
  readonly data: string;
  /** For a large document: its size, and its text without long strings and deep values (empty if still too long). */
  readonly large?: { readonly bytes: number; readonly outline: string };
}

/** The context of one request in a pipeline. A custom stage can use it only while the hook that received it runs. */
export interface StageContext<
  Reads extends FactPath = FactPath,
  ReadsIfSet extends FactPath = FactPath,
  Writes extends FactPath = FactPath,
> {
  /** Request headers, lower-case names. They include credentials: never copy those into facts, logs or errors. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Path and query string as received. */
  readonly url: string;
  /** The value of a fact; `undefined` only for facts declared in `readsIfSet`. */
  get<P extends Reads>(path: P): FactValue<P>;
  get<P extends ReadsIfSet>(path: P): FactValue<P> | undefined;
  /** Writes a fact. Throws when it is undeclared or already written. */
  set<P extends Writes>(path: P, value: FactValue<P>): void;
  /** Writes a fact that the stage declares in `facts`. Throws for an undeclared fact, a wrong type, or a second write. */
  setFact(name: string, value: number | boolean | string): void;
  /** Reads the body into memory. Raises body_too_large, request_timeout, rate_limit_exceeded, overloaded, bad_http. */
  readBody(): Promise<RequestBody>;
  /** Takes a slot of the concurrency limit `name` of this process until the response; false when `most` are taken. */
  claimSlot(name: string, most: number): boolean;
  /** Like `claimSlot`, but preempts requests whose clients have left: it waits a second, then ends the oldest. */
  waitForSlot(name: string, most: number): Promise<boolean>;
  /** The body from `readBody`; `undefined` before that, and after the upstream has responded. */
  readonly body: RequestBody | undefined;
  /** Private state of the stage for this request, kept between its hooks; `undefined` at first. */
  state: unknown;
  /** The budget reservation of the request; set by the stage that reserves. Needs the `database` capability. */
  reservation: Reservation | undefined;
  /** Upstreams that can serve the request, the one of the route facts first; set by the stage that routes. */
  candidates: readonly Candidate[] | undefined;
  /** Drops the first candidate before anything was sent; false if it is the only one. Needs the `database` capability. */
  dropFirstCandidate(reason: DropReason): boolean;
  /** The attempts to send the request to an upstream, in order. */
  readonly attempts: readonly AttemptRecord[];
  /**
   * Adds to `attempts`, or replaces the attempt with the same number. Needs the `network` capability.
   * @param received_bytes bytes read of a response that is not relayed.
   * @param began_at start on the monotonic clock; absent: the attempt ended just now.
   */
  recordAttempt(attempt: AttemptRecord, received_bytes: number, began_at?: number): void;
  /** Records the limits that decided, and what is reserved, for telemetry and audit log. Needs the `database` capability. */
  recordLimits(limits: readonly LimitStatus[]): void;
  /** Trace context of the request. */
  readonly trace: TraceIdentity;
  /** Adds to the fact `route.dropped`, which another stage may have written. Needs the `network` capability. */
  recordDropped(upstream: string, reason: DropReason): void;
  /**
   * Prepares an attempt: restores the body as the `request` hooks left it, sets the facts of the upstream, and runs the `attempt`
   * hooks. Raises their errors. Needs the `network` capability.
   * @param is_last no other upstream follows, so the original body need not be kept.
   */
  prepareAttempt(facts: RouteFacts, is_last: boolean): void | Promise<void>;
  /** Whether the client has disconnected. */
  readonly aborted: boolean;
  /** The final error of a request that the gateway has canceled; stages start nothing new for it. */
  readonly cancel_reason: StageError | undefined;
  /** Calls `listener` when the gateway cancels the request, or at once if it has. The stage then raises `reason`. */
  onCancel(listener: (reason: StageError) => void): void;
  /**
   * Marks the request as sent to an upstream. If the client disconnects, the gateway reads the response to its end within these
   * limits, to learn its usage. Without limits, or beyond them, it cancels the request. Needs the `network` capability.
   */
  readToEndWithin(limits: ReadToEndLimits | undefined): void;
  /**
   * Reads a response that comes after the stage has failed, for its usage: for `seconds`, within the limits of `readToEndWithin`.
   * Then it calls `cancel`. @returns false if the limits do not allow it.
   */
  readToEndLater(relay: Promise<Relay>, seconds: number, cancel: (reason: StageError) => void): boolean;
  /** Records a match in shadow mode in the fact `outcome.shadow`, by name: `routing:<rule>`, `spend:<rule>`. */
  recordShadow(name: string): void;
  /**
   * Converts the upstream response on its way to the client. The engine calls `make` once, after the `response` hooks; it may
   * change the head. If it returns no converter, the bytes pass unchanged. Needs the `convert-response` capability. Only one stage
   * can convert the response of a request.
   */
  convertResponse(make: (head: ConvertedHead) => ResponseConverter | undefined): void;
  /** Whether the response may be converted; the upstream must then not compress it. */
  readonly converts_response: boolean;
  /** Bytes of the response received from the upstream so far. */
  readonly relayed_bytes: number;
  /** The Node objects, for a stage with the `network` capability that passes them to a proxy. */
  readonly call: { readonly req: IncomingMessage; readonly res: ServerResponse };
}

type MaybePromise<T> = T | Promise<T>;

/**
 * The hooks of a stage, in the order of a request's life:
 * 1. `request`: in YAML order, until one responds.
 * 2. `attempt`: in YAML order, before each attempt to send the request to an upstream.
 * 3. `response` and `rewrite`: when status and headers of the upstream are known.
 * 4. `event`: for each event of the response.
 * 5. `finish`: in reverse order, exactly once per entered stage, also after errors.
 * 6. `finally`: after the response, in YAML order.
 */
export interface StageHooks<C = StageContext> {
  request?(ctx: C): MaybePromise<undefined | Answer | Relay>;
  /**
   * Runs before the request goes to the upstream of the route facts: the first one, or the next after a failure. It may write
   * facts again and adapt the body to this upstream. An error skips this upstream.
   */
  attempt?(ctx: C): MaybePromise<void>;
  /** Synchronous: the head is sent when it returns, and a returned promise is an error. */
  response?(ctx: C, head: ResponseHead): void;
  /**
   * Returns the replacements for the texts of the response, or `undefined` for none. Runs before the head is sent. Needs the
   * `rewrite-response` capability. In shadow mode matches are only counted.
   */
  rewrite?(ctx: C): Rewriting | undefined;
  /** Receives the events of a stream in batches, up to 50 ms after the client, at the latest at the end of the response. */
  event?(ctx: C, event: ResponseEvent): void;
  /** The `outcome.*` facts are set, except `outcome.shadow`. */
  finish?(ctx: C): MaybePromise<void>;
  /** For stages under `finally:` only. Runs after the response and cannot change it. */
  finally?(ctx: C): MaybePromise<void>;
  /** Releases the resources of `create`; called after the last request of the plan. */
  close?(): MaybePromise<void>;
}

/** The definition of a stage, one step of a pipeline. Made with `defineStage`. */
export interface StageDefinition {
  readonly name: string;
  readonly version: number;
  /** One sentence, present tense. */
  readonly summary: string;
  /** Closed JSON Schema of the options (`additionalProperties: false`), every property with a description. */
  readonly options: JsonSchema;
  /** Complete stage entries that compile; shown in the reference. */
  readonly examples: readonly { readonly title: string; readonly yaml: string }[];
  readonly reads: readonly FactPath[];
  readonly readsIfSet: readonly FactPath[];
  readonly writes: readonly FactPath[];
  /** Facts of the stage, by name. Conditions read them as `<stage>.<fact>`; `setFact` writes them. */
  readonly facts?: Readonly<Record<string, StageFact>>;
  /** Error codes its hooks may raise. */
  readonly raises: readonly ErrorCode[];
  readonly needs: readonly Capability[];
  /** Whether its `request` hook always responds. */
  readonly terminal: boolean;
  /** Stages of the same pipeline that must stand above it, because their `finish` must run after its own. */
  readonly below: readonly string[];
  /** The list of a pipeline it belongs to: `finally` for a stage with a `finally` hook. */
  readonly place: 'stages' | 'finally';
  /** Default timeout of each of its hooks, in seconds; a pipeline may set another. */
  readonly timeout_seconds?: number;
  /** Load-time checks that a schema cannot express; returns one sentence per problem. */
  check?(options: unknown, config: GatewayConfig): readonly string[];
  /** @param options validated by the schema, with defaults. */
  create(options: unknown, services: Services): StageHooks;
}

/**
 * Defines a stage. The compiler rejects facts missing from `reads` and `readsIfSet`, and options missing from the schema.
 * @example export default defineStage({ name: 'greet', version: 1, ... })
 */
export function defineStage<
  const Options extends JsonSchema,
  const Reads extends FactPath = never,
  const ReadsIfSet extends FactPath = never,
  const Writes extends FactPath = never,
>(definition: {
  name: string;
  version: number;
  summary: string;
  options: Options;
  examples: readonly { title: string; yaml: string }[];
  reads?: readonly Reads[];
  readsIfSet?: readonly ReadsIfSet[];
  writes?: readonly Writes[];
  facts?: Readonly<Record<string, StageFact>>;
  raises?: readonly ErrorCode[];
  needs?: readonly Capability[];
  terminal?: boolean;
  below?: readonly string[];
  place?: 'stages' | 'finally';
  timeout_seconds?: number;
  check?(options: ValueOf<Options>, config: GatewayConfig): readonly string[];
  create(options: ValueOf<Options>, services: Services): StageHooks<StageContext<Reads, ReadsIfSet, Writes>>;
}): StageDefinition {
  return Object.freeze({
    reads: [],
    readsIfSet: [],
    writes: [],
    raises: [],
    needs: [],
    terminal: false,
    below: [],
    place: 'stages',
    ...definition,
  });
}
