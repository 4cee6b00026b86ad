import { parseBounded } from '../../kit/json/bounded.ts';
import { isObject } from '../read-json.ts';
import type { AnswerContext } from '../translation/adapter.ts';
import type { ReasoningProof } from '../translation/conversation.ts';
import type { PartStart } from '../translation/events.ts';
import { FreeTextDecoder } from '../translation/features/free-text.ts';
import { type Maker, proofToText } from '../translation/proof.ts';

/** Makes one event of a stream: its type and its fields as JSON text, beginning with a comma. */
export type Say = (type: string, fields: string) => string;

/** One item of an answer: every part of an answer is an item of its own. */
export interface WrittenItem {
  begin(say: Say): string;
  delta(text: string, say: Say): string;
  /** Ends the item and says it whole. */
  end(say: Say): string;
  prove(proof: ReasoningProof): void;
  /** The whole item as JSON text, once it has ended. */
  readonly json: string;
}

/** What an item of a part looks like. `id` is what answers call it. */
export function writtenItem(part: PartStart, output_index: number, id: string, answer: AnswerContext): WrittenItem {
  if (part.kind === 'reasoning') return new ReasoningItem(output_index, `rs_${id}`, answer.made_by);
  if (part.kind !== 'tool_call') return new MessageItem(output_index, `msg_${id}`, part.kind);
  const address = answer.tool_addresses?.get(part.name);
  const called = { call_id: part.id, name: address?.name ?? part.name, namespace: address?.namespace };
  if (address?.search === true) return new SearchItem(output_index, `tsc_${id}`, part.id);
  if (answer.free_text_tools.has(part.name)) return new CustomCallItem(output_index, `ctc_${id}`, called);
  return new CallItem(output_index, `fc_${id}`, called);
}

const text = (value: string): string => JSON.stringify(value);

/** What all kinds of items have in common: they know where they stand, and keep the pieces they must repeat. */
abstract class Item implements WrittenItem {
  protected readonly at: string;
  protected readonly head: string;
  protected readonly id: string;
  protected pieces: string[] = [];
  json = '';
  readonly #index: string;

  constructor(output_index: number, id: string) {
    this.id = text(id);
    this.#index = `,"output_index":${output_index}`;
    this.at = `,"item_id":${this.id}${this.#index}`;
    this.head = `{"id":${this.id},`;
  }

  abstract begin(say: Say): string;
  abstract delta(piece: string, say: Say): string;
  abstract end(say: Say): string;
  prove(_proof: ReasoningProof): void {}

  protected added(item: string, say: Say): string {
    return say('response.output_item.added', `${this.#index},"item":${item}`);
  }

  protected done(item: string, say: Say): string {
    this.json = item;
    this.pieces = [];
    return say('response.output_item.done', `${this.#index},"item":${item}`);
  }
}

class MessageItem extends Item {
  readonly #kind: 'text' | 'refusal';
  readonly #type: string;
  readonly #content_at: string;

  constructor(output_index: number, id: string, kind: 'text' | 'refusal') {
    super(output_index, id);
    this.#kind = kind;
    this.#type = kind === 'text' ? 'response.output_text' : 'response.refusal';
    this.#content_at = `${this.at},"content_index":0`;
  }

  begin(say: Say): string {
    const item = `${this.head}"type":"message","status":"in_progress","role":"assistant","content":[]}`;
    return this.added(item, say) + say('response.content_part.added', `${this.#content_at},"part":${this.#part('""')}`);
  }

  delta(piece: string, say: Say): string {
    this.pieces.push(piece);
    const logprobs = this.#kind === 'text' ? ',"logprobs":[]' : '';
    return say(`${this.#type}.delta`, `${this.#content_at},"delta":${text(piece)}${logprobs}`);
  }

  end(say: Say): string {
    const whole = text(this.pieces.join(''));
    const part = this.#part(whole);
    const field = this.#kind === 'text' ? `"text":${whole},"logprobs":[]` : `"refusal":${whole}`;
    return (
      say(`${this.#type}.done`, `${this.#content_at},${field}`) +
      say('response.content_part.done', `${this.#content_at},"part":${part}`) +
      this.done(`${this.head}"type":"message","status":"completed","role":"assistant","content":[${part}]}`, say)
    );
  }

  #part(whole: string): string {
    if (this.#kind === 'refusal') return `{"type":"refusal","refusal":${whole}}`;
    return `{"type":"output_text","annotations":[],"logprobs":[],"text":${whole}}`;
  }
}

class ReasoningItem extends Item {
  readonly #made_by: Maker;
  #proof: ReasoningProof | undefined;

