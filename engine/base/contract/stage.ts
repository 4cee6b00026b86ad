/** What a stage is: its hooks, and all it is given of a request. @module */
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
 * What a stage may do beyond reading and writing facts. `raw-body`: `body` and `readBody`. `rewrite-body`: `body.rewrite`,
 * `body.rename`, `body.remove`, `body.addFields`, `body.replaceTexts` and `body.replace`. `convert-response`: `convertResponse`; only stages that ship with the gateway have it.
 * `rewrite-response`: the `rewrite` hook.
 * `respond`: return an answer or a relay. `network`: `call`, and a relay. `database`: the services tokens, ledger, audit.
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

/** How far an answer is read on for its bill once nobody waits for it any more. */
export interface DrainLimits {
  readonly seconds: number;
  readonly bytes: number;
  /** How many requests are read on at once under these limits; the engine counts them, over all and by caller. */
  readonly requests: number;
  running: number;
  readonly running_of: Map<string, number>;
}

/** An upstream response to stream to the client. */
export interface Relay {
  readonly kind: 'relay';
  readonly response: UpstreamResponse;
  /** Longest silence between two chunks, in seconds. */
  readonly idle_seconds: number;
  /** Longest silence before the first of them; `idle_seconds` where absent. */
  readonly first_chunk_seconds?: number;
  /** Looks at the first chunk (`undefined` for an empty body) before anything is sent, and returns why this is no answer to pass on. */
  readonly inspect?: (first: Buffer | undefined) => StageError | undefined;
  /** What was read of the response already; what comes still is read from it. */
  readonly begun?: readonly Buffer[];
}

export type { JsonValue, RequestBody, SkimmedBody } from './request-body.ts';

/** Answers with JSON. */
export function answerJson(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return {
    kind: 'answer',
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(value),
  };
}

/**
 * Turns the bytes of an upstream's response into those the client gets. Bytes come without content encoding, in pieces of
 * any size; the converter keeps what it cannot yet turn.
 */
export interface ResponseConverter {
  /** Raises upstream_invalid. */
  write(chunk: Buffer): Buffer | string;
  /** The upstream's response has ended. Raises upstream_invalid and upstream_failed. */
  end(): Buffer | string;
  /** What ends the stream after an error, when something of it was sent already: whole events. Absent: the engine's own. */
  fail?(error: StageError): string;
  /** Whether the client has its end, which may be an error, should nothing more come. Absent: what was sent last says it. */
  hasEnd?(): boolean;
}

/** What a stage sees of the upstream's response head before anything was sent. */
export interface ResponseHead {
  readonly status: number;
  get(name: string): string | undefined;
  /** Throws for what no header can be, and for a header that frames the response or rules its connection. */
  set(name: string, value: string): void;
  remove(name: string): void;
  /** Puts headers in the place of all whose name begins with `prefix`, which is in lower case and not empty. Throws like `set`. */
  replaceAll(prefix: string, headers: Readonly<Record<string, string>>): void;
}

/** The head of a response that is converted. Its status may change until the converter gives the first bytes. */
export interface ConvertedHead extends Omit<ResponseHead, 'status'> {
  status: number;
}

/**
 * One server-sent event, or the whole body when the response is one JSON document (`name` is then `undefined`). An event that
 * has no name of its own is called `message` (WHATWG HTML, server-sent events).
 */
export interface ResponseEvent {
  readonly name: string | undefined;
  readonly data: string;
  /** Of a large document its size, and its text without long strings and deep values; empty where too much would be left. */
  readonly large?: { readonly bytes: number; readonly outline: string };
}

/**
 * One request on its way through a pipeline, as a stage with these declared reads and writes sees it. A stage that is not
 * one of the shipped ones can use it only while the hook it was given to runs.
 */
export interface StageContext<
  Reads extends FactPath = FactPath,
  ReadsIfSet extends FactPath = FactPath,
  Writes extends FactPath = FactPath,
