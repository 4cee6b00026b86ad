import { InvalidArgumentError } from 'commander';
import { skipped } from '../../base/contract/checks.ts';
import { systemClock } from '../../base/kit/clock.ts';
import { parseListenAddress } from '../../base/kit/net/addresses.ts';
import { proxyRouteTo } from '../../base/kit/net/proxy-route.ts';
import { printableLines } from '../../base/kit/text/printable.ts';
import { didYouMean } from '../../base/kit/text/suggest.ts';
import { withoutApiPath } from '../client/base-url.ts';
import { freshCredentials, openCredentials } from '../client/credentials.ts';
import { createAsk } from '../client/http.ts';
import { clientNames } from '../client-files/names.ts';
import { NO_MODEL, type SelfCheck, type SelfCheckOutcome, type Subject } from '../selfcheck/check.ts';
import { CHECKS, reachesEcho } from '../selfcheck/checks.ts';
import { ECHO_MODEL, type EchoPlace, openEcho } from '../selfcheck/echo.ts';
import { ASSUMED_PRICE, type Budget, type ChosenModel, chooseModel, NO_PRICE, planCosts } from '../selfcheck/models.ts';
import { ChecksStopped, createGatewayClient, isUnreachable, noResponse, runChecks } from '../selfcheck/run.ts';
import { secretHider, withoutSecrets } from '../selfcheck/without-secrets.ts';
import { givenUrl, tokenIn } from './client.ts';
import {
  baseUrl,
  type CommandContext,
  type CommandRow,
  EXIT_FINDINGS,
  EXIT_OK,
  EXIT_UNAVAILABLE,
  type Flags,
  numberThat,
  option,
  seconds,
  type Texts,
  usageError,
} from './commands.ts';
import { counted, formatTable, numbers, say } from './output.ts';
import { profileFilesInUse, profileOf } from './profiles.ts';
import { openReport, REPORT_OPTIONS, type Report, type ReportOptions } from './report.ts';
import { warner } from './terminal.ts';

export interface SelfcheckOptions
  extends ReportOptions,
    Texts<'baseUrl' | 'tokenEnv' | 'model' | 'limitTokenEnv' | 'profile'>,
    Flags<'list'> {
  readonly echo?: true | string;
  readonly only?: readonly string[];
  readonly maxUsd: number;
  readonly timeout: number;
}

type Known = Omit<Subject, 'model'>;

const TOTAL_FACTOR = 10;

/** `appscli selfcheck`: runs the conformance checks against a gateway. */
export async function selfcheck(
  context: CommandContext,
  options: SelfcheckOptions,
  all: readonly SelfCheck[] = CHECKS,
): Promise<number> {
  const checks = checksNamed(all, options.only);
  if (options.list) return list(context, checks);
  const { env } = context;
  const { timeout: seconds, limitTokenEnv } = options;
  const given_url = givenUrl(options.baseUrl, env);
  const root_url = withoutApiPath(given_url);
  const echo_place = echoPlaceOf(options.echo);
  const profiles = profileFilesInUse(options.profile).map(profileOf);
  const limit_token = limitTokenEnv === undefined ? undefined : tokenIn(limitTokenEnv, '--limit-token-env', env);
  const token = await tokenOf(options.tokenEnv, root_url, context);
  const header_prefixes = profiles.map(({ header_prefix }) => header_prefix);
  const echo = echo_place === undefined ? undefined : await openEcho(echo_place);
  const gateway = createGatewayClient({
    ...{ root_url, token, header_prefixes, seconds },
    total_seconds: seconds * TOTAL_FACTOR,
    proxyRouteTo: (url) => proxyRouteTo(url, env),
  });
  const known: Known = {
    ...{ ...gateway, root_url, given_url, limit_token, header_prefixes, echo },
    clients: { env, names: profiles.map(clientNames), token, seconds: seconds * 2 },
  };
  const interrupt = () => gateway.stop(new ChecksStopped('stopped'));
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, interrupt);
  try {
    const secrets = [token, limit_token].filter((each) => each !== undefined);
    return await checkGateway(context, options, checks, known, secrets);
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
    gateway.close();
    await echo?.close();
  }
}

