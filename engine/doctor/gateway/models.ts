import type { CheckOutcome } from '../../contract/checks.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import { type Answer, fieldsOf, shortText } from '../../selfcheck/answer.ts';
import type { Connection } from '../diagnosis.ts';

/** A model of a list. */
export interface ListedModel {
  readonly id: string;
  /** In tokens, where the gateway says so. */
  readonly context_window: number | undefined;
}

const MODELS_MAX = 5000;

/** The models of a list, in the form of whatever API; `undefined` where an answer is no list. */
export function readModels({ status, json }: Pick<Answer, 'status' | 'json'>): readonly ListedModel[] | undefined {
  const { data, models } = fieldsOf(json);
  const entries = Array.isArray(data) ? data : Array.isArray(models) ? models : undefined;
  if (status !== 200 || entries === undefined) return undefined;
  return entries.slice(0, MODELS_MAX).flatMap((entry) => {
    const { id, slug, context_window, max_input_tokens } = fieldsOf(entry);
    const name = id ?? slug;
    const window = context_window ?? max_input_tokens;
    return typeof name === 'string' ? [{ id: name, context_window: isSize(window) ? window : undefined }] : [];
  });
}

const isSize = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;

/** The model a client asks for: what follows in brackets is for the client itself. */
export function askedModel({ client, model }: Connection): string | undefined {
  return client === 'messages' ? model?.replace(/\[[^\]]*\]$/, '') : model;
}

/** Whether a list has a model, also by an entry such as `vendor/*`. */
export function findModel(models: readonly ListedModel[], model: string): ListedModel | undefined {
  const exact = models.find(({ id }) => id === model);
  return exact ?? models.find(({ id }) => id.endsWith('*') && model.startsWith(id.slice(0, -1)));
}

/** A model that a client asks for and the list does not have. `answer` is to a question for it alone. */
export function missingModel(model: string, models: readonly ListedModel[], answer: Answer | undefined): CheckOutcome {
  const name = shortText(model, 80);
  const ids = models.map(({ id }) => shortText(id, 80));
  const alone = answer?.status === 200 ? fieldsOf(answer.json).id : undefined;
  if (alone === model)
    return { verdict: 'ok', found: `the gateway has ${name} for this token, though its list does not` };
  const meant = didYouMean(model, ids);
  const other = 'For another model ask whoever runs the gateway for a token of a group that may use it';
  if (ids.length === 0) {
    const found = `the gateway has no model at all for this token, so ${name} is "not found": its token group may use none`;
    return {
      verdict: 'failed',
      found,
      remedy: 'ask whoever runs the gateway for a token of a group that may use models',
    };
  }
  const remedy = `${meant === undefined ? '' : `${meant} `}This token may use ${listed(ids).replace(/ or ([^,]*)$/, ' and $1')}. ${other}`;
  // Others answer so where they have no such path.
  if (answer?.status === 404 && fieldsOf(fieldsOf(answer.json).error).code === 'model_not_found') {
    const found = `the gateway has no model "${name}" for this token: its token group may not use it, or the name is wrong`;
    return { verdict: 'failed', found, remedy };
  }
  return {
    verdict: 'warning',
    found: `the model "${name}" is not in the list that the gateway has for this token`,
    remedy,
  };
}

/** What a client believes about the window of its model, against what the gateway says; `undefined` where one of both is not known. */
export function judgeWindow(
  { context_window: believed, fixWindow }: Connection,
  model: ListedModel,
): CheckOutcome | undefined {
  const { context_window: window } = model;
  if (window === undefined) return undefined;
  const id = shortText(model.id, 80);
  const remedy = `set the context window of the client to ${window}, and its compaction limit to ${Math.floor(window * 0.95)}`;
  if (believed === undefined) {
    if (fixWindow === undefined) return undefined;
    return { verdict: 'warning', found: `the client is not told that ${id} takes ${window} tokens`, remedy };
  }
  if (believed <= window) return { verdict: 'ok', found: `${believed} tokens, and ${id} takes ${window}` };
  return {
    verdict: 'failed',
    found: `the client believes that ${id} takes ${believed} tokens, and the gateway says ${window}: long sessions fail before they are compacted`,
    remedy,
  };
}
