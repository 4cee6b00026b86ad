import { isPrintableLine } from '../kit/text/printable.ts';
import { fieldsOf, readAnswer } from './answer.ts';
import type { Subject } from './check.ts';
import { type Price, toldPrice } from './costs.ts';

/** Why a model is asked: its person named it, it is of the echo upstream, the cheapest, or the first there is. */
export type ModelReason = 'named' | 'echo' | 'cheapest' | 'first';

/** The model that checks ask. */
export interface ChosenModel {
  readonly model: string | undefined;
  readonly reason: ModelReason | undefined;
  /** What the gateway says it costs. */
  readonly price: Price | undefined;
  /** How many models it lists; `undefined` where it gave no list. */
  readonly listed: number | undefined;
}

const ID_LENGTH_MAX = 200;
/** Models for something else than text often stand first in a list. */
const FOR_SOMETHING_ELSE =
  /embed|whisper|tts|speech|audio|voice|transcri|realtime|image|dall-?e|diffusion|video|moderation|guard|rerank|ocr/i;

interface Entry {
  readonly id: string;
  readonly price: Price | undefined;
}

/**
 * Which model to ask: the one that was named, else that of the echo upstream, the cheapest of those with a price, or the
 * first of the gateway's list. Costs nothing. Rejects where the gateway gives no answer at all.
 */
export async function chooseModel(
  subject: Pick<Subject, 'ask'>,
  wish: { readonly named: string | undefined; readonly echo_model: string | undefined },
): Promise<ChosenModel> {
  const entries = await listModels(subject);
  const chosen = choose(entries ?? [], wish);
  const price = entries?.find(({ id }) => id === chosen.model)?.price;
  return { ...chosen, price, listed: entries?.length };
}

function choose(
  entries: readonly Entry[],
  { named, echo_model }: Parameters<typeof chooseModel>[1],
): Pick<ChosenModel, 'model' | 'reason'> {
  if (named !== undefined) return { model: named, reason: 'named' };
  if (echo_model !== undefined && entries.some(({ id }) => id === echo_model)) {
    return { model: echo_model, reason: 'echo' };
  }
  const [first] = entries;
  if (first === undefined) return { model: undefined, reason: undefined };
  const for_text = entries.filter(({ id }) => !FOR_SOMETHING_ELSE.test(id));
  const priced = for_text.flatMap(({ id, price }) => (price === undefined ? [] : [{ id, costs: sumOf(price) }]));
  // What is free is often for a few requests a minute only, and then says nothing about the gateway.
  const [cheapest] = priced.filter(({ costs }) => costs > 0).sort((a, b) => a.costs - b.costs);
  if (cheapest !== undefined) return { model: cheapest.id, reason: 'cheapest' };
  return { model: (for_text[0] ?? first).id, reason: 'first' };
}

function sumOf({ input_usd_per_million, output_usd_per_million }: Price): number {
  return input_usd_per_million + output_usd_per_million;
}

async function listModels(subject: Pick<Subject, 'ask'>): Promise<Entry[] | undefined> {
  const { status, fault, json } = await readAnswer(await subject.ask({ path: '/v1/models?limit=1000' }));
  const { data } = fieldsOf(json);
  return status === 200 && fault === undefined && Array.isArray(data) ? data.flatMap(entryOf) : undefined;
}

function entryOf(given: unknown): Entry[] {
  const entry = fieldsOf(given);
  const { id } = entry;
  const is_usable = typeof id === 'string' && id !== '' && id.length <= ID_LENGTH_MAX && isPrintableLine(id);
  return is_usable ? [{ id, price: toldPrice(entry) }] : [];
}