> {
  /** Received headers, lower-case names. Credentials are here: never copy them into facts, logs or errors. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Path and query string as received. */
  readonly url: string;
  /** The value of a fact; `undefined` only for facts declared in `readsIfSet`. */
  get<P extends Reads>(path: P): FactValue<P>;
  get<P extends ReadsIfSet>(path: P): FactValue<P> | undefined;
  /** Writes a fact. Throws when it is undeclared or already written. */
  set<P extends Writes>(path: P, value: FactValue<P>): void;
  /** Writes a fact that the stage declares in `facts`. Throws for another, a value of another type, and a second time. */
  noteFact(name: string, value: number | boolean | string): void;
  /** Reads the body into memory. Raises body_too_large, request_timeout, rate_limit_exceeded, overloaded, bad_http. */
  readBody(): Promise<RequestBody>;
  /** Counts the request, until it is answered, among those under way in this process under a name; false when there are `most`. */
  occupy(name: string, most: number): boolean;
  /**
   * The same, but requests whose answers are only read on, as their clients have gone, make room: it waits a second for them,
   * and then ends the oldest.
   */
  occupyInTime(name: string, most: number): Promise<boolean>;
  /** The body read earlier; `undefined` before that and after the upstream has answered. */
  readonly body: RequestBody | undefined;
  /** A slot for whatever the stage keeps between its hooks for this request; `undefined` at first, its own alone. */
  state: unknown;
  /** What is reserved for the request; set by the stage that reserved it. Needs the `database` capability. */
  reservation: Reservation | undefined;
  /** Where the request can go, the first being where its route facts say; set by the stage that routes. */
  candidates: readonly Candidate[] | undefined;
  /** Takes the first candidate out, before anything was sent; false where there is no other. Needs the `database` capability. */
  passOver(reason: DropReason): boolean;
  /** What became of each attempt to have the request served, in order. */
  readonly attempts: readonly AttemptRecord[];
  /**
   * Adds to `attempts`, or puts it in the place of the one with its number. Needs the `network` capability.
   * @param received_bytes what was read of an answer that is not relayed.
   * @param began_at when it began, on the monotonic clock; without it, the attempt has ended just now.
   */
  noteAttempt(attempt: AttemptRecord, received_bytes: number, began_at?: number): void;
  /** Keeps the limits that decided, with what is reserved, for telemetry and the audit log. Needs the `database` capability. */
  noteLimits(limits: readonly LimitStatus[]): void;
  /** The trace that the request belongs to. */
  readonly trace: TraceIdentity;
  /** Adds to the fact `route.dropped`, whoever has written it before. Needs the `network` capability. */
  noteDropped(upstream: string, reason: DropReason): void;
  /**
   * Makes the request ready for an upstream: the body is again what the `request` hooks made of it, the facts are those of the
   * upstream, and the `attempt` hooks run, whose errors it raises. Needs the `network` capability.
   * @param is_last whether no other upstream follows, so that nothing needs to be kept for one.
   */
  prepareAttempt(facts: RouteFacts, is_last: boolean): void | Promise<void>;
  /** Whether the client has gone away. */
  readonly aborted: boolean;
  /** Why the gateway has given up on the request, which then ends with this error: nothing new is begun for it. */
  readonly given_up: StageError | undefined;
  /** Is told when the gateway gives up while the stage still waits, or at once where it has; the stage then raises `reason`. */
  onCancel(listener: (reason: StageError) => void): void;
  /**
   * Says that an upstream has the request from now on. If the client goes away, the answer is read on within these limits,
   * so that what it costs is known; without limits, or beyond them, `onCancel` is told. Needs the `network` capability.
   */
  drainWithin(limits: DrainLimits | undefined): void;
  /**
   * Has an answer read on for its bill that comes after the stage has failed, for some seconds within the limits of
   * `drainWithin`; `cancel` then gives up on it. @returns false where that can't be.
   */
  drainLater(relay: Promise<Relay>, seconds: number, cancel: (reason: StageError) => void): boolean;
  /** Records in the fact `outcome.shadow` that something in shadow mode held, by name: `routing:<rule>`, `spend:<rule>`. */
  noteShadow(name: string): void;
  /**
   * Has the upstream's response converted on its way to the client. `make` is called once, when the head is known and the
   * `response` hooks have seen it, and may change the head; without a converter the bytes pass as they are. Needs the
   * `convert-response` capability; one stage of a pipeline can do it for a request.
   */
  convertResponse(make: (head: ConvertedHead) => ResponseConverter | undefined): void;
  /** Whether the response may be converted, so that the upstream must not compress it. */
  readonly converts_response: boolean;
  /** Size of what the upstream has sent so far, in bytes. */
  readonly relayed_bytes: number;
  /** The Node objects, for a stage with the `network` capability that hands them to a proxy. */
  readonly call: { readonly req: IncomingMessage; readonly res: ServerResponse };
}

