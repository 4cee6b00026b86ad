import type { IncomingHttpHeaders } from 'node:http';
import { StageError } from '../../base/contract/errors.ts';
import type { FactPath, FactValue } from '../../base/contract/facts.ts';
import type { DropReason } from '../../base/contract/forwarding.ts';
import type {
  AttemptRecord,
  AuditRecord,
  Candidate,
  Clock,
  FactView,
  LimitStatus,
  Reservation,
  RouteFacts,
} from '../../base/contract/services.ts';
import type {
  Capability,
  ConvertedHead,
  ReadToEndLimits,
  Relay,
  RequestBody,
  StageContext,
} from '../../base/contract/stage.ts';
import type { EndedRequest, Telemetry, TraceIdentity } from '../../base/contract/telemetry.ts';
import type { JsonBounds } from '../../base/kit/json/scan.ts';
import type { Connections } from './answer.ts';
import { RequestAttempts } from './attempts.ts';
import { type BufferedBody, IncomingBody } from './body.ts';
import { type CompiledPipeline, type CompiledStage, rewritesAnswer } from './compiled.ts';
import { requireCapability } from './contained/result.ts';
import { writeStageFact } from './contained/stage-data.ts';
import { FactStore, factIndex } from './fact-store.ts';
import { type BodyLimits, receiveContent } from './receive-body.ts';
import { describeRequest, RequestRecorder } from './request-record.ts';
import {
  BufferQuota,
  type ConcurrencyLimiter,
  type DrainingRequest,
  type MemoryBudget,
  RequestResources,
  ResponseDrain,
  type SetMember,
  tooManyRequests,
} from './resources.ts';

/** The server's part of one request. */
export interface RequestEnvironment {
  readonly budget: MemoryBudget;
  readonly under_way: ConcurrencyLimiter;
  readonly requests_per_principal: number;
  readonly connections: Connections;
  readonly connections_per_principal: number;
  readonly body_limits: BodyLimits;
  readonly json_bounds: JsonBounds;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

type MakeConverter = Parameters<StageContext['convertResponse']>[0];

interface Conversion {
  readonly stage: CompiledStage | undefined;
  readonly make: MakeConverter;
}

const NOTHING: readonly never[] = [];

/** The error of a request whose client has disconnected; recorded, never sent. */
export function disconnectedError(more = ''): StageError {
  return new StageError('bad_http', `The client disconnected${more}.`);
}

type Call = StageContext['call'];

/** One request in a pipeline: the engine's side of `StageContext`. */
export class RequestContext implements StageContext, EndedRequest, SetMember, DrainingRequest {
  readonly call: Call;
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly pipeline: CompiledPipeline;
  readonly entered: CompiledStage[] = [];
  readonly clock: Clock;
  readonly started_at: number;
  /** The stage whose hook is running: facts written and errors thrown now are attributed to it. */
  stage: CompiledStage | undefined;
  readonly incoming = new IncomingBody();
  readonly attempted = new RequestAttempts();
  /** Drains the response for its usage after the client has disconnected. */
  readonly drain = new ResponseDrain();
  reservation: Reservation | undefined;
  aborted = false;
  cancel_reason: StageError | undefined;
  /** When the response was complete or the client disconnected, on the monotonic clock. A drain may last longer. */
  ended_at: number | undefined;
  set_index = 0;
  /** Bytes of the response received in the last attempt, drained ones included. */
  relayed_bytes = 0;
  /** Writes the final events for an error; set while the client receives an event stream that can be appended to. */
  endEvents: ((error: StageError) => string) | undefined;
  /** Cancels the request; set while a stage or the relay listens. */
  cancel: ((reason: StageError) => void) | undefined;
  /** Called when the client has disconnected and the drain begins; set by the relay. */
  onDrain: (() => void) | undefined;
  /** Ends a wait for a slot; set while the request waits for one. */
  stopWaiting: (() => void) | undefined;
  /** Whether the drain reached the end of the response. */
  drained = false;
  /** Stages with `fail_closed: false` that failed: the request continues without them. */
  left_out: ReadonlySet<CompiledStage> | undefined;
  /** Whether the response could not be read for the observing stages. */
  unread = false;
  /** Names of shadow-mode stages and rules that matched. */
  shadows: readonly string[] = NOTHING;
  conversion: Conversion | undefined;
  readonly notes: RequestRecorder;
  readonly #facts: FactStore;
  #states: Map<CompiledStage | undefined, unknown> | undefined;
  #answered = false;
  readonly #environment: RequestEnvironment;
  readonly #resources: RequestResources;

