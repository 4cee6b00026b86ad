/**
 * Models whose chat template, or whose vendor, wants user and assistant to take turns. Their templates do not count calls of tools
 * and results, so that what the user says after results would be the second message of the user in a row.
 * @module
 */

/** Names of models with such templates; mistral-common refuses `user` after `tool` as well. */
const STRICT_MODELS =
  /(?:^|[^a-z])(?:mi[sx]tral|ministral|devstral|codestral|magistral|mathstral|pixtral|voxtral|gemma|command-r|llama-?2)/i;

/** Whether the model of this name wants user and assistant to take turns. */
export function takesTurns(model: string): boolean {
  return STRICT_MODELS.test(model);
}

/** Stands before a conversation that the model begins. */
export const OPENING = '(The conversation begins.)';

/** What the assistant says between results of tools and the next words of the user. */
export const RESULTS_SEEN = 'I have the results.';
