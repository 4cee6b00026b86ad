import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isPrintableLine } from '../../base/kit/text/printable.ts';
import { type Answer, readAnswer } from './answer.ts';
import { isCount } from './apis.ts';
import { MODELS_PATH, type SelfCheck, type Subject, type TokensUsed } from './check.ts';

/** The model that checks use. */
export interface ChosenModel {
  readonly model: string | undefined;
  /** By `--model`, for the echo upstream, as the cheapest, or as the first on the list. */
  readonly reason: 'named' | 'echo' | 'cheapest' | 'first' | undefined;
  readonly price: Price | undefined;
  readonly listed: number | undefined;
}

const ID_LENGTH_MAX = 200;
const MODELS_MAX = 5000;
/** Models for other purposes than text often come first in a list. */
const FOR_SOMETHING_ELSE =
  /embed|whisper|tts|speech|audio|voice|transcri|realtime|image|dall-?e|diffusion|video|moderation|guard|rerank|ocr/i;

/** An entry of a gateway's list of models. */
export interface ListedModel {
  readonly id: string;
  readonly price: Price | undefined;
  readonly context_window: number | undefined;
}

/** The named one, else the echo upstream's, the cheapest with a price, or the first listed. Rejects in an outage. */
export async function chooseModel(
  subject: Pick<Subject, 'ask'>,
  request: { readonly named: string | undefined; readonly echo_model: string | undefined },
): Promise<ChosenModel> {
  const entries = listedModels(await readAnswer(await subject.ask({ path: MODELS_PATH })));
  const chosen = choose(entries ?? [], request);
  const price = entries?.find(({ id }) => id === chosen.model)?.price;
  return { ...chosen, price, listed: entries?.length };
}

function choose(
  entries: readonly ListedModel[],
  { named, echo_model }: Parameters<typeof chooseModel>[1],
): Pick<ChosenModel, 'model' | 'reason'> {
  if (named !== undefined) return { model: named, reason: 'named' };
  if (echo_model !== undefined && entries.some(({ id }) => id === echo_model)) {
    return { model: echo_model, reason: 'echo' };
  }
  const [first] = entries;
  if (first === undefined) return { model: undefined, reason: undefined };
  const for_text = entries.filter(({ id }) => !FOR_SOMETHING_ELSE.test(id));
  const priced = for_text.flatMap(({ id, price }) =>
    price === undefined ? [] : [{ id, costs: price.input_usd_per_million + price.output_usd_per_million }],
  );
  // Free models often allow only a few requests per minute, which would distort the checks.
  const [cheapest] = priced.filter(({ costs }) => costs > 0).sort((a, b) => a.costs - b.costs);
  if (cheapest !== undefined) return { model: cheapest.id, reason: 'cheapest' };
  return { model: (for_text[0] ?? first).id, reason: 'first' };
}

/** The models in a list response of any API; `undefined` for another or an incomplete response. */
export function listedModels({
  status,
  fault,
  json,
}: Pick<Answer, 'status' | 'fault' | 'json'>): ListedModel[] | undefined {
  const { data, models } = fieldsOf(json);
  const entries = [data, models].find((list) => Array.isArray(list));
  if (status !== 200 || fault !== undefined || entries === undefined) return undefined;
  return entries.slice(0, MODELS_MAX).flatMap((value): ListedModel[] => {
    const entry = fieldsOf(value);
    const id = entry.id ?? entry.slug;
    const window = entry.context_window ?? entry.max_input_tokens;
    if (typeof id !== 'string' || id === '' || id.length > ID_LENGTH_MAX || !isPrintableLine(id)) return [];
    return [{ id, price: listedPrice(entry), context_window: isCount(window) && window > 0 ? window : undefined }];
  });
}

/** Price of a model. */
export interface Price {
  readonly input_usd_per_million: number;
  readonly output_usd_per_million: number;
}

/** Assumed if the gateway's list has no price: the price of a medium model, at which all checks except client runs cost less than one cent. */
export const ASSUMED_PRICE: Price = { input_usd_per_million: 3, output_usd_per_million: 15 };

/** The price of the echo upstream. */
export const NO_PRICE: Price = { input_usd_per_million: 0, output_usd_per_million: 0 };

const MILLION = 1e6;
/** Above any price per token: a larger number is a price per million tokens. */
const TOKEN_USD_MAX = 0.01;

/** The price in an entry of a model list, in any format that gateways use; `undefined` without one. */
export function listedPrice(entry: Readonly<Record<string, unknown>>): Price | undefined {
  const { pricing, input_cost_per_token, output_cost_per_token } = entry;
  const { prompt, completion, input, output } = fieldsOf(pricing);
  const input_usd = numberOf(prompt ?? input ?? input_cost_per_token);
  const output_usd = numberOf(completion ?? output ?? output_cost_per_token);
  if (input_usd === undefined || output_usd === undefined) return undefined;
  const factor = Math.max(input_usd, output_usd) > TOKEN_USD_MAX ? 1 : MILLION;
  return { input_usd_per_million: input_usd * factor, output_usd_per_million: output_usd * factor };
}

function numberOf(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return undefined;
  const number = Number(value);
  return Number.isFinite(number) && number >= 0 && number < MILLION ? number : undefined;
}

/** What tokens cost, in USD. */
export function costOf({ input, output }: TokensUsed, price: Price): number {
  return (input * price.input_usd_per_million + output * price.output_usd_per_million) / MILLION;
}

/** Most that the checks cost, and the checks that exceed the budget. */
export type Budget = ReturnType<typeof planCosts>;

/** Selects checks in order until `max_usd` is reached; later, cheaper checks may still fit. */
export function planCosts(checks: readonly SelfCheck[], price: Price, max_usd: number) {
  const total = { requests: 0, input_tokens: 0, output_tokens: 0, usd: 0 };
  const too_dear = new Map<SelfCheck, number>();
  for (const check of checks) {
    const { uses } = check;
    if (uses === undefined) continue;
    const usd = costOf(uses, price);
    if (total.usd + usd > max_usd) {
      too_dear.set(check, usd);
      continue;
    }
    total.requests += uses.requests ?? 1;
    total.input_tokens += uses.input;
    total.output_tokens += uses.output;
    total.usd += usd;
  }
  return { ...total, too_dear };
}