  constructor(pipeline: CompiledPipeline, call: Call, environment: RequestEnvironment, started_at: number) {
    this.call = call;
    this.headers = call.req.headers;
    this.url = call.req.url ?? '/';
    this.pipeline = pipeline;
    this.#facts = new FactStore(pipeline.rule_view);
    this.started_at = started_at;
    this.notes = new RequestRecorder(call.req.headers, environment.telemetry);
    this.#environment = environment;
    this.clock = environment.clock;
    this.#resources = new RequestResources(environment.under_way, this);
  }

  get body(): BufferedBody | undefined {
    return this.incoming.held;
  }

  get rewrites(): readonly string[] {
    return this.incoming.rewrites;
  }

  get candidates(): readonly Candidate[] | undefined {
    return this.attempted.candidates;
  }

  set candidates(candidates: readonly Candidate[] | undefined) {
    this.attempted.candidates = candidates;
  }

  get attempts(): readonly AttemptRecord[] {
    return this.attempted.records;
  }

  get trace(): TraceIdentity {
    return this.notes.trace;
  }

  reportToTelemetry(): void {
    this.#environment.telemetry.requestEnded(this);
  }

  /** @param now in milliseconds since the epoch */
  auditRecord(now: number): AuditRecord {
    // Other stages may read the record earlier; only the stage "audit" writes it.
    if (this.stage?.definition.name === 'audit') this.notes.is_recorded = true;
    return describeRequest(this, now);
  }

  get facts(): FactView {
    return this.#facts.view;
  }

  /** A copy of all facts, for a stage that might change them. */
  copyFacts(): FactView {
    return this.#facts.copy();
  }

  get state(): unknown {
    return this.#states?.get(this.stage);
  }

  set state(value: unknown) {
    this.#states ??= new Map();
    this.#states.set(this.stage, value);
  }

  get<P extends FactPath>(path: P): FactValue<P> {
    const index = factIndex(path);
    if (this.stage !== undefined && this.stage.readable[index] !== 1) {
      throw new Error(`the fact "${path}" is not declared in "reads" or "readsIfSet"`);
    }
    return this.#facts.at(index) as FactValue<P>;
  }

  set<P extends FactPath>(path: P, value: FactValue<P>): void {
    const index = factIndex(path);
    if (this.stage !== undefined && this.stage.writable[index] !== 1) {
      throw new Error(`the fact "${path}" is not declared in "writes"`);
    }
    this.#facts.put(index, value, this.attempted.is_running);
  }

  /** Reads any fact, for the engine. */
  peek<P extends FactPath>(path: P): FactValue<P> | undefined {
    return this.#facts.get(path);
  }

  /** Like `peek`, by the position of the fact. */
  factAt(index: number): unknown {
    return this.#facts.at(index);
  }

  /** Writes a fact, for the engine. */
  putFact<P extends FactPath>(path: P, value: FactValue<P>): void {
    this.#facts.put(factIndex(path), value, this.attempted.is_running);
  }

  /** Writes a fact that the configuration defines: of `facts.headers`, or of an operator's stage. */
  setOwnFact(path: string, value: unknown): void {
    this.#facts.setOwn(path, value);
  }

  setFact(name: string, value: unknown): void {
    writeStageFact(this, name, value);
  }

  recordAttempt(attempt: AttemptRecord, received_bytes: number, began_at?: number): void {
    this.#require('network', 'recording an attempt');
    this.relayed_bytes = received_bytes;
    this.attempted.add(attempt);
    this.notes.recordAttempt(attempt, began_at ?? this.clock.monotonic() - attempt.ms);
  }

  recordLimits(limits: readonly LimitStatus[]): void {
    this.#require('database', 'recording limits');
    this.notes.recordLimits(limits, this.clock.monotonic());
  }

  recordDropped(upstream: string, reason: DropReason): void {
    this.#require('network', 'recording a dropped upstream');
    this.replaceFacts({ 'route.dropped': [...(this.peek('route.dropped') ?? []), `${upstream}: ${reason}`] });
  }

  prepareAttempt(facts: RouteFacts, is_last: boolean): void | Promise<void> {
    this.#require('network', 'preparing an attempt');
    return this.attempted.prepare(this, facts, is_last);
  }

  dropFirstCandidate(reason: DropReason): boolean {
    this.#require('database', 'passing an upstream over');
    return this.attempted.dropFirstCandidate(this, reason);
  }

  replaceFacts(facts: RouteFacts): void {
    for (const path in facts) this.#facts.put(factIndex(path), facts[path as FactPath], true);
  }

  onCancel(listener: (reason: StageError) => void): void {
    this.cancel = listener;
    if (this.cancel_reason !== undefined) listener(this.cancel_reason);
  }

  readToEndWithin(limits: ReadToEndLimits | undefined): void {
    this.#require('network', 'draining');
    this.drain.within(limits);
  }

