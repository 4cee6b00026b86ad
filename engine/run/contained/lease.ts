import type { StageError } from '../../contract/errors.ts';
import { FACTS, type FactPath, type FactValue } from '../../contract/facts.ts';
import type {
  AttemptRecord,
  AuditRecord,
  Candidate,
  DropReason,
  FactView,
  LimitStatus,
  Reservation,
  RouteFacts,
} from '../../contract/services.ts';
import type {
  Capability,
  ConvertedHead,
  DrainLimits,
  Relay,
  RequestBody,
  ResponseConverter,
  ResponseHead,
  StageContext,
} from '../../contract/stage.ts';
import type { TraceIdentity } from '../../contract/telemetry.ts';
import { deepFreeze } from '../../kit/freeze.ts';
import type { CompiledStage } from '../compiled.ts';
import type { RequestContext } from '../context.ts';
import { describeDecisions } from '../decisions.ts';
import { factIndex } from '../fact-store.ts';
import type { AuditNotebook } from './audit-fields.ts';
import { LeasedBody } from './leased-body.ts';
import { checkHeader } from './result.ts';
import { writeStageFact } from './stage-facts.ts';

/** Longest name of a shadow rule that is kept, in characters. */
const SHADOW_NAME_LENGTH_MAX = 200;

function isPlainObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}

/** Whether a value is one that rules, logs and audit records expect of this fact. */
function fits(path: FactPath, value: unknown): boolean {
  const { kind, ...spec } = FACTS[path] as { kind: string; values?: readonly string[] };
  switch (kind) {
    case 'strings':
      return Array.isArray(value) && value.every((item) => typeof item === 'string');
    case 'object':
      return isPlainObject(value);
    case 'number':
      return Number.isFinite(value);
    case 'string':
      return typeof value === 'string' && (spec.values?.includes(value) ?? true);
    default:
      return typeof value === kind;
  }
}

/**
 * The context that a contained stage holds for the length of one hook. Whatever is done through it counts as done by that
 * stage; when the hook is over, or its time is up, it refuses everything, so that code left running in the background
 * changes nothing any more. It hands out copies, so that nothing of the request can be changed behind the engine's back.
 */
export class Lease implements StageContext, AuditNotebook {
  readonly #ctx: RequestContext;
  readonly #stage: CompiledStage;
  #over = false;
  #facts: FactView | undefined;
  #headers: StageContext['headers'] | undefined;
  #body: RequestBody | undefined;
  #onCancel: ((reason: StageError) => void) | undefined;

  constructor(ctx: RequestContext, stage: CompiledStage) {
    this.#ctx = ctx;
    this.#stage = stage;
  }

