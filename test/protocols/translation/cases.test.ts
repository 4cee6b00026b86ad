/**
 * Each protocol's translations, a case a line in `cases.jsonl`: read into the common vocabulary,
 * written from it, and with addresses replaced in their texts. `in` is laid over the smallest request, and `out` has what differs from what that gives. To add a case, write
 * its line without `out`; `UPDATE_GOLDEN=1` fills in the results, and the diff is read like code.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Rewriting } from '../../../engine/api.ts';
import { StageError } from '../../../engine/base/contract/errors.ts';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type { AnswerRewriter } from '../../../engine/domain/protocols/rewriting.ts';
import type {
  Conversation,
  Json,
  ModelEvent,
  ToolAddress,
  UpstreamTarget,
} from '../../../engine/domain/protocols/translation/conversation.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { rewriterOf, WORDS } from '../rewriting/rewriting.ts';
import { ANSWER_CONTEXT } from './answer-arbitraries.ts';

/** An event of a stream: its data, or its name and its data where the data does not say the name. */
type Sent = Json | string | readonly [name: string, data: Json | string];

interface Case {
  readonly what: string;
  readonly protocol: Protocol;
  readonly does: keyof typeof STEPS;
  readonly in: unknown;
  /** Write request: the difference from `TARGET`. */
  readonly target?: Partial<UpstreamTarget>;
  /** Write answer: the difference from `ANSWER_CONTEXT`; sets and maps are lists. */
  readonly answer?: Json;
  /** Read stream: whether the upstream continues. */
  readonly goes_on?: true;
  /** Rewrite: the kinds of texts that are looked through; all where absent. */
  readonly kinds?: Rewriting['kinds'];
  readonly out?: unknown;
  readonly notes?: readonly string[];
  readonly error?: Json;
}

const TARGET: UpstreamTarget = { max_output_tokens: 8000, thinking: 'adaptive', sampling: true };

const HELLO = [{ role: 'user', content: 'Hello' }];
const REQUESTS: Readonly<Record<Protocol, Json>> = {
  messages: { model: 'm', max_tokens: 100, messages: HELLO },
  chat: { model: 'm', messages: HELLO },
  responses: { model: 'm', input: 'Hello' },
};
const CONVERSATION: Conversation = {
  model: 'm',
  instructions: [],
  turns: [{ role: 'user', parts: [{ kind: 'text', text: 'Hello' }] }],
  tools: [],
  stream: false,
};

/** The changed values; `null` for removed ones. */
function changes(before: object, after: object): Json {
  const [old, now] = [before, after].map((value) => JSON.parse(JSON.stringify(value)) as Record<string, unknown>);
  const keys = [...new Set([...Object.keys(old!), ...Object.keys(now!)])];
  const changed = keys.filter((key) => JSON.stringify(old![key]) !== JSON.stringify(now![key]));
  return Object.fromEntries(changed.map((key) => [key, now![key] ?? null]));
}

const adapterOf = ({ protocol }: Case) => DEFINITIONS[protocol].adapter;

function answerOf({ answer: response = {} }: Case) {
  const { free_text_tools = [], tool_addresses = [], ...more } = response as Record<string, never[]>;
  return {
    ...ANSWER_CONTEXT,
    ...more,
    free_text_tools: new Set<string>(free_text_tools),
    tool_addresses: new Map<string, ToolAddress>(tool_addresses),
  };
}

/** The common fields of each chunk of chat completions. */
const CHUNK = { id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'up' };

function eventOf(sent: Sent, protocol: Protocol) {
  const [event_name, said] = Array.isArray(sent) ? (sent as [string, Json]) : [undefined, sent as Json | string];
  if (typeof said === 'string') return { name: event_name ?? 'message', data: said };
  const data = JSON.stringify(protocol === 'chat' && 'choices' in said ? { ...CHUNK, ...said } : said);
  return { name: event_name ?? (protocol === 'chat' ? 'message' : String(said.type)), data };
}

/** The data of the events in a text, as JSON where possible; other lines unchanged. */
function dataIn(text: string): unknown[] {
  return text.split('\n\n').flatMap((event): unknown[] => {
    const [, name, data] = /^(?:event: (.*)\n)?data: (.*)$/.exec(event) ?? [];
    if (data === undefined || data === '[DONE]') return event === '' ? [] : [event];
    const value = JSON.parse(data) as Json;
    assert.equal(name, name === undefined ? undefined : value.type, 'event names match their types');
    return [value];
  });
}