type MaybePromise<T> = T | Promise<T>;

/**
 * What a stage does, by moment. The order of a request's life:
 * `request` in YAML order until one answers; `attempt` in YAML order before each attempt to send it upstream; `response` and `rewrite` when the upstream's head is known; `event` for everything
 * observed; `finish` newest first, exactly once per entered stage, whatever happened; `finally` last, in YAML order.
 */
export interface StageHooks<C = StageContext> {
  request?(ctx: C): MaybePromise<undefined | Answer | Relay>;
  /**
   * The request is about to go to the upstream that the route facts name, the first or another one after that failed: facts may
   * be written anew, and the body be made what this upstream understands. An error keeps the request from this upstream.
   */
  attempt?(ctx: C): MaybePromise<void>;
  /** The head is sent when it returns: a promise is a failure. */
  response?(ctx: C, head: ResponseHead): void;
  /**
   * What to replace in the texts of the answer that the client gets, asked before its head is sent; nothing where `undefined`.
   * Needs the `rewrite-response` capability. In shadow mode what it finds is only counted.
   */
  rewrite?(ctx: C): Rewriting | undefined;
  /** Events of a stream come in bulk: up to 50 ms after the client has them, and no later than the end of the answer. */
  event?(ctx: C, event: ResponseEvent): void;
  /** `outcome.*` facts are set by now, apart from `outcome.shadow`. */
  finish?(ctx: C): MaybePromise<void>;
  /** Only for stages listed under `finally:`; runs after the response, cannot change it. */
  finally?(ctx: C): MaybePromise<void>;
  /** Releases what `create` opened; called after the plan's last request. */
  close?(): MaybePromise<void>;
}

/** A stage: one step a pipeline can name. Made with `defineStage`. */
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
  /** Facts of its own, by name; conditions read them as `<stage>.<fact>`, `noteFact` writes them. */
  readonly facts?: Readonly<Record<string, StageFact>>;
  /** Error codes its hooks may raise. */
  readonly raises: readonly ErrorCode[];
  readonly needs: readonly Capability[];
  /** Whether its `request` hook always ends the request with an answer. */
  readonly terminal: boolean;
  /** Stages that must stand above it where they are in the same pipeline, because their `finish` must come after its own. */
  readonly below: readonly string[];
  /** The list of a pipeline it belongs into: `finally` for a stage with a `finally` hook. */
  readonly place: 'stages' | 'finally';
  /** Longest one of its hooks may take, in seconds, where a pipeline says nothing else. */
  readonly timeout_seconds?: number;
  /** Load-time checks that a schema can't say; returns one sentence per problem. */
  check?(options: unknown, config: GatewayConfig): readonly string[];
  /** @param options as the schema says, with defaults. */
  create(options: unknown, services: Services): StageHooks;
}

/**
 * Defines a stage. Reading a fact that is not in `reads` or `readsIfSet` does not compile, nor an option that is not in the
 * schema.
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