  readToEndLater(relay: Promise<Relay>, seconds: number, cancel: (reason: StageError) => void): boolean {
    if (this.aborted || !this.#beginDrain(seconds)) return false;
    this.drain.late = { relay, cancel };
    return true;
  }

  /** The client has disconnected: drains the response, or cancels the request. */
  onDisconnect(): void {
    this.aborted = true;
    this.stopWaiting?.();
    // Without a listener the response is complete already.
    if (!this.drain.is_forwarded || this.cancel === undefined) return;
    if (this.#beginDrain(Infinity)) this.onDrain?.();
    else this.cancel?.(disconnectedError());
  }

  #beginDrain(seconds: number): boolean {
    const onTimeUp = () => this.cancel?.(disconnectedError(', and the response took too long'));
    if (!this.drain.begin(this.clock, { caller: this.#caller(), seconds, onTimeUp })) return false;
    this.#resources.detach();
    return true;
  }

  /** Frees the slot for a new request of the same caller. */
  preempt(): void {
    this.cancel?.(disconnectedError(', and a later request takes its slot'));
  }

  recordShadow(name: string): void {
    if (!this.shadows.includes(name)) this.shadows = [...this.shadows, name];
  }

  /** Continues the request without a failed stage: only its `finish` hook still runs. */
  leaveOut(stage: CompiledStage): void {
    this.left_out = new Set([...(this.left_out ?? []), stage]);
  }

  convertResponse(make: MakeConverter): void {
    this.#require('convert-response', 'converting the response');
    if (this.conversion !== undefined) throw new Error('another stage already converts the response of this request');
    this.conversion = { stage: this.stage, make };
  }

  get converts_response(): boolean {
    return this.conversion !== undefined || rewritesAnswer(this);
  }

  /** Creates the response converter, if a stage needs one. Errors count as that stage's. */
  makeConverter(head: ConvertedHead): ReturnType<MakeConverter> {
    if (this.conversion === undefined) return undefined;
    this.stage = this.conversion.stage;
    const converter = this.conversion.make(head);
    this.stage = undefined;
    return converter;
  }

  readBody(): Promise<RequestBody> {
    return this.incoming.read(() => this.#receiveBody());
  }

  async #receiveBody(): Promise<RequestBody> {
    if (this.#answered) throw new StageError('bad_http', 'The request already has a response; its body is discarded.');
    if (this.aborted) throw disconnectedError();
    const { budget, body_limits, json_bounds, clock, requests_per_principal } = this.#environment;
    const caller = this.#caller();
    if (!this.claimSlot(caller, requests_per_principal) && !(await this.waitForSlot(caller, requests_per_principal)))
      throw tooManyRequests(requests_per_principal);
    const max_bytes = this.pipeline.spec.limits.body_bytes ?? body_limits.max_bytes;
    const quota = new BufferQuota(budget, caller);
    try {
      const received = await receiveContent(this.call.req, { ...body_limits, max_bytes }, quota, clock);
      if (this.#answered)
        throw new StageError('bad_http', 'The response was sent before the body of the request was complete.');
      const mayRewrite = () => this.#require('rewrite-body', 'rewriting the body');
      return this.incoming.receive(received, quota, json_bounds, mayRewrite);
    } catch (error) {
      quota.release();
      throw error;
    }
  }

  /** The key of this caller's shares of slots and memory: the principal, else the client address. */
  #caller(): string {
    return this.#facts.get('principal.id') ?? `address ${this.#facts.get('request.client.address')}`;
  }

  /** Whether the request has a response or its client has disconnected. */
  get is_over(): boolean {
    return this.#answered || this.aborted;
  }

  claimSlot(key: string, max: number): boolean {
    return this.#resources.claimSlot(key, max);
  }

  async waitForSlot(key: string, max: number): Promise<boolean> {
    const has_slot = await this.#resources.waitForSlot(key, max);
    if (this.aborted) throw disconnectedError();
    return has_slot;
  }

  /** Counts the connection for its caller before the head is sent; over the caller's limit, it closes after this response. */
  countConnection(): void {
    const caller = this.#facts.get('principal.id');
    const { connections, connections_per_principal: max } = this.#environment;
    if (caller === undefined || connections.claim(this.call.req.socket, caller, max)) return;
    this.call.res.shouldKeepAlive = false;
  }

  /** A memory quota for response bytes, in the caller's share; `leave` releases it. */
  responseQuota(): BufferQuota {
    return this.#resources.addQuota(new BufferQuota(this.#environment.budget, this.#caller()));
  }

  /** Discards the body: nothing needs it once there is a response. */
  dropBody(): void {
    this.#answered = true;
    this.stopWaiting?.();
    this.incoming.drop();
  }

  leave(): void {
    this.dropBody();
    this.#resources.leave();
  }

  #require(capability: Capability, what: string): void {
    if (this.stage !== undefined) requireCapability(this.stage, capability, what);
  }
}
