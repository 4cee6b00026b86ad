import fc from 'fast-check';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type {
  AnswerContext,
  ModelEvent,
  ModelUsage,
  PartStart,
  ReasoningProof,
  StopReason,
} from '../../../engine/domain/protocols/translation/conversation.ts';
import { cut } from '../rewriting/rewriting.ts';
import { argumentTexts, names, reasoningParts, texts } from './conversation-arbitraries.ts';

/** What writers of responses know of the request, where a test does not care. */
export const ANSWER_CONTEXT: AnswerContext = {
  request_id: '0b0e8fa7-3f68-4d5e-9e5c-000000000001',
  model: 'asked-model',
  created_at: 1_800_000_000,
  include_usage: false,
  made_by: { protocol: 'chat', upstream: 'u' },
  free_text_tools: new Set(),
  echo: {},
};

/** The parts of a response of `answers()`; overlapping parts are parallel tool calls of some upstreams. */
const EVERY_ANSWER = {
  overlapping: true,
  refusals: true,
  pings: true,
  reasoning: [...PROTOCOLS, 'text'] as readonly (Protocol | 'text')[],
};
type AnswerFeatures = Readonly<typeof EVERY_ANSWER>;

const usages: fc.Arbitrary<ModelUsage> = fc
  .record(
    {
      input: fc.nat(5000),
      output: fc.nat(5000),
      cache_read: fc.nat(100),
      cache_write: fc.nat(100),
      reasoning: fc.nat(50),
    },
    { requiredKeys: ['input', 'output'] },
  )
  .map((usage) =>
    usage.reasoning === undefined ? usage : { ...usage, reasoning: Math.min(usage.reasoning, usage.output) },
  );

interface Piece {
  readonly start: PartStart;
  readonly deltas: readonly string[];
  readonly proof: ReasoningProof | undefined;
}

function pieces({ refusals, reasoning }: AnswerFeatures): fc.Arbitrary<Piece> {
  const cuts = fc
    .array(fc.integer({ min: 0, max: 1000 }), { maxLength: 3 })
    .map((places) => (text: string) => cut(text, places).filter((piece) => piece !== ''));
  const said = (kind: 'text' | 'refusal') =>
    fc.tuple(texts, cuts).map(([text, into]): Piece => ({ start: { kind }, deltas: into(text), proof: undefined }));
  const thought = () =>
    fc
      .tuple(reasoningParts(reasoning), cuts)
      .map(([{ text, proof }, into]): Piece => ({ start: { kind: 'reasoning' }, deltas: into(text), proof }));
  const call = fc.tuple(names, argumentTexts, cuts).map(([name, text, into]): Piece => {
    return { start: { kind: 'tool_call', id: 'call', name }, deltas: into(text), proof: undefined };
  });
  return fc.oneof(
    said('text'),
    call,
    ...(refusals ? [said('refusal')] : []),
    ...(reasoning.length > 0 ? [thought()] : []),
  );
}

/** The steps of one part. */
function stepsOf({ start, deltas, proof }: Piece, index: number): ModelEvent[] {
  const part = start.kind === 'tool_call' ? { ...start, id: `call_${index}` } : start;
  return [
    { type: 'part_start', index, part },
    ...deltas.map((text): ModelEvent => ({ type: 'part_delta', index, text })),
    ...(proof === undefined ? [] : [{ type: 'proof' as const, index, proof }]),
    { type: 'part_end', index },
  ];
}

/** Merges the steps of parts by a sequence of choices; parts start in the order of their index. */
function interleave(parts: readonly ModelEvent[][], order: readonly number[]): ModelEvent[] {
  const rest = parts.map((steps) => [...steps]);
  const merged: ModelEvent[] = [];
  let started = 0;
  for (let step = 0; rest.some((steps) => steps.length > 0); step++) {
    const open = rest.flatMap((steps, index) => (steps.length > 0 && index <= started ? [index] : []));
    const index = open[(order[step % Math.max(order.length, 1)] ?? 0) % open.length]!;
    if (index === started) started++;
    merged.push(rest[index]!.shift()!);
  }
  return merged;
}

function reasonOf(list: readonly Piece[], other: StopReason): StopReason {
  if (list.some(({ start }) => start.kind === 'tool_call')) return 'tool_calls';
  return list.some(({ start }) => start.kind === 'refusal') ? 'refusal' : other;
}

/** Legal responses, as events: every one has at least one part, and its stop reason fits its parts. */
export function answers(features: Partial<AnswerFeatures> = {}): fc.Arbitrary<ModelEvent[]> {
  const all = { ...EVERY_ANSWER, ...features };
  return fc
    .record({
      start: fc.record(
        { id: fc.stringMatching(/^msg_[a-z0-9]{4,10}$/), model: fc.constantFrom('big-model', 'other') },
        { requiredKeys: [] },
      ),
      list: fc.array(pieces(all), { minLength: 1, maxLength: 5 }),
      order: all.overlapping ? fc.array(fc.nat(10), { maxLength: 30 }) : fc.constant<number[]>([]),
      pings: all.pings ? fc.array(fc.nat(40), { maxLength: 2 }) : fc.constant<number[]>([]),
      other: fc.constantFrom<StopReason>('finished', 'max_tokens'),
      usage: usages,
    })
    .map(({ start, list, order, pings, other, usage }) => {
      const body = interleave(list.map(stepsOf), order);
      for (const at of pings) body.splice(at % (body.length + 1), 0, { type: 'ping' });
      return structuredClone([
        { type: 'start', ...start },
        ...body,
        { type: 'end', reason: reasonOf(list, other), usage },
      ]);
    });
}

/** The text of a response's parts once all deltas are joined, in order; blank ones are omitted. */
export function saidBy(events: readonly ModelEvent[]) {
  const parts: { kind: string; text: string; name?: string; id?: string; proof?: ReasoningProof }[] = [];
  for (const event of events) {
    if (event.type === 'part_start') {
      const { part } = event;
      const called = part.kind === 'tool_call' && { name: part.name, id: part.id };
      parts[event.index] = { kind: part.kind, text: '', ...called };
    }
    if (event.type === 'part_delta') parts[event.index]!.text += event.text;
    if (event.type === 'proof') parts[event.index]!.proof = event.proof;
  }
  return parts.filter((part) => part.text !== '' || part.proof !== undefined || part.kind === 'tool_call');
}
