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
  DrainLimits,
  Relay,
  RequestBody,
  StageContext,
} from '../../base/contract/stage.ts';
import type { EndedRequest, Telemetry, TraceIdentity } from '../../base/contract/telemetry.ts';
import type { JsonBounds } from '../../base/kit/json/scan.ts';
import type { Connections } from './answer.ts';
import { RequestAttempts } from './attempts.ts';
import { type HeldBody, IncomingBody } from './body.ts';
import type { CompiledPipeline, CompiledStage } from './compiled.ts';
import { rewritesAnswer } from './compiled.ts';
import { writeStageFact } from './contained/own-data.ts';
import { describeRequest, KeptNotes } from './decisions.ts';
import { RequestDrain } from './drain.ts';
import { FactStore, factIndex } from './fact-store.ts';
import {
  type Bagged,
  type BodyBudget,
  HeldBytes,
  Holdings,
  type Lingerer,
  type Occupancy,
  tooMany,
} from './holdings.ts';
import { type BodyLimits, receiveContent } from './receive-body.ts';

/** What one request needs from the server it arrived at. */
export interface RequestEnvironment {
  readonly budget: BodyBudget;
  /** Requests under way in this process, by whom and by what limits count. */
  readonly under_way: Occupancy;
  /** Most requests of one caller under way at once. */
  readonly requests_per_principal: number;
  readonly connections: Connections;
  /** Most connections of one caller that stay open between requests. */
  readonly connections_per_principal: number;
  readonly body_limits: BodyLimits;
  readonly json_bounds: JsonBounds;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

type MakeConverter = Parameters<StageContext['convertResponse']>[0];

/** How a stage has the response of a request converted. */
interface Conversion {
  readonly stage: CompiledStage | undefined;
  readonly make: MakeConverter;
}

/** A request whose response may be converted. */
interface Convertible {
  stage: CompiledStage | undefined;
  readonly conversion: Conversion | undefined;
}

/** Has the converter made, if a stage wants one. What goes wrong is that stage's. */
export function makeConverter(ctx: Convertible, head: ConvertedHead): ReturnType<MakeConverter> {
  if (ctx.conversion === undefined) return undefined;
  ctx.stage = ctx.conversion.stage;
  const converter = ctx.conversion.make(head);
  ctx.stage = undefined;
  return converter;
}

const NOTHING: readonly never[] = [];

/** Why nothing more is done for a request. Never sent: nobody is there to read it. */
export function clientGone(more = ''): StageError {
  return new StageError('bad_http', `The client went away${more}.`);
}

type Call = StageContext['call'];

/** One request on its way through a pipeline: the engine's side of `StageContext`. */
export class RequestContext implements StageContext, EndedRequest, Bagged, Lingerer {
  readonly call: Call;
  readonly headers: IncomingHttpHeaders;
  readonly url: string;
  readonly pipeline: CompiledPipeline;
  readonly entered: CompiledStage[] = [];
  readonly clock: Clock;
  readonly started_at: number;
  /** The stage whose hook is running; facts it writes and errors it throws are its own. */
  stage: CompiledStage | undefined;
  readonly incoming = new IncomingBody();
  readonly attempted = new RequestAttempts();
  readonly draining = new RequestDrain();
  reservation: Reservation | undefined;
  aborted = false;
  given_up: StageError | undefined;
  /** When the client had its answer or was gone, on the monotonic clock; the answer may be read on for its bill. */
  ended_at: number | undefined;
  index_in_bag = 0;
  relayed_bytes = 0;
  /** What ends a stream of events after an error; set while one is sent to the client that can be added to. */
  endEvents: ((error: StageError) => string) | undefined;
  /** Gives up on the request; set while a stage or the relay can be told so. */
  cancel: ((reason: StageError) => void) | undefined;
  /** Told when the client has gone and the answer is read on; set by the relay. */
  onDrain: (() => void) | undefined;
  /** Ends a wait that nobody needs any more; set while the request waits for a slot. */
  stopWaiting: (() => void) | undefined;
  /** Whether the answer was read on to its end. */
  drained = false;
  /** Stages that failed and that the request goes on without. */
  left_out: ReadonlySet<CompiledStage> | undefined;
  /** Whether the answer could not be read for the stages that observe. */
  unread = false;
  /** Names of what held in shadow mode. */
  shadows: readonly string[] = NOTHING;
  conversion: Conversion | undefined;
  readonly notes: KeptNotes;
  readonly #facts: FactStore;
  #states: Map<CompiledStage | undefined, unknown> | undefined;
  #answered = false;
  readonly #environment: RequestEnvironment;
  readonly #holdings: Holdings;

