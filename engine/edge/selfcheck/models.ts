import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isPrintableLine } from '../../base/kit/text/printable.ts';
import { readAnswer } from './answer.ts';
import type { SelfCheck, Subject, TokensUsed } from './check.ts';

/** Why a model was chosen: by `--model`, for the echo upstream, as the cheapest, or as the first on the list. */
type ModelReason = 'named' | 'echo' | 'cheapest' | 'first';

/** The model that checks use. */
export interface ChosenModel {
  readonly model: string | undefined;
  readonly reason: ModelReason | undefined;
  readonly price: Price | undefined;
  readonly listed: number | undefined;
}

const ID_LENGTH_MAX = 200;
/** Models for other purposes than text often come first in a list. */
const FOR_SOMETHING_ELSE =
  /embed|whisper|tts|speech|audio|voice|transcri|realtime|image|dall-?e|diffusion|video|moderation|guard|rerank|ocr/i;

interface Entry {
  readonly id: string;
  readonly price: Price | undefined;
}

/** The named one, else the echo upstream's, the cheapest with a price, or the first listed. Rejects in an outage. */
export async function chooseModel(
  subject: Pick<Subject, 'ask'>,
  request: { readonly named: string | undefined; readonly echo_model: string | undefined },
): Promise<ChosenModel> {
  const entries = await listModels(subject);
  const chosen = choose(entries ?? [], request);
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
  const priced = for_text.flatMap(({ id, price }) =>
    price === undefined ? [] : [{ id, costs: price.input_usd_per_million + price.output_usd_per_million }],
  );
  // Free models often allow only a few requests per minute, which would distort the checks.
  const [cheapest] = priced.filter(({ costs }) => costs > 0).sort((a, b) => a.costs - b.costs);
  if (cheapest !== undefined) return { model: cheapest.id, reason: 'cheapest' };
  return { model: (for_text[0] ?? first).id, reason: 'first' };
}

async function listModels(subject: Pick<Subject, 'ask'>): Promise<Entry[] | undefined> {
  const { status, fault, json } = await readAnswer(await subject.ask({ path: '/v1/models?limit=1000' }));
  const { data } = fieldsOf(json);
  return status === 200 && fault === undefined && Array.isArray(data) ? data.flatMap(entryOf) : undefined;
}

function entryOf(value: unknown): Entry[] {
  const entry = fieldsOf(value);
  const { id } = entry;
  const is_usable = typeof id === 'string' && id !== '' && id.length <= ID_LENGTH_MAX && isPrintableLine(id);
  return is_usable ? [{ id, price: listedPrice(entry) }] : [];
}

/** Price of a model. */
export interface Price {
  readonly input_usd_per_million: number;
  readonly output_usd_per_million: number;
}

/** An assumption if the gateway's list has no price; the echo upstream is free. */
export type PriceSource = 'gateway' | 'assumed' | 'echo';

/** The price of a medium model, at which all checks except client runs cost less than one cent. */
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
export interface Budget {
  readonly requests: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly usd: number;
  readonly too_dear: ReadonlyMap<SelfCheck, number>;
}

/** Selects checks in order until `max_usd` is reached; later, cheaper checks may still fit. */
export function planCosts(checks: readonly SelfCheck[], price: Price, max_usd: number): Budget {
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
