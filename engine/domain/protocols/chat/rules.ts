import { requests, requests_of_others, responses, responses_of_others } from '../translation/rule.ts';
import { COMPAT_RULES, type SharedRules } from '../translation/shared-rules.ts';

/** Losses and changes in translations from or to this protocol. */
export const RULES = {
  ...requests.rejected({
    functions: [
      'functions, function_call',
      'their successors are tools and tool_choice. Use those, or a model whose upstream speaks this protocol.',
    ],
    several_choices: [
      'n above 1',
      'the upstream returns one response per request. Send the request several times instead.',
    ],
  }),
  ...requests.changed({
    function_message: ['messages of role function, function_call', 'They become results and calls of tools.'],
  }),
  ...requests.dropped({
    logit_bias: ['logit_bias', 'It names tokens of one model by number.'],
    prediction: ['prediction', 'It would only speed up the response.'],
    moderation: ['moderation', 'The response has no results of moderation.'],
    message_name: ['name of a message', 'Messages of one role are not grouped by names.'],
  }),
  ...requests_of_others.changed({
    result_texts: ['several texts in one result of a tool', 'They become one: many upstreams take no other.'],
    result_attachments: ['images and documents in results of tools', 'They go into a user message right after them.'],
    part_order: ['text or reasoning after a call in one turn', 'A message has reasoning, then text, then calls.'],
    many_stops: ['more than four stop sequences', 'The upstream gets four; the gateway cuts the text at the others.'],
  }),
  ...requests_of_others.rejected({
    document_url: [
      'documents by URL',
      'the protocol of the upstream has no documents by URL. Send the bytes of the document.',
    ],
  }),
  ...requests_of_others.dropped({
    unstored_metadata: ['metadata without store: true', 'Upstreams of this protocol reject it.'],
    reasoning_display: ['thinking.display, reasoning.summary', 'The protocol has no parameter for it.'],
  }),
  ...responses.dropped({
    extra_choice: ['choices after the first', 'A translated response has one choice.'],
    answer_extras: ['annotations, audio, images, citations, logprobs', 'They are dropped; texts and calls pass.'],
    large_state: ['state of a message above a million characters', 'The upstream does not get it back; texts pass.'],
  }),
  ...responses_of_others.dropped({
    reasoning_proof: ['signatures and encrypted content of reasoning', 'The text of the reasoning passes.'],
  }),
};

export const SHARED: SharedRules = {
  from: ['seed', 'penalties', 'top_k', ...COMPAT_RULES.from],
  to: ['assistant_first', 'instructions_turn', 'user_after_results', 'free_text_tool', ...COMPAT_RULES.to],
};
