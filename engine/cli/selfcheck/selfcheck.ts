import { clientNames } from '../../client-files/names.ts';
import { wayTo } from '../../kit/net/way.ts';
import { printableLines } from '../../kit/text/printable.ts';
import { type Asker, createAsker, isUnreachable, NotAsked, noAnswer, proxyNotes } from '../../selfcheck/ask.ts';
import { NO_MODEL, type SelfCheck, type SelfCheckOutcome, type Subject } from '../../selfcheck/check.ts';
import { CHECKS } from '../../selfcheck/checks.ts';
import { ASSUMED_PRICE, NO_PRICE, planCosts } from '../../selfcheck/costs.ts';
import { ECHO_MODEL, openEcho } from '../../selfcheck/echo/open-echo.ts';
import { reachesEcho } from '../../selfcheck/forwarding.ts';
import { type ChosenModel, chooseModel } from '../../selfcheck/models.ts';
import { runChecks } from '../../selfcheck/run.ts';
import { secretHider, withoutSecrets } from '../../selfcheck/without-secrets.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS, EXIT_OK, EXIT_UNAVAILABLE } from '../exit-codes.ts';
import { profilesInUse } from '../profiles.ts';
import { openReport, type Report, type ReportOptions } from '../report/report.ts';
import { say } from '../show.ts';
import type { Surroundings } from '../surroundings.ts';
import { formatTable, numbers } from '../table.ts';
import { tokenIn } from '../token-variable.ts';
import { checksNamed, echoPlaceOf, gatewayOf, tokenOf } from './selfcheck-input.ts';
import { describePlan, describeSubject, type Plan, roomFor, usdText } from './selfcheck-text.ts';

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
  surroundings: Surroundings & { readonly checks?: readonly SelfCheck[] } = {},
): Promise<number> {
  const checks = checksNamed(surroundings.checks ?? CHECKS, given.only);
  if (given.list) return list(context, checks);
  const { root_url, given_url } = gatewayOf(given.baseUrl, context);
  const echo_place = echoPlaceOf(given.echo);
  const profiles = profilesInUse(given.profile);
  const limit_token =
    given.limitTokenEnv === undefined ? undefined : tokenIn(given.limitTokenEnv, '--limit-token-env', context.env);
  const token = await tokenOf(given.tokenEnv, root_url, context, surroundings);
  const report = openReport(context, given, { command: 'selfcheck' });
  const header_prefixes = profiles.map(({ header_prefix }) => header_prefix);
  const echo = echo_place === undefined ? undefined : await openEcho(echo_place);
  const asker = createAsker({
    root_url,
    token,
    header_prefixes,
    seconds: given.timeout,
    total_seconds: given.timeout * TOTAL_FACTOR,
    wayTo: (url) => wayTo(url, context.env),
  });
  const known: Omit<Subject, 'model'> = {
    ...asker,
    root_url,
    given_url,
    limit_token,
    header_prefixes,
    echo,
    clients: { env: context.env, names: profiles.map(clientNames), token, seconds: given.timeout * 2 },
  };
  const secrets = [token, ...(limit_token === undefined ? [] : [limit_token])];
  try {
    return await untilInterrupted(asker, () => checkGateway(context, given, { checks, known, report, secrets }));
  } finally {
    asker.close();
    await echo?.close();
  }
}

interface Checking {
  readonly checks: readonly SelfCheck[];
  readonly known: Omit<Subject, 'model'>;
  readonly report: Report;
  readonly secrets: readonly string[];
}

