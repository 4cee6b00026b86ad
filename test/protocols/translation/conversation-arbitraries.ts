import fc from 'fast-check';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { present } from '../../../engine/domain/protocols/read-json.ts';
import type {
  CacheTtl,
  Conversation,
  DocumentPart,
  ImagePart,
  Part,
  ReasoningPart,
  ReasoningProof,
  TextPart,
  Tool,
  ToolCallPart,
  ToolResultPart,
  Turn,
} from '../../../engine/domain/protocols/translation/conversation.ts';

/** The parts of a conversation of `conversations()` beside text, tools, calls and files; a test omits what its protocol lacks. */
const EVERYTHING = {
  instructions_turns: true,
  image_details: true,
  url_documents: true,
  text_documents: true,
  /** Images and documents in results of tools. */
  result_files: true,
  /** Several parts in one result. */
  long_results: true,
  result_errors: true,
  refusals: true,
  /** Cache marks on parts and tools. */
  part_caches: true,
  free_text_tools: true,
  /** Whose proofs reasoning has; empty: no reasoning. `text`: reasoning without a proof. */
  reasoning: [...PROTOCOLS, 'text'] as readonly (Protocol | 'text')[],
};
export type ConversationFeatures = Readonly<typeof EVERYTHING>;

/** Texts that break translators: line ends, quotes, lone surrogates, tags, other scripts. Never blank. */
export const texts: fc.Arbitrary<string> = fc
  .oneof(
    fc.string({ minLength: 1, maxLength: 20 }),
    fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }),
    fc.constantFrom(
      ...['Hello', 'a\nb\r\n\r\nc', 'data: [DONE]\n\n', '{"type":"x"}'],
      ...['\u2028\u2029', '</system_message>', '日本語 🙂'],
    ),
  )
  .map((text) => (text.trim() === '' ? `${text}.` : text));

/** Names of tools that every protocol supports. */
export const names = fc.stringMatching(/^[a-zA-Z_][a-zA-Z0-9_-]{0,20}$/);
const base64 = fc.uint8Array({ minLength: 1, maxLength: 12 }).map((bytes) => Buffer.from(bytes).toString('base64'));
const urls = fc.stringMatching(/^[a-z]{1,8}$/).map((name) => `https://example.test/${name}`);
const ttls = fc.constantFrom<CacheTtl>('5m', '1h');
const plainKeys = fc.stringMatching(/^[a-z][a-z_]{0,8}$/);
const jsonValues: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 2 },
    fc.string({ maxLength: 10 }),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(plainKeys, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;

/** Arguments of a tool call: canonical JSON text of an object. */
export const argumentTexts: fc.Arbitrary<string> = fc
  .dictionary(plainKeys, jsonValues, { maxKeys: 4, noNullPrototype: true })
  .map((value) => JSON.stringify(value));

const schemas: fc.Arbitrary<Record<string, unknown>> = fc
  .dictionary(plainKeys, fc.constantFrom({ type: 'string' }, { type: 'integer' }, { type: 'array', items: {} }), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  .map((properties) => ({ type: 'object', properties }));

/** Schemas that every protocol can enforce. */
const enforcedSchemas: fc.Arbitrary<Record<string, unknown>> = fc
  .dictionary(plainKeys, fc.constantFrom({ type: 'string' }, { type: 'array', items: { type: 'integer' } }), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  .map((properties) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  }));

const optional = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });

const cached = (features: ConversationFeatures): fc.Arbitrary<CacheTtl | undefined> =>
  features.part_caches ? fc.option(ttls, { nil: undefined, freq: 5 }) : fc.constant(undefined);

/** Parts of a kind, some of them marked. */
const parts = <P extends Part>(kind: P['kind'], fields: object, features: ConversationFeatures): fc.Arbitrary<P> =>
  fc.record({ kind: fc.constant(kind), ...fields, cache: cached(features) }).map(present) as unknown as fc.Arbitrary<P>;

const textParts = (features: ConversationFeatures) => parts<TextPart>('text', { text: texts }, features);

const bytes = (...media_types: readonly string[]) =>
  fc.record({ kind: fc.constant('base64'), media_type: fc.constantFrom(...media_types), data: base64 });
const addresses = fc.record({ kind: fc.constant('url'), url: urls });

function imageParts(features: ConversationFeatures): fc.Arbitrary<ImagePart> {
  const source = fc.oneof(bytes('image/png', 'image/jpeg'), addresses);
  const detail = features.image_details ? optional(fc.constantFrom('low', 'high')) : fc.constant(undefined);
  return parts('image', { source, detail }, features);
}