async function checkGateway(
  context: CommandContext,
  options: SelfcheckOptions,
  checks: readonly SelfCheck[],
  known: Known,
  secrets: readonly string[],
): Promise<number> {
  const report = openReport(context, options, { command: 'selfcheck' });
  report.begin('requesting the model list');
  let chosen: ChosenModel;
  try {
    chosen = await firstAnswer(known, options);
  } catch (error) {
    return unreachable(error, known, report, options.timeout);
  }
  const subject = { ...known, model: chosen.model };
  // A hostile gateway may put the token into a model name.
  const hide = secretHider(secrets);
  const print = (sentences: readonly string[]) => {
    report.clear();
    if (report.is_text) for (const sentence of sentences) say(context, hide(sentence));
  };
  print(describeSubject(subject, chosen));
  if (known.echo !== undefined && chosen.model !== undefined) {
    print([`Sends a request to see whether it reaches the echo upstream at ${known.echo.url}.`]);
  }
  const plan = await makePlan(subject, chosen, checks, options.maxUsd);
  print([...describeEcho(plan), ...describeCosts(plan), '']);
  const refuse = (check: SelfCheck) => whyNotMade(check, plan);
  const begin = ({ title }: SelfCheck) => report.begin(title);
  for await (const result of runChecks(checks, subject, { begin, refuse, seconds: options.timeout })) {
    report.add(withoutSecrets(result, secrets));
  }
  const exit_code = report.end(factsOf(subject, plan, hide));
  const is_checked = report.results.some(({ verdict }) => verdict !== 'skipped');
  if (!is_checked && report.is_text) say(context, 'No check ran.');
  return is_checked && !known.signal?.aborted ? exit_code : EXIT_FINDINGS;
}

async function firstAnswer(known: Known, { model }: SelfcheckOptions): Promise<ChosenModel> {
  const request = { named: model, echo_model: known.echo === undefined ? undefined : ECHO_MODEL };
  try {
    return await chooseModel(known, request);
  } catch (error) {
    if (isUnreachable(error)) throw error;
    return { model, reason: model === undefined ? undefined : 'named', price: undefined, listed: undefined };
  }
}

function unreachable(
  error: unknown,
  { root_url, given_url = root_url }: Known,
  report: Report,
  seconds: number,
): number {
  const stopped = error instanceof ChecksStopped;
  const outcome = stopped ? skipped(`not run: ${error.message}`) : noResponse(error, root_url, seconds);
  const { host } = new URL(root_url);
  report.add({ id: 'reach', title: `The gateway at ${host}`, ...outcome, duration_ms: 0 });
  report.end({ base_url: root_url, given_url });
  return stopped ? EXIT_FINDINGS : EXIT_UNAVAILABLE;
}

async function makePlan(subject: Subject, chosen: ChosenModel, checks: readonly SelfCheck[], max_usd: number) {
  const { echo } = subject;
  const is_reached = echo !== undefined && chosen.model !== undefined && (await reachesEcho(subject, echo));
  const price_source = is_reached ? 'echo' : chosen.price === undefined ? 'assumed' : 'gateway';
  const price = is_reached ? NO_PRICE : (chosen.price ?? ASSUMED_PRICE);
  const made = checks.filter((check) => chosen.model !== undefined && check.skipped?.(subject) === undefined);
  const budget = planCosts(made, price, max_usd);
  return { chosen, budget, price, price_source, max_usd, echo: echo && { url: echo.url, is_reached } } as const;
}

type Plan = Awaited<ReturnType<typeof makePlan>>;

function whyNotMade(check: SelfCheck, { chosen, budget, max_usd }: Plan): SelfCheckOutcome | undefined {
  if (check.uses !== undefined && chosen.model === undefined) return skipped(NO_MODEL);
  const usd = budget.too_dear.get(check);
  if (usd === undefined) return undefined;
  return skipped(`its cost of up to ${usdText(usd)} USD would exceed --max-usd ${max_usd}`, {
    remedy: `--max-usd ${roomFor(budget)} runs all checks`,
  });
}

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

function describeSubject({ root_url, given_url = root_url }: Subject, chosen: ChosenModel): string[] {
  const taken_off = given_url.slice(root_url.length);
  const off = `Ignores ${taken_off} at the end of the address: the checks add their own paths.`;
  return [`Checks ${root_url} with ${describeModel(chosen)}.`, ...(taken_off === '' ? [] : [off])];
}

function describeModel({ model, reason, listed }: ChosenModel): string {
  if (model === undefined) {
    return `no model: the gateway ${listed === undefined ? 'has no model list' : 'lists none'}, and --model is not set`;
  }
  const why = {
    named: '',
    echo: ' of the echo upstream',
    cheapest: ` (the cheapest of ${listed} on its list; choose another with --model)`,
    first: ` (${listed === 1 ? 'the only one' : `the first of ${listed}`} on its list; choose another with --model)`,
  };
  return `the model ${model}${why[reason ?? 'named']}`;
}

function describeEcho({ echo, chosen }: Plan): string[] {
  if (echo === undefined) return [];
  if (echo.is_reached) return [`The gateway forwards this model to the echo upstream at ${echo.url}.`];
  return [
    `The gateway does not forward ${chosen.model ?? 'a model'} to the echo upstream at ${echo.url}: configure an upstream with that base URL, route a model to it, and name this model with --model.`,
  ];
}