/** Addresses of e-mail are replaced. */
const rewriterFor = ({ protocol, kinds }: Case): AnswerRewriter =>
  rewriterOf(protocol, { ...WORDS, ...(kinds && { kinds }) });

const replacedBy = (rewriter: AnswerRewriter) => rewriter.replaced.get('a') ?? 0;

const STEPS = {
  'read request'(row: Case, notes: Notes) {
    const { readRequest } = adapterOf(row);
    const smallest = REQUESTS[row.protocol];
    return changes(readRequest(smallest, new Notes()), readRequest({ ...smallest, ...(row.in as Json) }, notes));
  },
  'write request'(row: Case, notes: Notes) {
    const { writeRequest } = adapterOf(row);
    const conversation = { ...CONVERSATION, ...(row.in as Partial<Conversation>) };
    const written = writeRequest(conversation, { ...TARGET, ...row.target }, notes);
    return changes(writeRequest(CONVERSATION, TARGET, new Notes()), written);
  },
  /** The output for each event, and at the end. */
  'read stream'(row: Case, notes: Notes) {
    const said: ModelEvent[][] = [];
    const reader = adapterOf(row).createReader(notes, (event) => said.at(-1)!.push(event));
    for (const sent of row.in as Sent[]) {
      said.push([]);
      reader.read(eventOf(sent, row.protocol));
    }
    if (row.goes_on) return said;
    said.push([]);
    reader.end();
    return said;
  },
  'read answer': (row: Case, notes: Notes) => adapterOf(row).readDocument(row.in as Json, notes),
  'write stream'(row: Case, notes: Notes) {
    const writer = adapterOf(row).createWriter(answerOf(row), notes);
    return (row.in as ModelEvent[]).map((event) => dataIn(writer.write(event)));
  },
  'write answer': (row: Case, notes: Notes) =>
    adapterOf(row).writeDocument(row.in as ModelEvent[], answerOf(row), notes),
  'rewrite stream'(row: Case) {
    const rewriter = rewriterFor(row);
    const sent = (row.in as Sent[]).map((event) => (typeof event === 'string' ? event : JSON.stringify(event)));
    const said = [...sent.flatMap((data) => rewriter.event(undefined, data)), ...rewriter.flush()];
    return {
      said: said.map(({ data }) => (data === '[DONE]' ? data : JSON.parse(data))),
      replaced: replacedBy(rewriter),
    };
  },
  'rewrite answer'(row: Case) {
    const rewriter = rewriterFor(row);
    if (typeof row.in === 'string') return { said: rewriter.document(row.in), replaced: replacedBy(rewriter) };
    return { said: JSON.parse(rewriter.document(JSON.stringify(row.in))), replaced: replacedBy(rewriter) };
  },
} as const;

/** The result of a case. */
function made(row: Case): Pick<Case, 'out' | 'notes' | 'error'> {
  const notes = new Notes();
  try {
    const out: unknown = JSON.parse(JSON.stringify(STEPS[row.does](row, notes)));
    return { out, ...(notes.names.length > 0 && { notes: notes.names }) };
  } catch (error) {
    if (!(error instanceof StageError)) throw error;
    const { code, message, details } = error;
    return { error: { code, message, ...details } };
  }
}

const FILE = join(import.meta.dirname, 'cases.jsonl');
const CASES = readFileSync(FILE, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line) as Case);

if (process.env.UPDATE_GOLDEN === '1') {
  const lines = CASES.map(({ out: _out, notes: _notes, error: _error, ...row }) => ({ ...row, ...made(row) }));
  writeFileSync(FILE, lines.map((row) => `${JSON.stringify(row)}\n`).join(''));
}

for (const [does, of_step] of Map.groupBy(CASES, ({ protocol, does }) => `${protocol}: ${does}`)) {
  describe(does, () => {
    for (const [what, rows] of Map.groupBy(of_step, (row) => row.what))
      test(what, () => {
        for (const row of rows) {
          const { out, notes, error } = row;
          const expected = error === undefined ? { out, ...(notes && { notes }) } : { error };
          if (process.env.UPDATE_GOLDEN !== '1') assert.deepEqual(made(row), expected, JSON.stringify(row.in));
        }
      });
  });
}