function documentParts(features: ConversationFeatures): fc.Arbitrary<DocumentPart> {
  const source = fc.oneof(
    bytes('application/pdf'),
    ...(features.url_documents ? [addresses] : []),
    ...(features.text_documents ? [fc.record({ kind: fc.constant('text'), text: texts })] : []),
  );
  return parts('document', { source, name: optional(fc.stringMatching(/^[a-z]{1,8}\.pdf$/)) }, features);
}

const files = (features: ConversationFeatures) => [imageParts(features), documentParts(features)];

const proofs = (protocol: Protocol): fc.Arbitrary<ReasoningProof> => {
  const value = fc.stringMatching(/^[A-Za-z0-9+/]{4,30}$/);
  if (protocol === 'messages') {
    return fc.record({
      protocol: fc.constant(protocol),
      kind: fc.constantFrom('signature' as const, 'encrypted' as const),
      value,
    });
  }
  const id = fc.stringMatching(/^rs_[a-z0-9]{4,8}$/);
  return fc.record({ protocol: fc.constant(protocol), kind: fc.constant('encrypted' as const), value, id });
};

/** Providers' reasoning: a Messages `encrypted` signature covers all the text; chat completions has no signatures. */
export function reasoningParts(kinds: readonly (Protocol | 'text')[]): fc.Arbitrary<ReasoningPart> {
  const one = (kind: Protocol | 'text'): fc.Arbitrary<ReasoningPart> => {
    if (kind === 'text' || kind === 'chat') return texts.map((text) => ({ kind: 'reasoning', text }));
    return fc.tuple(proofs(kind), texts, fc.boolean()).map(([proof, text, secret]) => ({
      kind: 'reasoning',
      text:
        (proof.protocol === 'messages' && proof.kind === 'encrypted') || (proof.protocol === 'responses' && secret)
          ? ''
          : text,
      proof,
    }));
  };
  return fc.oneof(...kinds.map(one));
}

/** Tools with different names. */
function toolLists(features: ConversationFeatures): fc.Arbitrary<Tool[]> {
  const toolOf = (parameters: fc.Arbitrary<object>, more: object = {}) =>
    fc.record({ name: names, description: optional(texts), parameters, cache: cached(features), ...more });
  const ordinary = toolOf(schemas);
  const strict = toolOf(enforcedSchemas, { strict: fc.constant(true) });
  const input = { type: 'object', properties: { input: { type: 'string' } }, required: ['input'] };
  const free_text = toolOf(fc.constant(input), { free_text: fc.constant(true), cache: fc.constant(undefined) });
  const tool = features.free_text_tools
    ? fc.oneof(
        { weight: 4, arbitrary: ordinary },
        { weight: 3, arbitrary: strict },
        { weight: 1, arbitrary: free_text },
      )
    : fc.oneof(ordinary, strict);
  return fc.uniqueArray((tool as unknown as fc.Arbitrary<Tool>).map(present), {
    selector: ({ name }) => name,
    maxLength: 4,
  });
}

interface Exchange {
  readonly before: readonly (TextPart | ImagePart | DocumentPart)[];
  readonly instructions: readonly TextPart[] | undefined;
  readonly thoughts: readonly ReasoningPart[];
  readonly said: readonly Part[];
  readonly calls: readonly {
    name_index: number;
    arguments: string;
    input: string;
    result: Omit<ToolResultPart, 'call_id'>;
  }[];
}

function exchanges(features: ConversationFeatures): fc.Arbitrary<Exchange> {
  const text = textParts(features);
  const result_part = fc.oneof(text, ...(features.result_files ? files(features) : []));
  const result = fc
    .record({
      kind: fc.constant('tool_result' as const),
      parts: fc.array(result_part, { maxLength: features.long_results ? 2 : 1 }),
      is_error: features.result_errors ? fc.boolean() : fc.constant(false),
      cache: cached(features),
    })
    .map(present) as fc.Arbitrary<Omit<ToolResultPart, 'call_id'>>;
  const refusal = texts.map((said): Part => ({ kind: 'refusal', text: said }));
  return fc.record({
    before: fc.array(fc.oneof(text, ...files(features)), { minLength: 1, maxLength: 3 }),
    instructions: features.instructions_turns
      ? fc.option(fc.array(text, { minLength: 1, maxLength: 2 }), { nil: undefined, freq: 4 })
      : fc.constant(undefined),
    thoughts:
      features.reasoning.length > 0 ? fc.array(reasoningParts(features.reasoning), { maxLength: 2 }) : fc.constant([]),
    said: fc.array(
      fc.oneof(
        { weight: 5, arbitrary: text as fc.Arbitrary<Part> },
        ...(features.refusals ? [{ weight: 1, arbitrary: refusal }] : []),
      ),
      { maxLength: 2 },
    ),
    calls: fc.array(fc.record({ name_index: fc.nat(10), arguments: argumentTexts, input: texts, result }), {
      maxLength: 3,
    }),
  });
}

