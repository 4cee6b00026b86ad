import { skipped } from '../../../base/contract/checks.ts';
import { systemClock } from '../../../base/kit/clock.ts';
import { parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { wayTo } from '../../../base/kit/net/way.ts';
import { printableLines } from '../../../base/kit/text/printable.ts';
import { didYouMean } from '../../../base/kit/text/suggest.ts';
import { chooseBaseUrl, withoutApiPath } from '../../client/base-url.ts';
import { openCredentials } from '../../client/credentials.ts';
import { freshCredentials } from '../../client/fresh-credentials.ts';
import { createAsk } from '../../client/http.ts';
import { clientNames } from '../../client-files/names.ts';
import { createAsker, isUnreachable, NotAsked, noAnswer, proxyNotes } from '../../selfcheck/ask.ts';
import { NO_MODEL, type SelfCheck, type SelfCheckOutcome, type Subject } from '../../selfcheck/check.ts';
import { CHECKS } from '../../selfcheck/checks.ts';
import { ECHO_MODEL, type EchoPlace, openEcho } from '../../selfcheck/echo/open-echo.ts';
import { reachesEcho } from '../../selfcheck/forwarding.ts';
import {
  ASSUMED_PRICE,
  type Budget,
  type ChosenModel,
  chooseModel,
  NO_PRICE,
  type Price,
  type PriceSource,
  planCosts,
} from '../../selfcheck/models.ts';
import { runChecks } from '../../selfcheck/run.ts';
import { secretHider, withoutSecrets } from '../../selfcheck/without-secrets.ts';
import { counted } from '../amounts.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_UNAVAILABLE, usageError } from '../exit-codes.ts';
import { profileFilesInUse, profileOf } from '../profiles.ts';
import { warner } from '../program-name.ts';
import { openReport, type Report, type ReportOptions } from '../report/report.ts';
import { say } from '../show.ts';
import { formatTable, numbers } from '../table.ts';

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,199}$/;
const TOKEN = /^[\x21-\x7e]{1,8192}$/;

/** The token in a variable that an option names. Raises StartError, which never repeats what may be a token. */
function tokenIn(variable: string, option: string, env: NodeJS.ProcessEnv): string {
  if (!VARIABLE.test(variable) || variable.startsWith('gw_')) {
    throw usageError(
      `${option} takes the name of an environment variable, not a token; if that was one, revoke it: your shell may have kept it`,
    );
  }
  const token = (env[variable] ?? '').trim();
  if (token === '') throw usageError(`${option} names ${variable}, and that is not set`);
  if (TOKEN.test(token)) return token;
  throw usageError(
    `${option} names ${variable}, and what that holds is no token: it has spaces or other odd characters`,
  );
}

/** What `appscli selfcheck` is told. */
export interface SelfcheckOptions extends ReportOptions {
  readonly baseUrl?: string;
  readonly tokenEnv?: string;
  readonly model?: string;
  readonly limitTokenEnv?: string;
  readonly echo?: true | string;
  readonly profile?: string;
  readonly only?: readonly string[];
  readonly maxUsd: number;
  readonly timeout: number;
  readonly list?: true;
}

/** For all requests together, as a multiple of what one may take. */
const TOTAL_FACTOR = 10;

/** `appscli selfcheck`: asks a gateway, and reports what it does and does not. */
export async function selfcheck(
  context: CommandContext,
  given: SelfcheckOptions,
  all: readonly SelfCheck[] = CHECKS,
): Promise<number> {
  const checks = checksNamed(all, given.only);
  if (given.list) return list(context, checks);
  const { env } = context;
  const { timeout: seconds, limitTokenEnv } = given;
  const { root_url, given_url } = gatewayOf(given.baseUrl, context);
  const echo_place = echoPlaceOf(given.echo);
  const profiles = profileFilesInUse(given.profile).map(profileOf);
  const limit_token = limitTokenEnv === undefined ? undefined : tokenIn(limitTokenEnv, '--limit-token-env', env);
  const token = await tokenOf(given.tokenEnv, root_url, context);
  const header_prefixes = profiles.map(({ header_prefix }) => header_prefix);
  const echo = echo_place === undefined ? undefined : await openEcho(echo_place);
  const asker = createAsker({
    ...{ root_url, token, header_prefixes, seconds },
    total_seconds: seconds * TOTAL_FACTOR,
    wayTo: (url) => wayTo(url, env),
  });
  const known: Omit<Subject, 'model'> = {
    ...asker,
    ...{ root_url, given_url, limit_token, header_prefixes, echo },
    clients: { env, names: profiles.map(clientNames), token, seconds: seconds * 2 },
  };
  // Ctrl-C ends the asking, and what is known is still reported.
  const interrupt = () => asker.stop(new NotAsked('it was stopped'));
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, interrupt);
  try {
    return await checkGateway(context, given, {
      checks,
      known,
      secrets: [token, limit_token].filter((each) => each !== undefined),
    });
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    asker.close();
    await echo?.close();
  }
}

