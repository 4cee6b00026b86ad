import type { AddedFields, CompressedBody, WantedTexts } from '../../contract/request-body.ts';
import type { Capability, JsonValue, RequestBody, SkimmedBody } from '../../contract/stage.ts';
import type { RequestContext } from '../context.ts';

/** The body as a contained stage sees it: a copy of the bytes, and rewrites by way of the engine only. */
export class LeasedBody implements RequestBody {
  readonly #ctx: RequestContext;
  readonly #check: (capability?: Capability, what?: string) => void;
  #copied: Buffer | undefined;
  #copy: Buffer | undefined;

  constructor(ctx: RequestContext, check: (capability?: Capability, what?: string) => void) {
    this.#ctx = ctx;
    this.#check = check;
  }

  get bytes(): Buffer {
    const { bytes } = this.#held();
    if (this.#copied !== bytes) {
      this.#ctx.takeForCopy(bytes.length);
      this.#copied = bytes;
      this.#copy = Buffer.from(bytes);
    }
    return this.#copy!;
  }

  /** Stages of operators get the bytes that anybody can read. */
  get compressed(): CompressedBody | undefined {
    return undefined;
  }

  decompress(): boolean {
    this.#check('rewrite-body', 'rewriting the body');
    return this.#held().decompress();
  }

  async json(): Promise<unknown> {
    return this.#held().json();
  }

  async skim(): Promise<SkimmedBody> {
    return this.#held().skim();
  }

  value(key: string): unknown {
    return this.#held().value(key);
  }

  rewrite(key: string, value: JsonValue): void {
    this.#check('rewrite-body', 'rewriting the body');
    if (JSON.stringify(value) === undefined || Number.isNaN(value)) {
      throw new Error(`a rewrite puts a JSON value into the body, not ${Number.isNaN(value) ? 'NaN' : typeof value}`);
    }
    this.#held().rewrite(key, value);
  }

  rename(key: string, name: string): void {
    this.#check('rewrite-body', 'rewriting the body');
    this.#held().rename(key, name);
  }

  async remove(paths: readonly (readonly (string | number)[])[]): Promise<void> {
    this.#check('rewrite-body', 'rewriting the body');
    await this.#held().remove(paths);
  }

  async addFields(objects: readonly AddedFields[]): Promise<void> {
    this.#check('rewrite-body', 'rewriting the body');
    await this.#held().addFields(objects);
  }

  async replaceTexts<T>(
    wanted: WantedTexts<T>,
    replacement: (found: T, text: string) => string | undefined,
  ): Promise<void> {
    this.#check('rewrite-body', 'rewriting the body');
    await this.#held().replaceTexts(wanted, replacement);
  }

  replace(json: string): void {
    this.#check('rewrite-body', 'replacing the body');
    if (typeof json !== 'string') throw new Error(`a body is replaced by a JSON text, not by a ${typeof json}`);
    JSON.parse(json);
    this.#held().replace(json);
  }

  /** The copy it was given may be read for as long as somebody likes. */
  free(): void {}

  get rewritten(): boolean {
    return this.#held().rewritten;
  }

  get replaced(): boolean {
    return this.#held().replaced;
  }

  #held(): RequestBody {
    this.#check();
    if (this.#ctx.body === undefined) throw new Error('the body is gone: the upstream has answered');
    return this.#ctx.body;
  }
}
