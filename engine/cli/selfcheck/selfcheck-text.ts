import type { Budget, Price, PriceSource } from '../../selfcheck/costs.ts';
import type { ChosenModel } from '../../selfcheck/models.ts';
import { counted } from '../amounts.ts';

/** What is about to be done. */
export interface Plan {
  readonly root_url: string;
  readonly given_url: string;
  readonly chosen: ChosenModel;
  readonly budget: Budget;
  readonly price: Price;
  readonly price_source: PriceSource;
  readonly max_usd: number;
  /** Where the echo upstream listens, and whether the gateway forwards to it. */
  readonly echo: { readonly url: string; readonly is_reached: boolean } | undefined;
}

/** What people are told at the beginning, a sentence or two each. */
export function describeSubject({
  root_url,
  given_url,
  chosen,
}: Pick<Plan, 'root_url' | 'given_url' | 'chosen'>): string[] {
  const taken_off = given_url.slice(root_url.length);
  return [
    `Checks ${root_url} with ${describeModel(chosen)}.`,
    ...(taken_off === ''
      ? []
      : [`The address was given with ${taken_off}, which is left off here: paths are put behind it.`]),
  ];
}

/** What people are told before anything is spent, a sentence or two each. */
export function describePlan(plan: Plan): string[] {
  return [...describeEcho(plan), ...describeCosts(plan)];
}

function describeModel({ model, reason, listed }: ChosenModel): string {
  if (model === undefined) {
    return `no model: it ${listed === undefined ? 'gives no list of models' : 'lists none'}, and --model names none`;
  }
  const why = {
    named: '',
    echo: ' of the echo upstream',
    cheapest: ` (the cheapest of ${listed} that it lists; --model names another)`,
    first: ` (${listed === 1 ? 'the only one' : `the first of ${listed}`} that it lists; --model names another)`,
  };
  return `the model ${model}${why[reason ?? 'named']}`;
}

function describeEcho({ echo, chosen }: Plan): string[] {
  if (echo === undefined) return [];
  if (echo.is_reached) return [`The gateway forwards this model to the echo upstream at ${echo.url}.`];
  return [
    `The gateway does not forward ${chosen.model ?? 'a model'} to the echo upstream at ${echo.url}: give it an upstream with that address as base URL, a route to it for a model, and name this model with --model.`,
  ];
}

function describeCosts({ budget, price, price_source, max_usd }: Plan): string[] {
  const { requests, input_tokens, output_tokens, usd, too_dear } = budget;
  if (requests === 0 && too_dear.size === 0) return ['Costs nothing: no model is asked.'];
  const asked = `${counted(requests, 'request')} to the model, ${number(input_tokens)} tokens in and ${number(output_tokens)} out`;
  if (price_source === 'echo') return [`Costs nothing: ${asked}, all answered by the echo upstream.`];
  const { input_usd_per_million, output_usd_per_million } = price;
  const rate = `${input_usd_per_million} USD for a million in and ${output_usd_per_million} out`;
  const source =
    price_source === 'gateway'
      ? `at ${rate}, as the gateway says`
      : `at ${rate}, which is assumed: the gateway tells no price`;
  return [
    `Costs at most ${usdText(usd)} USD: ${asked}, ${source}.`,
    ...(too_dear.size === 0
      ? []
      : [
          `${counted(too_dear.size, 'check')} more would go beyond --max-usd ${max_usd}; --max-usd ${roomFor(budget)} makes all.`,
        ]),
  ];
}

function number(value: number): string {
  return value.toLocaleString('en-US');
}

/** An amount in USD, rounded up so that it stays one that is not passed. */
export function usdText(usd: number): string {
  return (Math.ceil(usd * 10_000 - 1e-9) / 10_000).toFixed(4);
}

/** What to allow so that all checks can be made, in USD. */
export function roomFor({ usd, too_dear }: Budget): string {
  const all = [...too_dear.values()].reduce((sum, each) => sum + each, usd);
  return (Math.ceil(all * 100 - 1e-9) / 100).toFixed(2);
}