async function checkGateway(
  context: CommandContext,
  given: SelfcheckOptions,
  {
    checks,
    known,
    secrets,
  }: {
    readonly checks: readonly SelfCheck[];
    readonly known: Omit<Subject, 'model'>;
    readonly secrets: readonly string[];
  },
): Promise<number> {
  const report = openReport(context, given, { command: 'selfcheck' });
  report.begin('asking for its models');
  let chosen: ChosenModel;
  try {
    chosen = await firstAnswer(known, given);
  } catch (error) {
    return unreachable(error, known, { report, seconds: given.timeout, env: context.env });
  }
  const subject = { ...known, model: chosen.model };
  // A gateway may have put the token into the name of a model.
  const hide = secretHider(secrets);
  const tell = (sentences: readonly string[]) => {
    report.clear();
    if (report.is_text) for (const sentence of sentences) say(context, hide(sentence));
  };
  tell(describeSubject(subject, chosen));
  if (known.echo !== undefined && chosen.model !== undefined) {
    tell([`Asks it for a word, to see whether that reaches the echo upstream at ${known.echo.url}.`]);
  }
  const plan = await makePlan(subject, chosen, { checks, max_usd: given.maxUsd });
  tell([...describeEcho(plan), ...describeCosts(plan), '']);
  const refuse = (check: SelfCheck) => whyNotMade(check, plan);
  const begin = ({ title }: SelfCheck) => report.begin(title);
  for await (const result of runChecks(checks, subject, { begin, refuse, seconds: given.timeout })) {
    report.add(withoutSecrets(result, secrets));
  }
  const exit_code = report.end(factsOf(subject, plan, hide));
  const is_checked = report.results.some(({ verdict }) => verdict !== 'skipped');
  if (!is_checked && report.is_text) say(context, 'Nothing was checked.');
  return is_checked && !known.signal?.aborted ? exit_code : EXIT_FINDINGS;
}

/** The model to ask, by the gateway's list. Rejects where there is nothing that answers. */
async function firstAnswer(known: Omit<Subject, 'model'>, { model }: SelfcheckOptions): Promise<ChosenModel> {
  const wish = { named: model, echo_model: known.echo === undefined ? undefined : ECHO_MODEL };
  try {
    return await chooseModel(known, wish);
  } catch (error) {
    if (await isUnreachable(error, known)) throw error;
    return { model, reason: model === undefined ? undefined : 'named', price: undefined, listed: undefined };
  }
}

function unreachable(
  error: unknown,
  { root_url, given_url = root_url }: Omit<Subject, 'model'>,
  { report, seconds, env }: { readonly report: Report; readonly seconds: number; readonly env: NodeJS.ProcessEnv },
): number {
  const stopped = error instanceof NotAsked;
  const outcome: SelfCheckOutcome = stopped
    ? skipped(`not made: ${error.message}`)
    : { ...noAnswer(error, root_url, seconds), details: proxyNotes(root_url, env) };
  const { host } = new URL(root_url);
  report.add({ id: 'reach', title: `The gateway at ${host}`, ...outcome, duration_ms: 0 });
  report.end({ base_url: root_url, given_url });
  return stopped ? EXIT_FINDINGS : EXIT_UNAVAILABLE;
}

/** What is about to be done. */
interface Plan {
  readonly chosen: ChosenModel;
  readonly budget: Budget;
  readonly price: Price;
  readonly price_source: PriceSource;
  readonly max_usd: number;
  /** Where the echo upstream listens, and whether the gateway forwards to it. */
  readonly echo: { readonly url: string; readonly is_reached: boolean } | undefined;
}

async function makePlan(
  subject: Subject,
  chosen: ChosenModel,
  { checks, max_usd }: { readonly checks: readonly SelfCheck[]; readonly max_usd: number },
): Promise<Plan> {
  const { echo } = subject;
  const is_reached = echo !== undefined && chosen.model !== undefined && (await reachesEcho(subject, echo));
  const price_source = is_reached ? 'echo' : chosen.price === undefined ? 'assumed' : 'gateway';
  const price = is_reached ? NO_PRICE : (chosen.price ?? ASSUMED_PRICE);
  const made = checks.filter((check) => chosen.model !== undefined && check.skipped?.(subject) === undefined);
  const budget = planCosts(made, price, max_usd);
  return { chosen, budget, price, price_source, max_usd, echo: echo && { url: echo.url, is_reached } };
}

function whyNotMade(check: SelfCheck, { chosen, budget, max_usd }: Plan): SelfCheckOutcome | undefined {
  if (check.uses !== undefined && chosen.model === undefined) return skipped(NO_MODEL);
  const usd = budget.too_dear.get(check);
  if (usd === undefined) return undefined;
  return skipped(`it may cost ${usdText(usd)} USD, and all together would go beyond --max-usd ${max_usd}`, {
    remedy: `--max-usd ${roomFor(budget)} makes all checks`,
  });
}

/** What programs are told beside the checks; the names stay the same in all versions. */
function factsOf(
  { root_url, given_url }: Subject,
  { chosen, budget, price, price_source, max_usd, echo }: Plan,
  hide: (text: string) => string,
) {
  const { requests, input_tokens, output_tokens, usd } = budget;
  return {
    base_url: root_url,
    given_url,
    model: chosen.model === undefined ? null : hide(chosen.model),
    model_reason: chosen.reason ?? null,
    models_listed: chosen.listed ?? null,
    echo: echo ?? null,
    costs_at_most: { usd, requests, input_tokens, output_tokens, max_usd, price: { source: price_source, ...price } },
  };
}