async function checkGateway(
  context: CommandContext,
  given: SelfcheckOptions,
  { checks, known, report, secrets }: Checking,
): Promise<number> {
  report.begin('asking for its models');
  let chosen: ChosenModel;
  try {
    chosen = await firstAnswer(known, given);
  } catch (error) {
    return unreachable(error, known, { report, seconds: given.timeout, env: context.env });
  }
  const subject = { ...known, model: chosen.model };
  const { root_url, given_url = root_url, echo } = subject;
  // A gateway may have put the token into the name of a model.
  const hide = secretHider(secrets);
  const tell = (sentences: readonly string[]) => {
    report.clear();
    if (report.is_text) for (const sentence of sentences) say(context, hide(sentence));
  };
  tell(describeSubject({ root_url, given_url, chosen }));
  if (echo !== undefined && chosen.model !== undefined) {
    tell([`Asks it for a word, to see whether that reaches the echo upstream at ${echo.url}.`]);
  }
  const plan = await makePlan(subject, chosen, { checks, max_usd: given.maxUsd });
  tell([...describePlan(plan), '']);
  const refuse = (check: SelfCheck) => whyNotMade(check, plan);
  const begin = ({ title }: SelfCheck) => report.begin(title);
  for await (const result of runChecks(checks, subject, { begin, refuse, seconds: given.timeout })) {
    report.add(withoutSecrets(result, secrets));
  }
  const exit_code = report.end(factsOf(plan, hide));
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
    ? { verdict: 'skipped', found: `not made: ${error.message}` }
    : { ...noAnswer(error, root_url, seconds), details: proxyNotes(root_url, env) };
  const { host } = new URL(root_url);
  report.add({ id: 'reach', title: `The gateway at ${host}`, ...outcome, duration_ms: 0 });
  report.end({ base_url: root_url, given_url });
  return stopped ? EXIT_FINDINGS : EXIT_UNAVAILABLE;
}

async function makePlan(
  subject: Subject,
  chosen: ChosenModel,
  { checks, max_usd }: { readonly checks: readonly SelfCheck[]; readonly max_usd: number },
): Promise<Plan> {
  const { root_url, given_url = root_url, echo } = subject;
  const is_reached = echo !== undefined && chosen.model !== undefined && (await reachesEcho(subject, echo));
  const price_source = is_reached ? 'echo' : chosen.price === undefined ? 'assumed' : 'gateway';
  const price = is_reached ? NO_PRICE : (chosen.price ?? ASSUMED_PRICE);
  const made = checks.filter((check) => chosen.model !== undefined && check.skipped?.(subject) === undefined);
  return {
    root_url,
    given_url,
    chosen,
    budget: planCosts(made, price, max_usd),
    price,
    price_source,
    max_usd,
    echo: echo && { url: echo.url, is_reached },
  };
}

function whyNotMade(check: SelfCheck, { chosen, budget, max_usd }: Plan): SelfCheckOutcome | undefined {
  if (check.uses !== undefined && chosen.model === undefined) {
    return { verdict: 'skipped', found: NO_MODEL };
  }
  const usd = budget.too_dear.get(check);
  if (usd === undefined) return undefined;
  return {
    verdict: 'skipped',
    found: `it may cost ${usdText(usd)} USD, and all together would go beyond --max-usd ${max_usd}`,
    remedy: `--max-usd ${roomFor(budget)} makes all checks`,
  };
}

/** What programs are told beside the checks; the names stay the same in all versions. */
function factsOf(
  { root_url, given_url, chosen, budget, price, price_source, max_usd, echo }: Plan,
  hide: (text: string) => string,
) {
  const { requests, input_tokens, output_tokens, usd } = budget;
  return {
    base_url: root_url,
    given_url,
    model: chosen.model === undefined ? null : hide(chosen.model),
    model_reason: chosen.reason ?? null,
    models_listed: chosen.listed ?? null,
    echo: echo === undefined ? null : echo,
    costs_at_most: { usd, requests, input_tokens, output_tokens, max_usd, price: { source: price_source, ...price } },
  };
}

/** Lets Ctrl-C end the asking, and still report what is known. */
async function untilInterrupted(asker: Asker, run: () => Promise<number>): Promise<number> {
  const interrupt = () => asker.stop(new NotAsked('it was stopped'));
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, interrupt);
  try {
    return await run();
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
  }
}

function list({ terminal }: CommandContext, checks: readonly SelfCheck[]): number {
  const rows = checks.map(({ id, title, uses }) => [id, title, String(uses?.input ?? 0), String(uses?.output ?? 0)]);
  const columns = ['check', { title: 'what is checked', kind: 'brief' as const }, ...numbers('tokens in', 'out')];
  terminal.data(printableLines(formatTable(columns, rows, terminal.table_columns)));
  return EXIT_OK;
}
