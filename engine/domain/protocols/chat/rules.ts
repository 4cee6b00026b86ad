import { rulesOf } from '../translation/rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('chat');

/** Losses and changes in translations from or to this protocol. */
export const CHAT_RULES = {
  ...asked.refused({
    functions: [
      'functions, function_call',
      'their successors are tools and tool_choice. Use those, or a model whose upstream speaks this protocol.',
    ],
    several_choices: [
      'n above 1',
      'the upstream returns one response per request. Send the request several times instead.',
    ],
  }),
  ...asked.changed({
    function_message: ['messages of role function, function_call', 'They become results and calls of tools.'],
  }),
  ...asked.dropped({
    logit_bias: ['logit_bias', 'It names tokens of one model by number.'],
    prediction: ['prediction', 'It would only speed up the response.'],
    moderation: ['moderation', 'The response has no results of moderation.'],
    message_name: ['name of a message', 'Messages of one role are not grouped by names.'],
  }),
  ...unasked.changed({
    result_texts: ['several texts in one result of a tool', 'They become one: many upstreams take no other.'],
    result_attachments: ['images and documents in results of tools', 'They go into a user message right after them.'],
    part_order: ['text or reasoning after a call in one turn', 'A message has reasoning, then text, then calls.'],
    many_stops: ['more than four stop sequences', 'The upstream gets four; the gateway cuts the text at the others.'],
  }),
  ...unasked.refused({
    document_url: [
      'documents by URL',
      'the protocol of the upstream has no documents by URL. Send the bytes of the document.',
    ],
  }),
  ...unasked.dropped({
    unstored_metadata: ['metadata without store: true', 'Upstreams of this protocol refuse it.'],
    reasoning_display: ['thinking.display, reasoning.summary', 'The protocol has no parameter for it.'],
  }),
  ...answered.dropped({
    extra_choice: ['choices after the first', 'A translated response has one choice.'],
    answer_extras: ['annotations, audio, images, citations, logprobs', 'They are dropped; texts and calls pass.'],
    large_state: ['state of a message above a million characters', 'The upstream does not get it back; texts pass.'],
  }),
  ...unanswered.dropped({
    reasoning_proof: ['signatures and encrypted content of reasoning', 'The text of the reasoning passes.'],
  }),
};
