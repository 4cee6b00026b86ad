/** Stop reasons: the names that servers use, and their meaning. `write-answer.ts` of each protocol has its own names. @module */

import { isObject, jsonIn, objectsIn } from './read-json.ts';
import type { Problem, StopReason } from './translation/conversation.ts';
import type { Notes } from './translation/rules.ts';

/** Names of stop reasons of usable responses, compared by letters and digits; comments name the servers. */
const REASONS: Readonly<Record<StopReason, readonly string[]>> = {
  finished: [
    ...['end_turn', 'stop', 'completed'], // the three protocols
    ...['eos', 'eos_token', 'endoftext', 'end_of_text', 'end_of_sequence'], // Together, TGI, watsonx, AI21, Aleph Alpha
    ...['complete', 'finish', 'finished', 'stop_criteria_met', 'eos_found'], // Cohere, Titan, LM Studio
    ...['normal', 'final', 'done', 'end', 'stopped', 'success'], // ERNIE, Yandex, smaller servers
    ...['load', 'unload'], // Ollama, asked for nothing
  ],
  // Messages, Cohere; llama.cpp, LM Studio, Aleph Alpha
  stop_sequence: ['stop_sequence', 'word', 'stop_word', 'stop_string_found', 'stop_sequence_reached'],
  tool_calls: ['tool_use', 'tool_calls', 'tool_call', 'function_call', 'function_calls'],
  paused: ['pause_turn', 'compaction', 'steered', 'max_messages'], // Messages, Responses
  refusal: ['refusal', 'refused'],
  content_filter: [
    ...['content_filter', 'content_filtered', 'guardrail_intervened'], // chat, Responses, Bedrock
    ...['safety', 'recitation', 'language', 'blocklist', 'prohibited_content', 'spii', 'jailbreak', 'model_armor'], // Gemini
    ...['image_safety', 'image_prohibited_content', 'image_recitation'], // Gemini
    ...['sensitive', 'error_toxic', 'blacklist', 'data_inspection_failed'], // Zhipu, Cohere, GigaChat, DashScope
  ],
  max_tokens: [
    ...['max_tokens', 'length', 'max_output_tokens'], // the three protocols
    ...['max_completion_tokens', 'max_new_tokens', 'max_length', 'max_len', 'max_output', 'maximum_tokens'], // xAI, MiniMax
    ...['limit', 'token_limit', 'max_predicted_tokens_reached'], // llama.cpp, watsonx, LM Studio
    ...['truncated', 'truncated_final', 'incomplete', 'time_limit'], // Yandex; watsonx, xAI
  ],
  context_window: [
    ...['model_context_window_exceeded', 'model_length', 'error_limit'], // Messages, Bedrock, Zhipu; Mistral; Cohere
    ...['context_length', 'context_length_reached', 'context_length_exceeded', 'context_limit'], // LM Studio
    ...['context', 'max_context', 'max_context_length', 'max_prompt_tokens', 'context_window_exceeded'], // Reka, xAI
  ],
};

/** Stop reasons of unusable responses: clients get an error, and retry. */
const BROKEN = {
  broken_off: [
    ...['error', 'failed', 'failure', 'abort', 'aborted'], // Mistral, OpenRouter, Cohere; vLLM, SGLang
    ...['insufficient_system_resource', 'network_error', 'model_unloaded'], // DeepSeek, Zhipu, LM Studio
    ...['cancelled', 'canceled', 'cancel', 'user_cancel', 'user_stopped', 'interrupted', 'timeout'], // watsonx, Cohere
    ...['overloaded', 'unavailable', 'resource_exhausted', 'server_error', 'internal_error'],
  ],
  /** Malformed output of the model, such as a tool call; a retry may be better. */
  unusable: [
    ...['malformed_function_call', 'malformed_response', 'unexpected_tool_call', 'too_many_tool_calls'], // Gemini
    ...['missing_thought_signature', 'no_image', 'image_other'], // Gemini
    ...['malformed_model_output', 'malformed_tool_use', 'malformed_tool_call'], // Bedrock
  ],
} as const;

type Meaning = StopReason | keyof typeof BROKEN;

/** Meanings of unknown names by pattern; the first match counts. */
const FAMILIES: readonly (readonly [RegExp, Meaning])[] = [
  [/malformed/, 'unusable'],
  [/filter|safety|block|prohibit|polic|guardrail|sensitiv|moderat|toxic|harm|violat|censor|risk/, 'content_filter'],
  [
    /error|fail|abort|cancel|timeout|timedout|interrupt|disconnect|unavailable|overload|resource|crash|kill/,
    'broken_off',
  ],
];

const NO_REASONS: ReadonlySet<string> = new Set(['', 'null', 'none', 'notfinished', 'inprogress']);

const WORD_CHARS_MAX = 100;