  constructor(pipeline: CompiledPipeline, call: Call, environment: RequestEnvironment, started_at: number) {
    this.call = call;
    this.headers = call.req.headers;
    this.url = call.req.url ?? '/';
    this.pipeline = pipeline;
    this.#facts = new FactStore(pipeline.rule_view);
    this.started_at = started_at;
    this.notes = new KeptNotes(call.req.headers, environment.telemetry);
    this.#environment = environment;
    this.clock = environment.clock;
    this.#holdings = new Holdings(environment.under_way);
  }

  get body(): HeldBody | undefined {
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

  /** Reads the answer on for its bill, once the client has gone. */
  get drain(): RequestDrain | undefined {
    return this.draining.has_begun ? this.draining : undefined;
  }

  get trace(): TraceIdentity {
    return this.notes.trace;
  }

  tellTelemetry(): void {
    this.#environment.telemetry.requestEnded(this);
  }

  /** @param now in milliseconds since the epoch */
  auditRecord(now: number): AuditRecord {
    // Stages of the operator's may ask before the record is written.
    if (this.stage?.definition.name === 'audit') this.notes.is_recorded = true;
    return describeRequest(this, now);
  }

  get facts(): FactView {
    return this.#facts.view;
  }

  /** All of them, for a stage that might change what it is given. */
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

  /** Reads a fact for the engine, which may see all. */
  peek<P extends FactPath>(path: P): FactValue<P> | undefined {
    return this.#facts.get(path);
  }

  /** Like `peek`, by the position of the fact. */
  factAt(index: number): unknown {
    return this.#facts.at(index);
  }

  /** Writes a fact of the engine's own. */
  note<P extends FactPath>(path: P, value: FactValue<P>): void {
    this.#facts.put(factIndex(path), value, this.attempted.is_running);
  }

  /** Writes a fact that only this configuration knows: a header that it names, or what a stage of its finds out. */
  setOwnFact(path: string, value: unknown): void {
    this.#facts.setOwn(path, value);
  }

  noteFact(name: string, value: unknown): void {
    writeStageFact(this, name, value);
  }

  noteAttempt(attempt: AttemptRecord, received_bytes: number, began_at?: number): void {
    this.#require('network', 'noting an attempt');
    this.relayed_bytes = received_bytes;
    this.attempted.note(attempt);
    this.notes.attemptEnded(attempt, began_at ?? this.clock.monotonic() - attempt.ms);
  }

  noteLimits(limits: readonly LimitStatus[]): void {
    this.#require('database', 'noting limits');
    this.notes.limitsTold(limits, this.clock.monotonic());
  }

  noteDropped(upstream: string, reason: DropReason): void {
    this.#require('network', 'noting what was dropped');
    this.replaceFacts({ 'route.dropped': [...(this.peek('route.dropped') ?? []), `${upstream}: ${reason}`] });
  }

  prepareAttempt(facts: RouteFacts, is_last: boolean): void | Promise<void> {
    this.#require('network', 'preparing an attempt');
    return this.attempted.prepare(this, facts, is_last);
  }

  passOver(reason: DropReason): boolean {
    this.#require('database', 'passing an upstream over');
    return this.attempted.passOver(this, reason);
  }

  replaceFacts(facts: RouteFacts): void {
    for (const path in facts) this.#facts.replace(path as FactPath, facts[path as FactPath]);
  }

  onCancel(listener: (reason: StageError) => void): void {
    this.cancel = listener;
    if (this.given_up !== undefined) listener(this.given_up);
  }

  drainWithin(limits: DrainLimits | undefined): void {
    this.#require('network', 'draining');
    this.draining.within(limits);
  }

  drainLater(relay: Promise<Relay>, seconds: number, cancel: (reason: StageError) => void): boolean {
    if (this.aborted || !this.#beginDrain(seconds)) return false;
    this.draining.late = { relay, cancel };
    return true;
  }

  /** The client has gone: the answer is read on, or whoever waits for it gives up. */
  clientGone(): void {
    this.aborted = true;
    this.stopWaiting?.();
    // Without anybody who could be told, the answer is through.
    if (!this.draining.is_forwarded || this.cancel === undefined) return;
    if (this.#beginDrain(Infinity)) this.onDrain?.();
    else this.cancel?.(clientGone());
  }

  #beginDrain(seconds: number): boolean {
    const onTimeUp = () => this.cancel?.(clientGone(', and the answer took too long'));
    if (!this.draining.begin(this.clock, { caller: this.#caller(), seconds, onTimeUp })) return false;
    this.#holdings.linger(this);
    return true;
  }

  /** A later request of whoever left needs the slot. */
  giveWay(): void {
    this.cancel?.(clientGone(', and a later request takes its place'));
  }

  noteShadow(name: string): void {
    if (!this.shadows.includes(name)) this.shadows = [...this.shadows, name];
  }

  /** Lets the request go on without a stage that failed: of its hooks only `finish` is still called. */
  leaveOut(stage: CompiledStage): void {
    this.left_out = new Set([...(this.left_out ?? []), stage]);
  }

  convertResponse(make: Conversion['make']): void {
    this.#require('convert-response', 'converting the response');
    if (this.conversion !== undefined) throw new Error('another stage converts the response of this request already');
    this.conversion = { stage: this.stage, make };
  }

  get converts_response(): boolean {
    return this.conversion !== undefined || rewritesAnswer(this);
  }

  readBody(): Promise<RequestBody> {
    return this.incoming.read(() => this.#receiveBody());
  }

  async #receiveBody(): Promise<RequestBody> {
    if (this.#answered) throw new StageError('bad_http', 'The request is answered; its body is gone.');
    if (this.aborted) throw clientGone();
    const { budget, body_limits, json_bounds, clock, requests_per_principal } = this.#environment;
    const caller = this.#caller();
    if (!this.occupy(caller, requests_per_principal) && !(await this.occupyInTime(caller, requests_per_principal)))
      throw tooMany(requests_per_principal);
    const max_bytes = this.pipeline.spec.limits.body_bytes ?? body_limits.max_bytes;
    const room = new HeldBytes(budget, caller);
    try {
      const received = await receiveContent(this.call.req, { ...body_limits, max_bytes }, room, clock);
      if (this.#answered) throw new StageError('bad_http', 'The request was answered before its body was complete.');
      return this.incoming.hold(received, room, json_bounds, () => this.#require('rewrite-body', 'rewriting the body'));
    } catch (error) {
      room.release();
      throw error;
    }
  }

  /** Whose share of the process a request uses: who is behind the credential, else the address. */
  #caller(): string {
    return this.#facts.get('principal.id') ?? `address ${this.#facts.get('request.client.address')}`;
  }

  /** Whether nobody needs what the request waits for: it is answered, or its client has gone. */
  get is_over(): boolean {
    return this.#answered || this.aborted;
  }

  occupy(name: string, most: number): boolean {
    return !this.is_over && this.#holdings.occupy(name, most);
  }

  async occupyInTime(name: string, most: number): Promise<boolean> {
    const has_slot = !this.is_over && (await this.#holdings.occupyInTime(name, most, this));
    if (this.aborted) throw clientGone();
    return has_slot;
  }

  /** Notes whose connection this is, before the head of the answer is sent; who has too many keeps none of them open. */
  claimConnection(): void {
    const caller = this.#facts.get('principal.id');
    const { connections, connections_per_principal: most } = this.#environment;
    if (caller === undefined || connections.claim(this.call.req.socket, caller, most)) return;
    this.call.res.shouldKeepAlive = false;
  }

  /** Room for bytes of the answer in the share of whoever asked; given back when the request is no longer under way. */
  room(): HeldBytes {
    return this.#holdings.addRoom(new HeldBytes(this.#environment.budget, this.#caller()));
  }

  /** Lets go of the body: nothing needs it once there is an answer. */
  dropBody(): void {
    this.#answered = true;
    this.stopWaiting?.();
    this.incoming.drop();
  }

  leave(): void {
    this.dropBody();
    this.#holdings.leave(this);
  }

  #require(capability: Capability, what: string): void {
    if (this.stage === undefined || this.stage.definition.needs.includes(capability)) return;
    throw new Error(`${what} needs the capability "${capability}"`);
  }
}
