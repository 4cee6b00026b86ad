import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ENGINE_FACTS, type FactPath, type FactValue } from '../../base/contract/facts.ts';
import type { Clock } from '../../base/contract/services.ts';
import type { RequestBody, StageDefinition } from '../../base/contract/stage.ts';
import { BufferedBody } from '../../pipeline/run/body.ts';
import type { CompiledPipeline } from '../../pipeline/run/compiled.ts';
import { RequestContext, type RequestEnvironment } from '../../pipeline/run/context.ts';
import { factMask } from '../../pipeline/run/fact-store.ts';
import { ConcurrencyLimiter } from '../../pipeline/run/resources.ts';

/** Values of facts by dotted path. */
export type Facts = Readonly<Partial<Record<FactPath, unknown>>>;

/** A request of a unit test. */
export interface FakeRequest {
  readonly facts?: Facts;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly url?: string;
  readonly body?: string | Buffer;
}

/** The engine's request context for one stage, without a connection. */
export class FakeContext extends RequestContext {
  /** Facts written by the stage. */
  readonly written: Record<string, unknown> = {};

  constructor(definition: StageDefinition, { facts = {}, headers = {}, url = '/', body }: FakeRequest, clock: Clock) {
    const req = Object.assign(new EventEmitter(), { headers, url }) as unknown as IncomingMessage;
    const res = new EventEmitter() as unknown as ServerResponse;
    const environment = { clock, under_way: new ConcurrencyLimiter(clock) } as unknown as RequestEnvironment;
    super({ rewrites: false } as CompiledPipeline, { req, res }, environment, 0);
    if (body !== undefined)
      this.incoming.held = new BufferedBody(Buffer.from(body), (key) => {
        this.incoming.rewrites = [...this.rewrites, key];
      });
    this.noteAll(facts);
    this.stage = {
      id: definition.name,
      definition,
      hooks: {},
      guard: undefined,
      shadow: false,
      readable: factMask([...definition.reads, ...definition.readsIfSet, ...ENGINE_FACTS]),
      writable: factMask(definition.writes),
    };
  }

  /** Sets facts on behalf of the engine or other stages. */
  noteAll(facts: Facts): void {
    for (const [path, value] of Object.entries(facts)) {
      if (value !== undefined) this.note(path as FactPath, value as never);
    }
  }

  override set<P extends FactPath>(path: P, value: FactValue<P>): void {
    super.set(path, value);
    this.written[path] = value;
  }

  override setOwnFact(path: string, value: unknown): void {
    super.setOwnFact(path, value);
    this.written[path] = value;
  }

  override async readBody(): Promise<RequestBody> {
    if (this.body === undefined) throw new Error('the request of the test has no body');
    return this.body;
  }
}