function list({ terminal }: CommandContext, checks: readonly SelfCheck[]): number {
  const rows = checks.map(({ id, title, uses }) => [id, title, String(uses?.input ?? 0), String(uses?.output ?? 0)]);
  const columns = ['check', { title: 'what is checked', kind: 'brief' as const }, ...numbers('tokens in', 'out')];
  terminal.data(printableLines(formatTable(columns, rows, terminal.table_columns)));
  return EXIT_OK;
}

/** What people are told at the beginning, a sentence or two each. */
function describeSubject({ root_url, given_url = root_url }: Subject, chosen: ChosenModel): string[] {
  const taken_off = given_url.slice(root_url.length);
  const off = `The address was given with ${taken_off}, which is left off here: paths are put behind it.`;
  return [`Checks ${root_url} with ${describeModel(chosen)}.`, ...(taken_off === '' ? [] : [off])];
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
  const number = (value: number) => value.toLocaleString('en-US');
  const asked = `${counted(requests, 'request')} to the model, ${number(input_tokens)} tokens in and ${number(output_tokens)} out`;
  if (price_source === 'echo') return [`Costs nothing: ${asked}, all answered by the echo upstream.`];
  const { input_usd_per_million, output_usd_per_million } = price;
  const rate = `${input_usd_per_million} USD for a million in and ${output_usd_per_million} out`;
  const source = price_source === 'gateway' ? 'as the gateway says' : 'which is assumed: the gateway tells no price';
  const more = `${counted(too_dear.size, 'check')} more would go beyond --max-usd ${max_usd}; --max-usd ${roomFor(budget)} makes all.`;
  return [
    `Costs at most ${usdText(usd)} USD: ${asked}, at ${rate}, ${source}.`,
    ...(too_dear.size === 0 ? [] : [more]),
  ];
}

/** An amount in USD, rounded up so that it stays one that is not passed. */
function usdText(usd: number): string {
  return (Math.ceil(usd * 10_000 - 1e-9) / 10_000).toFixed(4);
}

/** What to allow so that all checks can be made, in USD. */
function roomFor({ usd, too_dear }: Budget): string {
  const all = [...too_dear.values()].reduce((sum, each) => sum + each, usd);
  return (Math.ceil(all * 100 - 1e-9) / 100).toFixed(2);
}

const ECHO_PLACE: EchoPlace = { host: '127.0.0.1', port: 4010 };

/** The gateway that is meant, as it was given and without `/v1`. Raises StartError. */
function gatewayOf(
  given: string | undefined,
  { terminal, env }: CommandContext,
): { readonly root_url: string; readonly given_url: string } {
  const preset = given ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env, warner(terminal)).read().keys()] : [];
  const given_url = chooseBaseUrl(given, env, signed_in, 'taken');
  return { root_url: withoutApiPath(given_url), given_url };
}

/** The token in the variable that was named, else that of the person's sign-in. Raises StartError. */
async function tokenOf(
  variable: string | undefined,
  root_url: string,
  { terminal, env, clock = systemClock }: CommandContext,
): Promise<string> {
  if (variable !== undefined) return tokenIn(variable, '--token-env', env);
  const credentials = openCredentials(env, warner(terminal));
  if (!credentials.read().has(root_url)) {
    throw usageError(
      `which token? Name the environment variable that holds it with --token-env, or sign in: appscli login --base-url ${root_url}`,
    );
  }
  return (await freshCredentials({ credentials, ask: createAsk(), clock, base_url: root_url })).access_token;
}

/** Where the echo upstream listens; `undefined` where there is to be none. Raises StartError. */
function echoPlaceOf(given: true | string | undefined): EchoPlace | undefined {
  if (given === undefined) return undefined;
  if (given === true) return ECHO_PLACE;
  const text = /^\d{1,5}$/.test(given) ? `${ECHO_PLACE.host}:${given}` : given;
  const place = parseListenAddress(text);
  if (place !== undefined) return place;
  throw usageError('--echo takes a host and a port of this machine, such as 127.0.0.1:4010');
}

/** The checks whose ids, or the beginnings of whose ids, were named; all where none was. Raises StartError for unknown ones. */
function checksNamed(checks: readonly SelfCheck[], only: readonly string[] | undefined): readonly SelfCheck[] {
  if (only === undefined) return checks;
  const isNamed = (id: string, name: string) => id === name || id.startsWith(`${name}.`);
  for (const name of only) {
    if (checks.some(({ id }) => isNamed(id, name))) continue;
    const ids = checks.map(({ id }) => id);
    const groups = ids.map((id) => id.split('.', 1)[0]!);
    throw usageError(
      `--only: there is no check ${name}; ${didYouMean(name, [...ids, ...groups], 'appscli selfcheck --list shows them')}`,
    );
  }
  return checks.filter(({ id }) => only.some((name) => isNamed(id, name)));
}