/** Turns of exchanges: results come first in the turn after their calls, and the last turn is the user's. */
function turnsOf(list: readonly Exchange[], tools: readonly Tool[]): Turn[] {
  const turns: Turn[] = [];
  let results: ToolResultPart[] = [];
  let calls_made = 0;
  for (const { before, instructions, thoughts, said, calls } of list) {
    turns.push({ role: 'user', parts: [...results, ...before] });
    if (instructions !== undefined) turns.push({ role: 'instructions', parts: instructions });
    results = [];
    const made: ToolCallPart[] = [];
    for (const { name_index, result, input, arguments: args } of tools.length > 0 ? calls : []) {
      const id = `call_${calls_made++}`;
      const { name, free_text } = tools[name_index % tools.length]!;
      made.push({ kind: 'tool_call', id, name, arguments: free_text ? JSON.stringify({ input }) : args });
      results.push({ ...result, call_id: id });
    }
    const parts = [...thoughts, ...said, ...made];
    // Reasoning alone is no response.
    if (said.length + made.length > 0) turns.push({ role: 'assistant', parts });
  }
  if (results.length > 0) turns.push({ role: 'user', parts: results });
  return turns;
}

const settings = fc.record(
  {
    max_output_tokens: fc.integer({ min: 2000, max: 60_000 }),
    temperature: fc.integer({ min: 0, max: 10 }).map((tenths) => tenths / 10),
    top_p: fc.integer({ min: 1, max: 9 }).map((tenths) => tenths / 10),
    top_k: fc.integer({ min: 1, max: 100 }),
    frequency_penalty: fc.constantFrom(-1, 0.5),
    presence_penalty: fc.constantFrom(-1, 0.5),
    seed: fc.nat(1000),
    stop: fc.uniqueArray(texts, { minLength: 1, maxLength: 3 }),
    reasoning: fc.record(
      {
        effort: fc.constantFrom('low' as const, 'medium' as const, 'high' as const),
        show: fc.boolean(),
      },
      { requiredKeys: ['effort'] },
    ),
    output_format: fc.oneof(
      fc.constant({ kind: 'json_object' as const }),
      fc.record({ kind: fc.constant('json_schema' as const), schema: enforcedSchemas, name: names }),
    ),
    verbosity: fc.constantFrom('low', 'high'),
    user: fc.stringMatching(/^[a-z0-9_-]{1,20}$/),
    metadata: fc.dictionary(plainKeys, fc.string({ maxLength: 10 }), { minKeys: 1, maxKeys: 2, noNullPrototype: true }),
    service_tier: fc.constantFrom('default', 'flex', 'priority'),
    store: fc.constant(true),
    cache: fc.record({ key: names, ttl: ttls }),
    parallel_tool_calls: fc.boolean(),
  },
  { requiredKeys: [] },
);

/** Legal conversations. Every top-level field may be there; a test removes what its protocol lacks. */
export function conversations(features: Partial<ConversationFeatures> = {}): fc.Arbitrary<Conversation> {
  const all = { ...EVERYTHING, ...features };
  return fc
    .record({
      model: fc.constantFrom('big-model', 'vendor/small'),
      instructions: fc.array(textParts(all), { maxLength: 2 }),
      exchanges: fc.array(exchanges(all), { minLength: 1, maxLength: 4 }),
      tools: toolLists(all),
      choice: optional(
        fc.record({
          kind: fc.constantFrom('auto' as const, 'none' as const, 'any' as const, 'tool' as const),
          index: fc.nat(10),
        }),
      ),
      settings,
      stream: fc.boolean(),
    })
    .map(({ model, instructions, exchanges: list, tools, choice, settings: rest, stream }) => {
      const { parallel_tool_calls, ...others } = rest;
      const tool_choice =
        choice?.kind === 'tool'
          ? { kind: 'tool' as const, name: tools[choice.index % Math.max(tools.length, 1)]?.name ?? '' }
          : choice && { kind: choice.kind };
      const made = {
        model,
        instructions,
        turns: turnsOf(list, tools),
        tools,
        ...(tools.length > 0 &&
          tool_choice !== undefined && { tool_choice: tool_choice as NonNullable<Conversation['tool_choice']> }),
        ...(tools.length > 0 && parallel_tool_calls !== undefined && { parallel_tool_calls }),
        ...others,
        stream,
      } as Conversation;
      // Plain objects: those of fast-check have no prototype.
      return structuredClone(made);
    });
}

/** Neighbours of one role as one turn. */
export function joinedTurns(turns: readonly Turn[]): readonly Turn[] {
  const joined: { role: Turn['role']; parts: Part[] }[] = [];
  for (const { role, parts } of turns) {
    const last = joined.at(-1);
    if (last?.role === role) last.parts.push(...parts);
    else joined.push({ role, parts: [...parts] });
  }
  return joined;
}
