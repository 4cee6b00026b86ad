import { rulesOf, type TranslationRule } from '../translation/rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('chat');

/** What is lost or changed on the way from or to this protocol. */
export const CHAT_RULES = {
  functions: asked(
    'refused',
    'functions, function_call',
    'their successors are tools and tool_choice. Use those, or a model whose upstream speaks this protocol.',
  ),
  function_message: asked(
    'changed',
    'messages of role function, function_call of an assistant message',
    'They become results and calls of tools.',
  ),
  several_choices: asked(
    'refused',
    'n above 1',
    'the upstream gives one answer to a request. Send the request several times instead.',
  ),
  logit_bias: asked('dropped', 'logit_bias', 'It names tokens by numbers that only one model has.'),
  prediction: asked('dropped', 'prediction', 'It would only make the answer faster.'),
  moderation: asked('dropped', 'moderation', 'The answer comes without results of moderation.'),
  message_name: asked('dropped', 'name of a message', 'Messages of one role are not grouped by names.'),
  result_texts: unasked(
    'changed',
    'several texts in one result of a tool',
    'They become one text, line by line: many upstreams take no other form.',
  ),
  result_attachments: unasked(
    'changed',
    'images and documents in results of tools',
    'Results are text there: images and documents go into a user message right after the results.',
  ),
  document_url: unasked(
    'refused',
    'documents by URL',
    'the protocol of the upstream takes documents by their bytes only. Send the bytes of the document.',
  ),
  part_order: unasked(
    'changed',
    'text or reasoning after a call in one turn of the assistant',
    'A message has its reasoning, then its text, then its calls.',
  ),
  unstored_metadata: unasked(
    'dropped',
    'metadata without store: true',
    'Upstreams of this protocol take metadata only for answers they are asked to store.',
  ),
  many_stops: unasked(
    'changed',
    'more than four stop sequences',
    'The upstream is told the first four, and the gateway cuts the text at the others.',
  ),
  reasoning_display: unasked(
    'dropped',
    'thinking.display, reasoning.summary',
    'Upstreams of this protocol show reasoning or do not, and cannot be asked to.',
  ),
  extra_choice: answered('dropped', 'choices after the first', 'A translated answer has one choice.'),
  answer_extras: answered(
    'dropped',
    'annotations, audio, images, citations and logprobs of an answer, and numbers and flags beside its text',
    'Text, reasoning and calls pass, with the state that the upstream wants back; what stands beside them is left out.',
  ),
  large_state: answered(
    'dropped',
    'state of a message and its calls above a million characters',
    'The upstream does not get it back; the texts pass.',
  ),
  reasoning_proof: unanswered(
    'dropped',
    'signatures and encrypted content of reasoning',
    'Clients of this protocol could not send them back; the text of the reasoning passes.',
  ),
} satisfies Record<string, TranslationRule>;