function describeCosts({ budget, price, price_source, max_usd }: Plan): string[] {
  const { requests, input_tokens, output_tokens, usd, too_dear } = budget;
  if (requests === 0 && too_dear.size === 0) return ['Costs nothing: no requests to a model.'];
  const number = (value: number) => value.toLocaleString('en-US');
  const requests_text = `${counted(requests, 'request')} to the model, ${number(input_tokens)} input and ${number(output_tokens)} output tokens`;
  if (price_source === 'echo') return [`Costs nothing: ${requests_text}, all to the echo upstream.`];
  const { input_usd_per_million, output_usd_per_million } = price;
  const rate = `${input_usd_per_million} USD per million input and ${output_usd_per_million} per million output tokens`;
  const source =
    price_source === 'gateway' ? 'by the price list of the gateway' : 'an assumed price: the gateway lists none';
  const more = `${counted(too_dear.size, 'more check')} would exceed --max-usd ${max_usd}; --max-usd ${roomFor(budget)} runs all.`;
  return [
    `Costs at most ${usdText(usd)} USD: ${requests_text}, at ${rate}, ${source}.`,
    ...(too_dear.size === 0 ? [] : [more]),
  ];
}

function usdText(usd: number): string {
  return (Math.ceil(usd * 10_000 - 1e-9) / 10_000).toFixed(4);
}

function roomFor({ usd, too_dear }: Budget): string {
  const all = [...too_dear.values()].reduce((sum, each) => sum + each, usd);
  return (Math.ceil(all * 100 - 1e-9) / 100).toFixed(2);
}

const ECHO_PLACE: EchoPlace = { host: '127.0.0.1', port: 4010 };

async function tokenOf(
  variable: string | undefined,
  root_url: string,
  { terminal, env, clock = systemClock }: CommandContext,
): Promise<string> {
  if (variable !== undefined) return tokenIn(variable, '--token-env', env);
  const credentials = openCredentials(env, warner(terminal));
  if (!credentials.read().has(root_url)) {
    throw usageError(
      `no token: name an environment variable with --token-env, or sign in: appscli login --base-url ${root_url}`,
    );
  }
  return (await freshCredentials({ credentials, ask: createAsk(), clock, base_url: root_url })).access_token;
}

function echoPlaceOf(options: true | string | undefined): EchoPlace | undefined {
  if (options === undefined) return undefined;
  if (options === true) return ECHO_PLACE;
  const text = /^\d{1,5}$/.test(options) ? `${ECHO_PLACE.host}:${options}` : options;
  const place = parseListenAddress(text);
  if (place !== undefined) return place;
  throw usageError('--echo expects a host and port of this machine, such as 127.0.0.1:4010');
}

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

function ids(text: string): readonly string[] {
  const found = text.split(',').map((id) => id.trim());
  if (found.some((id) => !/^[a-z0-9_]+(?:\.[a-z0-9_]+)*$/.test(id))) {
    throw new InvalidArgumentError('Expected ids separated by commas, such as messages.stream,models.');
  }
  return found;
}

const amount = numberThat(/^(?:\d{1,5}(?:\.\d*)?|\.\d+)$/, 'Expected an amount in USD, such as 0.05.');

export const commands: readonly CommandRow[] = [
  {
    options: [
      baseUrl(),
      option('--token-env <name>', 'environment variable with an access token (default: your sign-in)'),
      option('--model <id>', 'model to use (default: the cheapest on its list)'),
      option('--limit-token-env <name>', 'variable with a token whose limit is exhausted, to check the error'),
      option(
        '--echo [host:port]',
        'start an echo upstream for the gateway, and check what arrives (default: 127.0.0.1:4010)',
      ),
      option('--profile <file>', 'names of headers and clients (default: neutral and shipped)'),
      option('--only <ids>', 'run only these checks: ids or prefixes, separated by commas', ids),
      option('--max-usd <amount>', 'most that the checks may cost; 0 runs only free checks', amount).default(0.01),
      option('--timeout <seconds>', 'timeout of each request; ten times as long for the whole run', seconds).default(
        60,
      ),
      option('--list', 'list the checks with their token use, without running them').conflicts('echo'),
      ...REPORT_OPTIONS,
    ],
    notes: `Prints the maximum cost before it uses a model. Sends the token only to the base
URL, and follows no redirects. Exits 1 if a check failed, 64 for a wrong command
line, 69 if the gateway is unreachable.

--echo needs a gateway upstream with that address, and a model routed to it:
name it with --model. This costs nothing.`,
    examples: [
      'appscli selfcheck --base-url https://gw.example.com --token-env GATEWAY_TOKEN',
      'appscli selfcheck --only messages,models.list --max-usd 0',
      'appscli selfcheck --echo 127.0.0.1:4010 --model selfcheck-echo',
    ],
    run: (context, options: SelfcheckOptions) => selfcheck(context, options),
  },
];