const plain = (word: string): string => word.toLowerCase().replace(/[^a-z0-9]+/g, '');

const MEANINGS: ReadonlyMap<string, Meaning> = new Map(
  [...Object.entries(REASONS), ...Object.entries(BROKEN)].flatMap(([meaning, words]) =>
    words.map((word) => [plain(word), meaning as Meaning] as const),
  ),
);

/** Prefixes that some servers put before the word: `FINISH_REASON_STOP`, `REASON_MAX_LEN`, `ALTERNATIVE_STATUS_FINAL`. */
const LIST_NAME = /^(?:finishreason|stopreason|reason|alternativestatus)/;

/** The meaning of a word; `undefined` where unknown. Some servers send two: `FinishReason.STOP`, `content_filter: SAFETY`. */
function listed(word: string): Meaning | undefined {
  for (const one of [word, ...word.split(/[.:]/).toReversed()]) {
    const text = plain(one);
    const found = MEANINGS.get(text) ?? MEANINGS.get(text.replace(LIST_NAME, ''));
    if (found !== undefined) return found;
  }
  return undefined;
}

export function saysReason(value: unknown): value is string {
  return typeof value === 'string' && !NO_REASONS.has(value.length > WORD_CHARS_MAX ? value : plain(value));
}

export function breaksOff(word: string): boolean {
  return meaningOf(word).meaning === 'broken_off';
}

function meaningOf(word: string): { readonly meaning: Meaning; readonly is_listed: boolean } {
  if (word.length > WORD_CHARS_MAX) return { meaning: 'max_tokens', is_listed: false };
  const found = listed(word);
  if (found !== undefined) return { meaning: found, is_listed: true };
  const text = plain(word);
  // A response that may be incomplete is reported as cut.
  const family = FAMILIES.find(([pattern]) => pattern.test(text))?.[1] ?? 'max_tokens';
  return { meaning: family, is_listed: false };
}

/** The end of a response for its client: a reason, or a problem where it is unusable. */
export type AnswerEnd = { readonly reason: StopReason } | { readonly problem: Problem };

/**
 * Reads the stop reason of a server; without one, the response has finished.
 * @param parts what the response has: `is_cut` calls lack arguments, `has_refusal` is one in a separate field
 */
export function readEnd(
  word: unknown,
  parts: { readonly has_calls: boolean; readonly is_cut?: boolean; readonly has_refusal?: boolean },
  notes: Notes,
): AnswerEnd {
  const { has_calls, is_cut = false, has_refusal = false } = parts;
  const { meaning, is_listed } = saysReason(word)
    ? meaningOf(word)
    : ({ meaning: 'finished', is_listed: true } as const);
  if (!is_listed) notes.noteWord('unknown_stop_reason', word as string);
  switch (meaning) {
    case 'broken_off':
    case 'unusable':
      return { problem: problemOf(meaning, word as string) };
    // Some servers report a stop after a tool call, or a tool call without one.
    case 'finished':
    case 'tool_calls':
      return { reason: has_calls ? 'tool_calls' : has_refusal ? 'refusal' : 'finished' };
    default:
      return { reason: !is_listed && meaning === 'max_tokens' && has_calls && !is_cut ? 'tool_calls' : meaning };
  }
}

function problemOf(meaning: keyof typeof BROKEN, word: string): Problem {
  const what =
    meaning === 'broken_off'
      ? 'The upstream broke off its response'
      : 'The upstream could not read the output of its model';
  const message = `${what}: it finished with ${JSON.stringify(word.slice(0, WORD_CHARS_MAX))}. Send the request again.`;
  return { status: 502, message, context_overflow: false };
}

/** Matches the end of a response; in a text of the model the quotes would be escaped. */
const END_SIGN =
  /"(?:finish|stop)_reason"\s*:\s*"([^"\\]{1,100})"|"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete|done))"|\[DONE\]\s*$/;

/** The end in one event, several or a whole response: complete, or broken off by the server. */
export function responseEndIn(data: string): 'whole' | 'broken_off' | undefined {
  const found = END_SIGN.exec(data);
  if (found === null) return undefined;
  const word = found[1];
  if (word === undefined) return 'whole';
  if (!saysReason(word)) return undefined;
  return breaksOff(word) && endsBroken(data) ? 'broken_off' : 'whole';
}

/** Whether the stop reason belongs to the response, and not to the arguments of a call. */
function endsBroken(data: string): boolean {
  const value = jsonIn(data);
  if (!isObject(value)) return false;
  const { choices, delta } = value;
  const said = objectsIn(choices).map(({ finish_reason }) => finish_reason);
  return [value.stop_reason, isObject(delta) ? delta.stop_reason : undefined, ...said].some(
    (word) => saysReason(word) && breaksOff(word),
  );
}