  constructor(output_index: number, id: string, made_by: Maker) {
    super(output_index, id);
    this.#made_by = made_by;
  }

  begin(say: Say): string {
    return this.added(`${this.head}"type":"reasoning","summary":[]}`, say);
  }

  delta(piece: string, say: Say): string {
    const first = this.pieces.length === 0;
    this.pieces.push(piece);
    const summary_at = `${this.at},"summary_index":0`;
    const part = first ? say('response.reasoning_summary_part.added', `${summary_at},"part":${summary('""')}`) : '';
    return part + say('response.reasoning_summary_text.delta', `${summary_at},"delta":${text(piece)}`);
  }

  override prove(proof: ReasoningProof): void {
    this.#proof = proof;
  }

  end(say: Say): string {
    const has_text = this.pieces.length > 0;
    const whole = text(this.pieces.join(''));
    const summary_at = `${this.at},"summary_index":0`;
    const part = has_text
      ? say('response.reasoning_summary_text.done', `${summary_at},"text":${whole}`) +
        say('response.reasoning_summary_part.done', `${summary_at},"part":${summary(whole)}`)
      : '';
    const proof = `,"encrypted_content":${text(proofToText(this.#proof, this.#made_by))}`;
    return (
      part + this.done(`${this.head}"type":"reasoning","summary":[${has_text ? summary(whole) : ''}]${proof}}`, say)
    );
  }
}

const summary = (whole: string): string => `{"type":"summary_text","text":${whole}}`;

interface Called {
  readonly call_id: string;
  readonly name: string;
  readonly namespace: string | undefined;
}

function calledJson({ call_id, name, namespace }: Called): string {
  return `"call_id":${text(call_id)},"name":${text(name)}${namespace === undefined ? '' : `,"namespace":${text(namespace)}`}`;
}

class CallItem extends Item {
  readonly #called: string;
  readonly #name: string;

  constructor(output_index: number, id: string, called: Called) {
    super(output_index, id);
    this.#called = calledJson(called);
    this.#name = text(called.name);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '""'), say);
  }

  delta(piece: string, say: Say): string {
    this.pieces.push(piece);
    return say('response.function_call_arguments.delta', `${this.at},"delta":${text(piece)}`);
  }

  end(say: Say): string {
    // Clients parse the arguments of every call; some models send none for tools without parameters.
    const whole = text(this.pieces.join('').trim() === '' ? '{}' : this.pieces.join(''));
    return (
      say('response.function_call_arguments.done', `${this.at},"name":${this.#name},"arguments":${whole}`) +
      this.done(this.#item('completed', whole), say)
    );
  }

  #item(status: string, whole: string): string {
    return `${this.head}"type":"function_call","status":"${status}","arguments":${whole},${this.#called}}`;
  }
}

class CustomCallItem extends Item {
  readonly #called: string;
  readonly #decoder = new FreeTextDecoder();

  constructor(output_index: number, id: string, called: Called) {
    super(output_index, id);
    this.#called = calledJson(called);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '""'), say);
  }

  delta(piece: string, say: Say): string {
    return this.#input(this.#decoder.push(piece), say);
  }

  end(say: Say): string {
    const rest = this.#input(this.#decoder.end(), say);
    const whole = text(this.pieces.join(''));
    return (
      rest +
      say('response.custom_tool_call_input.done', `${this.at},"input":${whole}`) +
      this.done(this.#item('completed', whole), say)
    );
  }

  #input(piece: string, say: Say): string {
    if (piece === '') return '';
    this.pieces.push(piece);
    return say('response.custom_tool_call_input.delta', `${this.at},"delta":${text(piece)}`);
  }

  #item(status: string, whole: string): string {
    return `${this.head}"type":"custom_tool_call","status":"${status}","input":${whole},${this.#called}}`;
  }
}

/** A search for tools by the client: its arguments are an object, so that nothing can be said before it is whole. */
class SearchItem extends Item {
  readonly #call_id: string;

  constructor(output_index: number, id: string, call_id: string) {
    super(output_index, id);
    this.#call_id = text(call_id);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '{}'), say);
  }

  delta(piece: string): string {
    this.pieces.push(piece);
    return '';
  }

  end(say: Say): string {
    return this.done(this.#item('completed', objectText(this.pieces.join(''))), say);
  }

  #item(status: string, args: string): string {
    return `${this.head}"type":"tool_search_call","status":"${status}","execution":"client","call_id":${this.#call_id},"arguments":${args}}`;
  }
}

function objectText(args: string): string {
  try {
    const value: unknown = parseBounded(args);
    return isObject(value) ? JSON.stringify(value) : '{}';
  } catch {
    return '{}';
  }
}
