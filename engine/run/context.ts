import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, FactView, RequestBody, StageContext } from '../api.ts';
import type { StageError } from '../errors.ts';
import type { FactPath, FactValue } from '../facts.ts';
import type { Bagged } from './bag.ts';
import { type BodyBudget, type BodyLimits, HeldBody, receiveBody } from './body.ts';
import { FactStore, factIndex } from './fact-store.ts';
import type { CompiledPipeline, CompiledStage } from './plan.ts';

/** What one request needs from the server it arrived at. */
export interface RequestEnvironment {
  readonly budget: BodyBudget;
  readonly body_limits: BodyLimits;
  readonly clock: Clock;
}

/** One request on its way through a pipeline: the engine's side of `StageContext`. */
export class RequestContext implements StageContext, Bagged {
  readonly exchange: { readonly req: IncomingMessage; readonly res: ServerResponse };
  readonly headers: IncomingMessage['headers'];
  readonly url: string;
  readonly pipeline: CompiledPipeline;
  readonly entered: CompiledStage[] = [];
  readonly rewrites: string[] = [];
  readonly started_at: number;
  /** The stage whose hook is running; facts it writes and errors it throws are its own. */
  stage: CompiledStage | undefined;
  body: HeldBody | undefined;
  aborted = false;
  place_in_bag = 0;
  relayed_bytes = 0;
  /** The chunk sent last while an uncompressed event stream is being relayed: an error event can still be added to it. */
  last_events: Buffer | undefined;
  /** Gives up on the request; set while a stage or the relay can be told so. */
  cancel: ((reason: StageError) => void) | undefined;
  readonly #facts = new FactStore();
  #states: Map<CompiledStage | undefined, unknown> | undefined;
  readonly #environment: RequestEnvironment;
  #held_bytes = 0;

  constructor(
    pipeline: CompiledPipeline,
    req: IncomingMessage,
    res: ServerResponse,
    environment: RequestEnvironment,
    started_at: number,
  ) {
    this.exchange = { req, res };
    this.headers = req.headers;
    this.url = req.url ?? '/';
    this.pipeline = pipeline;
    this.started_at = started_at;
    this.#environment = environment;
  }

  get clock(): Clock {
    return this.#environment.clock;
  }

  get facts(): FactView {
    return this.#facts.view;
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
    if (this.stage !== undefined && this.stage.writable[factIndex(path)] !== 1) {
      throw new Error(`the fact "${path}" is not declared in "writes"`);
    }
    this.#facts.set(path, value);
  }

  /** Reads a fact for the engine, which may see all. */
  peek<P extends FactPath>(path: P): FactValue<P> | undefined {
    return this.#facts.get(path);
  }

  /** Writes a fact of the engine's own. */
  note<P extends FactPath>(path: P, value: FactValue<P>): void {
    this.#facts.set(path, value);
  }

  onCancel(listener: (reason: StageError) => void): void {
    this.cancel = listener;
  }

  async readBody(): Promise<RequestBody> {
    if (this.body !== undefined) return this.body;
    const { budget, body_limits, clock } = this.#environment;
    const max_bytes = this.pipeline.spec.limits.body_bytes ?? body_limits.max_bytes;
    const bytes = await receiveBody(this.exchange.req, { ...body_limits, max_bytes }, budget, clock);
    this.#held_bytes = bytes.length;
    this.body = new HeldBody(bytes, (key) => this.#recordRewrite(key));
    return this.body;
  }

  /** Lets go of the body: nothing needs it once the upstream has answered. */
  dropBody(): void {
    this.body = undefined;
    this.#environment.budget.give(this.#held_bytes);
    this.#held_bytes = 0;
  }

  #recordRewrite(key: string): void {
    if (this.stage !== undefined && !this.stage.definition.needs.includes('rewrite-body')) {
      throw new Error('rewriting the body needs the capability "rewrite-body"');
    }
    this.rewrites.push(key);
  }
}
