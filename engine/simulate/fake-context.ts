import { EventEmitter } from 'node:events';
import { ENGINE_FACTS, type FactPath, type FactValue } from '../contract/facts.ts';
import type { FactView, Reservation } from '../contract/services.ts';
import type { RequestBody, ResponseConverter, ResponseHead, StageContext, StageDefinition } from '../contract/stage.ts';
import { HeldBody } from '../run/body.ts';
import { FactStore } from '../run/fact-store.ts';

/** Values of facts by dotted path. */
export type Facts = Readonly<Partial<Record<FactPath, unknown>>>;

/** What a test decides about a request. */
export interface RequestWishes {
  readonly facts?: Facts;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly url?: string;
  readonly body?: string | Buffer;
}

/** A request seen by one stage: undeclared reads and writes and second writes throw, as in the engine. */
export class FakeContext implements StageContext {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly url: string;
  readonly body: RequestBody | undefined;
  readonly rewrites: string[] = [];
  /** What the stage reported with `noteShadow`. */
  readonly shadows: string[] = [];
  readonly written: Record<string, unknown> = {};
  readonly exchange: StageContext['exchange'];
  state: unknown;
  reservation: Reservation | undefined;
  aborted = false;
  relayed_bytes = 0;
  /** What the stage gave to `convertResponse`. */
  conversion: ((head: ResponseHead) => ResponseConverter | undefined) | undefined;
  readonly #store = new FactStore();
  readonly #readable: ReadonlySet<FactPath>;
  readonly #writable: ReadonlySet<FactPath>;

  constructor(definition: StageDefinition, { facts = {}, headers = {}, url = '/', body }: RequestWishes) {
    this.headers = headers;
    this.url = url;
    this.body = body === undefined ? undefined : new HeldBody(Buffer.from(body), (key) => this.rewrites.push(key));
    this.exchange = { req: new EventEmitter(), res: new EventEmitter() } as unknown as StageContext['exchange'];
    this.#readable = new Set([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]);
    this.#writable = new Set(definition.writes);
    this.note(facts);
  }

  onCancel(): void {}

  drainWithin(): void {}

  drainLater(): boolean {
    return false;
  }

  convertResponse(make: (head: ResponseHead) => ResponseConverter | undefined): void {
    if (this.conversion !== undefined) throw new Error('the response is converted already');
    this.conversion = make;
  }

  get converts_response(): boolean {
    return this.conversion !== undefined;
  }

  occupy(): boolean {
    return true;
  }

  async occupyInTime(): Promise<boolean> {
    return true;
  }

  noteShadow(name: string): void {
    this.shadows.push(name);
  }

  /** The facts as rules see them. */
  get view(): FactView {
    return this.#store.view;
  }

  /** Writes facts in the name of the engine or of other stages. */
  note(facts: Facts): void {
    for (const [path, value] of Object.entries(facts)) {
      if (value !== undefined) this.#store.set(path as FactPath, value as never);
    }
  }

  get<P extends FactPath>(path: P): FactValue<P> {
    if (!this.#readable.has(path)) throw new Error(`the fact "${path}" is read but not declared`);
    return this.#store.get(path) as FactValue<P>;
  }

  set<P extends FactPath>(path: P, value: FactValue<P>): void {
    if (!this.#writable.has(path)) throw new Error(`the fact "${path}" is written but not declared`);
    this.#store.set(path, value);
    this.written[path] = value;
  }

  async readBody(): Promise<RequestBody> {
    if (this.body === undefined) throw new Error('the test gives the request no body');
    return this.body;
  }
}