  /** Ends the lease. */
  end(): void {
    this.#over = true;
    if (this.#onCancel !== undefined && this.#ctx.cancel === this.#onCancel) this.#ctx.cancel = undefined;
  }

  /** The response head for the stage: what can be set is checked, and only while the hook runs. */
  lend(head: ResponseHead): ResponseHead {
    return Object.freeze({
      status: head.status,
      get: (name: string) => head.get(name),
      set: (name: string, value: string) => {
        this.#check();
        head.set(name, value);
      },
      remove: (name: string) => {
        this.#check();
        head.remove(name);
      },
      replaceAll: (prefix: string, headers: Readonly<Record<string, string>>) => {
        this.#check();
        if (typeof prefix !== 'string' || prefix === '') throw new Error('the prefix of the headers is not a text');
        // A copy, so that what is checked is what is set.
        const copy = { ...headers };
        for (const [name, value] of Object.entries(copy)) checkHeader(name, value);
        head.replaceAll(prefix, copy);
      },
    });
  }

  /** Tells the stage, if it asked to be told, that nobody waits for it any more. */
  cancel(reason: StageError): void {
    try {
      this.#onCancel?.(reason);
    } catch {
      // What goes wrong in the listener is the stage's own trouble; it is given up anyway.
    }
  }

  get url(): string {
    return this.#ctx.url;
  }

  get headers(): StageContext['headers'] {
    this.#headers ??= deepFreeze({ ...this.#ctx.headers });
    return this.#headers;
  }

  get aborted(): boolean {
    return this.#ctx.aborted;
  }

  get relayed_bytes(): number {
    return this.#ctx.relayed_bytes;
  }

  /** For `services.decisions`. */
  decisions(told: ReadonlySet<string>): AuditRecord {
    this.#check();
    // A record of the stage's own: that of the gateway is still to come.
    return describeDecisions(this.#ctx, told);
  }

  /** All facts, for `services.facts`. */
  get facts(): FactView {
    this.#check();
    this.#facts ??= deepFreeze(this.#ctx.copyFacts());
    return this.#facts;
  }

  copyFacts(): FactView {
    return this.facts;
  }

  get state(): unknown {
    this.#check();
    return this.#ctx.stateOf(this.#stage);
  }

  set state(value: unknown) {
    this.#check();
    this.#ctx.keepState(this.#stage, value);
  }

  get reservation(): Reservation | undefined {
    this.#check('database', 'reservation');
    return this.#ctx.reservation;
  }

  set reservation(reservation: Reservation | undefined) {
    this.#check('database', 'reservation');
    this.#ctx.reservation = reservation;
  }

  get candidates(): readonly Candidate[] | undefined {
    this.#check();
    return this.#ctx.candidates;
  }

  set candidates(candidates: readonly Candidate[] | undefined) {
    this.#check();
    this.#ctx.candidates = candidates;
  }

  passOver(reason: DropReason): boolean {
    this.#check('database', 'passOver');
    return this.#ctx.passOver(reason);
  }

  get attempts(): readonly AttemptRecord[] {
    this.#check();
    return this.#ctx.attempts;
  }

  noteAttempt(attempt: AttemptRecord, received_bytes: number, began_at?: number): void {
    this.#check('network', 'noteAttempt');
    this.#ctx.noteAttempt(attempt, received_bytes, began_at);
  }

  noteDropped(upstream: string, reason: DropReason): void {
    this.#check('network', 'noteDropped');
    this.#ctx.noteDropped(upstream, reason);
  }

  prepareAttempt(facts: RouteFacts, is_last: boolean): void | Promise<void> {
    this.#check('network', 'prepareAttempt');
    return this.#ctx.prepareAttempt(facts, is_last);
  }

  noteLimits(limits: readonly LimitStatus[]): void {
    this.#check('database', 'noteLimits');
    this.#ctx.noteLimits(limits);
  }

  get trace(): TraceIdentity {
    this.#check();
    return this.#ctx.trace;
  }

  get call(): StageContext['call'] {
    this.#check('network', 'call');
    return this.#ctx.call;
  }

  get body(): RequestBody | undefined {
    this.#check('raw-body', 'body');
    if (this.#ctx.body === undefined) return undefined;
    this.#body ??= new LeasedBody(this.#ctx, (capability, what) => this.#check(capability, what));
    return this.#body;
  }

  async readBody(): Promise<RequestBody> {
    this.#check('raw-body', 'readBody');
    await this.#ctx.readBody();
    this.#check();
    return this.body!;
  }

  get<P extends FactPath>(path: P): FactValue<P> {
    this.#check();
    if (this.#stage.readable[factIndex(path)] !== 1) {
      throw new Error(`the fact "${path}" is not declared in "reads" or "readsIfSet"`);
    }
    return deepFreeze(this.#ctx.peek(path)) as FactValue<P>;
  }

  set<P extends FactPath>(path: P, value: FactValue<P>): void {
    this.#check();
    if (this.#stage.writable[factIndex(path)] !== 1) throw new Error(`the fact "${path}" is not declared in "writes"`);
    if (!fits(path, value)) throw new Error(`the fact "${path}" is not given a value of its kind, ${FACTS[path].kind}`);
    this.#facts = undefined;
    this.#ctx.note(path, typeof value === 'object' ? deepFreeze(structuredClone(value)) : value);
  }

  noteFact(name: string, value: number | boolean | string): void {
    this.#check();
    this.#facts = undefined;
    const setOwnFact = (path: string, given: unknown) => this.#ctx.setOwnFact(path, given);
    writeStageFact({ stage: this.#stage, setOwnFact }, name, value);
  }

  /** For `services.audit`. */
  noteAudit(record: AuditRecord): void {
    this.#check();
    this.#ctx.notes.addAuditFields(this.#stage.definition.name, record);
  }

  noteShadow(name: string): void {
    // Not an error when it comes too late: the ledger reports from within a statement that others share.
    if (!this.#over) this.#ctx.noteShadow(String(name).slice(0, SHADOW_NAME_LENGTH_MAX));
  }

  occupy(name: string, most: number): boolean {
    this.#check();
    return this.#ctx.occupy(`${this.#stage.id} ${name}`, most);
  }

  async occupyInTime(name: string, most: number): Promise<boolean> {
    this.#check();
    return await this.#ctx.occupyInTime(`${this.#stage.id} ${name}`, most);
  }

  convertResponse(make: (head: ConvertedHead) => ResponseConverter | undefined): void {
    this.#check('convert-response', 'convertResponse');
    this.#ctx.convertResponse(make);
  }

  get converts_response(): boolean {
    return this.#ctx.converts_response;
  }

  get given_up(): StageError | undefined {
    return this.#ctx.given_up;
  }

  onCancel(listener: (reason: StageError) => void): void {
    this.#check();
    this.#onCancel = listener;
    this.#ctx.onCancel(listener);
  }

  drainWithin(limits: DrainLimits | undefined): void {
    this.#check('network', 'drainWithin');
    this.#ctx.drainWithin(limits);
  }

  drainLater(relay: Promise<Relay>, seconds: number, cancel: (reason: StageError) => void): boolean {
    this.#check('network', 'drainLater');
    return this.#ctx.drainLater(relay, seconds, cancel);
  }

  #check(capability?: Capability, what?: string): void {
    if (capability !== undefined) this.#facts = undefined;
    if (this.#over)
      throw new Error('the hook is over, or ran into its time limit: its context cannot be used any more');
    if (capability === undefined || this.#stage.definition.needs.includes(capability)) return;
    throw new Error(`${what} needs the capability "${capability}", which the stage does not declare under \`needs\``);
  }
}
