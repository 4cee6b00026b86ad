import { DEFAULT_RETENTION, type GatewayConfig, type RetentionConfig } from '../../base/contract/config.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { StageNotCreated } from '../../base/contract/start-error.ts';
import { frozenClock } from '../../base/kit/clock.ts';
import { formatUsd, nanoToUsd } from '../../base/kit/money.ts';
import { jsonText, printable, printableLines } from '../../base/kit/text/printable.ts';
import { wrapText } from '../../base/kit/text/wrap-text.ts';
import { renderDiagnostics } from '../../base/source/diagnostics/render.ts';
import { mostExpensiveRequest, type Overshoot, overshootBound } from '../../domain/budget/limits/overshoot.ts';
import { CATALOGUE_DATE } from '../../domain/budget/prices/catalogue.ts';
import { type CheckedPaths, loadPaths, type PathOptions } from '../../pipeline/load/paths.ts';
import { SHIPPED_PROFILE } from '../../pipeline/load/profile.ts';
import type { PlanObserver } from '../../pipeline/run/compiled.ts';
import type { LiveCheck } from '../doctor/host/live/probe.ts';
import { counted } from './amounts.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { EXIT_FINDINGS, EXIT_OK, usageError } from './exit-codes.ts';
import { choice, option, seconds } from './options.ts';

/**
 * Memory to parse one large body, as a multiple of its size: its text, its parsed values, and garbage of the previous body.
 * Bodies are parsed one at a time.
 */
const READING_FACTOR = 6;

/** Measured upper limit of an idle client connection. */
const CONNECTION_BYTES = 40 * 1024;

/** Upper limit of the memory for bodies, responses and connections, in bytes, in addition to the process itself. */
function memoryBound({ config: { server }, pipelines }: CheckedPaths['gateways'][number]) {
  const { buffered_bytes: buffered, body_bytes, connections } = server.limits;
  const largest = Math.max(...pipelines.map(({ limits }) => limits.body_bytes ?? body_bytes), body_bytes);
  const reading = READING_FACTOR * Math.min(largest, buffered);
  return {
    buffered,
    reading,
    bodies: buffered + reading,
    connections,
    of_connections: connections * CONNECTION_BYTES,
  };
}

/** Options of a check. */
export interface CheckOptions {
  /** gateway.yaml, pipelines, fragments, policies, tests, or directories of them. */
  readonly paths: readonly string[];
  /** Path of a gateway.yaml with any name. */
  readonly config?: string;
  readonly format: 'text' | 'json' | 'github';
  /** Whether warnings cause exit code 1. */
  readonly deny_warnings: boolean;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  /** Whether missing environment variables and certificate files are errors. Ignored by default. */
  readonly environment?: 'required' | 'ignored';
  /** Checks the reachability of a configuration's services. Called for each gateway.yaml if the files have no errors. */
  readonly live?: (config: GatewayConfig) => Promise<readonly LiveCheck[]>;
  readonly color: boolean;
  /** Whether to print bounds of spending and memory. */
  readonly verbose?: boolean;
  /** Base directory of printed paths; the current one by default. */
  readonly cwd?: string;
  data(text: string): void;
  /** Receives the statistics and the verdict. */
  info(text: string): void;
}

function parts({ configs, pipelines, fragments, policies, tests }: CheckedPaths): string {
  const sum = (section: 'models' | 'upstreams') => configs.reduce((total, config) => total + config[section].length, 0);
  const lists_models = configs.some(({ from_model_lists }) => !from_model_lists);
  const named = [
    pipelines.length > 0 && counted(pipelines.length, 'pipeline'),
    configs.length > 0 && (lists_models ? counted(sum('models'), 'model') : 'models by the lists of upstreams'),
    configs.length > 0 && counted(sum('upstreams'), 'upstream'),
    fragments > 0 && counted(fragments, 'fragment'),
    policies > 0 && counted(policies, 'policy file'),
    tests > 0 && counted(tests, 'test file'),
  ];
  return named.filter((part) => part !== false).join(', ');
}

const LINE_WIDTH = 80;
const paragraph = (text: string, indent = '') => printableLines(wrapText(text, LINE_WIDTH, indent, `${indent}  `));

/** By how much spending can exceed limits in USD: the bound of each limit, and its cause. */
function describeOvershoot(overshoot: Overshoot): string {
  const { bound_nano_usd, limits, most_expensive, only_others, not_bounded, unbounded_at = [] } = overshoot;
  if (bound_nano_usd === undefined) {
    return `spend limits: none${only_others ? ' in USD' : ''}, so spending is unbounded\n`;
  }
  const bounds = limits
    .toSorted((a, b) => b.bound_nano_usd - a.bound_nano_usd)
    .map(({ name, bound_nano_usd: own }) => `${name} by ${formatUsd(own)}`);
  const one =
    most_expensive &&
    ` (${formatUsd(most_expensive.cost_nano_usd)} USD: ${most_expensive.model} at ${most_expensive.upstream})`;
  const why = `each by overshoot_percent, or by the most that one request can cost${one ?? ''} if that is more; the same holds for limits that are set at run time; reserve: worst_case makes it 0`;
  const unbounded = `treated as unbounded: requests with only max_completion_tokens, at ${unbounded_at.join(', ')} (\`enforces\`)`;
  return [
    paragraph(`spend limits: exceeded by at most ${formatUsd(bound_nano_usd)} USD`),
    ...(limits.length === 0 ? [] : [paragraph(`each at most: ${bounds.join(', ')}`, '  '), paragraph(why, '  ')]),
    paragraph(`not bounded: ${not_bounded.join(', ')}`, '  '),
    ...(unbounded_at.length === 0 ? [] : [paragraph(unbounded, '  ')]),
  ].join('');
}

const inMib = (bytes: number) => `${Math.ceil(bytes / 1024 ** 2)} MiB`;

function describeMemory({
  buffered,
  reading,
  bodies,
  connections,
  of_connections,
}: ReturnType<typeof memoryBound>): string {
  const why = `buffered_bytes, ${inMib(buffered)}, and ${inMib(reading)} to read one body at a time`;
  const each = `${connections} of ${CONNECTION_BYTES / 1024} KiB`;
  return `${paragraph(`memory for bodies: at most ${inMib(bodies)} (${why})`)}memory for connections: at most ${inMib(of_connections)} (${each})\n`;
}

function describeRetention({ ledger_months, audit_months }: RetentionConfig): string {
  const time = (months: number | 'forever') => (months === 'forever' ? months : counted(months, 'month'));
  const kept = `the ledger ${time(ledger_months)}, the audit log ${time(audit_months)} (about 1.6 KB a request)`;
  return paragraph(`kept: ${kept}; database.retention changes that`);
}

function describeModels({ from_model_lists, upstreams }: GatewayConfig): string {
  if (!from_model_lists) return '';
  const names = upstreams.map(({ name }) => name).join(', ');
  return paragraph(
    `models: without a section \`models\`, the models on the lists of the upstreams (${names}) that the price catalogue (${CATALOGUE_DATE}) contains; check --live reads the lists`,
  );
}

function describeNames({ server }: GatewayConfig): string {
  if (server.profile.clients !== undefined) return '';
  return paragraph(
    `client names: neutral, which no real client uses; set server.profile: ${SHIPPED_PROFILE} for claude, codex and grok`,
  );
}

/** `--verbose`: bounds of spending and memory, and retention. */
function statistics({ gateways }: CheckedPaths): string {
  const configs = gateways.map(({ config }) => config);
  return [
    ...new Set([
      ...configs.map(describeModels),
      ...gateways.map(({ config, pipelines }) => describeOvershoot(overshootBound(config, pipelines))),
      ...gateways.map((gateway) => describeMemory(memoryBound(gateway))),
      ...configs.map((config) => describeUnknownBills(unknownBills(config))),
      ...configs.map(describeNames),
      ...configs.map(({ database }) => describeRetention(database.retention ?? DEFAULT_RETENTION)),
    ]),
  ].join('');
}

/** Facts of the last line. */
interface Verdict {
  readonly failed: boolean;
  readonly errors: number;
  readonly warnings: number;
  /** Results of `--live`; `undefined` if it did not run. */
  readonly live: readonly LiveCheck[] | undefined;
  readonly is_live: boolean;
}

function describeVerdict(checked: CheckedPaths, { failed, errors, warnings, live, is_live }: Verdict): string {
  const found = [errors > 0 && counted(errors, 'error'), warnings > 0 && counted(warnings, 'warning')].filter(Boolean);
  const fine = live?.filter(({ ok }) => ok).length;
  const asked_text =
    live === undefined
      ? 'skipped because of errors'
      : live.length === 0
        ? 'nothing to check without a gateway.yaml; name it with --config'
        : `${fine} of ${live.length} services are ok`;
  const code = checked.diagnostics[0]?.code;
  const more = code === undefined ? [] : [`see appscli explain ${code}`];
  const reached = is_live ? [`live: ${asked_text}`] : [];
  if (errors > 0) return paragraph([found.join(', '), ...reached, ...more].join('; '));
  const verdict = paragraph([`${failed ? 'failed' : 'ok'}: ${parts(checked)}`, ...found, ...reached].join('; '));
  return more.map((line) => `${line}\n`).join('') + verdict;
}

function asJson(checked: CheckedPaths, findings: string, live: readonly LiveCheck[] | undefined): string {
  const inUsd = (nano_usd: number | undefined) => (nano_usd === undefined ? null : nanoToUsd(nano_usd));
  const spend_limits = checked.gateways
    .map(({ config, pipelines }) => overshootBound(config, pipelines))
    .map(({ bound_nano_usd, limits, most_expensive, not_bounded, unbounded_at }) => ({
      passed_by_at_most_usd: inUsd(bound_nano_usd),
      limits: limits.map(({ name, bound_nano_usd: own }) => ({ name, passed_by_at_most_usd: inUsd(own) })),
      most_expensive_request_usd: inUsd(most_expensive?.cost_nano_usd),
      not_bounded,
      ...(unbounded_at && { max_completion_tokens_unbounded_at: unbounded_at }),
    }));
  const memory = checked.gateways.map(memoryBound).map(({ bodies, of_connections }) => ({
    bodies_at_most_bytes: bodies,
    connections_at_most_bytes: of_connections,
  }));
  const unknown_bills = checked.gateways.map(({ config }) => {
    const { most_expensive, worst_case, drained, cancelled } = unknownBills(config);
    const off_by_at_most_usd = inUsd(most_expensive?.cost_nano_usd);
    return { drained, cancelled, off_by_at_most_usd, possibly_billed_counts: worst_case };
  });
  const document = { ...JSON.parse(findings), spend_limits, unknown_bills, memory, ...(live && { live }) };
  return `${jsonText(document, 2)}\n`;
}

/** Creates the stages of a configuration with mock services. Ignores failures of stages that use secrets, which are unknown here. */
const tryStages: NonNullable<PathOptions['tryStages']> = async (gateway) => {
  const { buildPlan } = await import('../../pipeline/run/plan.ts');
  const { openMemoryServices } = await import('../simulate/memory/memory-services.ts');
  const loaded = { ...gateway, pipelines: gateway.compiled };
  const around = { upstreams: gateway.config.upstreams, clock: frozenClock(Date.now()), isAway: () => false };
  const { services } = openMemoryServices({ loaded, ...around });
  let has_secret = false;
  const secret = (name: string) => {
    has_secret = true;
    return services.secret(name);
  };
  const observer: PlanObserver = {
    onCreate(_pipeline, _entry, create) {
      has_secret = false;
      return create();
    },
    onGuard() {},
  };
  try {
    await buildPlan(loaded, { ...services, secret }, observer).close();
  } catch (error) {
    if (!(error instanceof StageNotCreated)) throw error;
    return has_secret ? undefined : error;
  }
  return undefined;
};

/**
 * Checks configuration files without running them and prints what was found.
 * @returns the exit code: 0, or 1 when there is something to fix.
 */
export async function runCheck(options: CheckOptions): Promise<number> {
  const { format, deny_warnings, environment = 'ignored', color, cwd = process.cwd(), data, info } = options;
  const checked = await loadPaths(options.paths, { ...options, environment, tryStages });
  const { diagnostics, sources } = checked;
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const { live: reach } = options;
  const is_live = reach !== undefined;
  const live = errors > 0 || !is_live ? undefined : (await Promise.all(checked.configs.map(reach))).flat();
  const is_reached = !is_live || (live !== undefined && live.length > 0 && live.every(({ ok }) => ok));
  const failed = errors > 0 || !is_reached || (deny_warnings && warnings > 0);
  const findings = renderDiagnostics(diagnostics, { format, color, sources, cwd });
  if (format === 'json') {
    data(asJson(checked, findings, live));
  } else {
    if (findings !== '') data(findings);
    const reached = live === undefined ? '' : renderLive(live, { format, color });
    if (reached !== '') data(`${findings === '' || format === 'github' ? '' : '\n'}${reached}`);
    if (findings + reached !== '') info('\n');
    if (options.verbose && errors === 0 && checked.gateways.length > 0) info(`${statistics(checked)}\n`);
    info(describeVerdict(checked, { failed, errors, warnings, live, is_live }));
  }
  return failed ? EXIT_FINDINGS : EXIT_OK;
}

const STATE_WIDTH = 8;
const NO_BREAK = '\u00a0';
const GREEN = 32;
const RED = 31;

/** Live checks as text, or their failures as GitHub workflow commands. */
export function renderLive(
  checks: readonly LiveCheck[],
  options: { readonly format: 'text' | 'github'; readonly color: boolean },
): string {
  if (options.format === 'github') return checks.flatMap(renderGithub).join('');
  const width = Math.max(...checks.map(({ name }) => name.length));
  return checks.map((check) => renderText(check, width, options.color)).join('');
}

function renderText(check: LiveCheck, width: number, color: boolean): string {
  const { name, ok, what, help, warnings = [], notes = [], duration_ms, way } = check;
  const state = (ok ? 'ok' : 'failed').padEnd(STATE_WIDTH);
  const painted = color ? `\x1b[${ok ? GREEN : RED};1m${state}\x1b[0m` : state;
  const indent = ' '.repeat(STATE_WIDTH + width + 2);
  const how = `(${duration_ms} ms${way === undefined ? '' : `, ${printable(way)}`})`;
  // Keep parentheses on one line.
  const sentence = wrapText(`${printable(what)} ${how.replaceAll(' ', NO_BREAK)}`, LINE_WIDTH, indent);
  const [first = '', ...rest] = sentence.map((line) => line.replaceAll(NO_BREAK, ' '));
  const more = [
    ...(help === undefined ? [] : [`help: ${help}`]),
    ...warnings.map((text) => `warning: ${text}`),
    ...notes.map((text) => `note: ${text}`),
  ];
  const lines = more.flatMap((text) => wrapText(printable(text), LINE_WIDTH, indent));
  return [`${painted}${name.padEnd(width)}  ${first.trimStart()}`, ...rest, ...lines]
    .map((line) => `${line}\n`)
    .join('');
}

function renderGithub({ name, ok, what, help, warnings = [] }: LiveCheck): string[] {
  const failure = ok
    ? []
    : [`error title=live::${escaped(`${name}: ${what}${help === undefined ? '' : `; ${help}`}`)}`];
  const doubts = warnings.map((text) => `warning title=live::${escaped(`${name}: ${text}`)}`);
  return [...failure, ...doubts].map((command) => `::${command}\n`);
}

function escaped(text: string): string {
  return printable(text).replaceAll('%', '%25').replaceAll('\n', '%0A');
}

/**
 * How requests are charged whose usage the gateway may never see: aborted requests, whose responses are drained or cancelled
 * by upstream, and failures of upstreams.
 */
function unknownBills(config: GatewayConfig) {
  const named = (mode: string) =>
    config.upstreams.filter(({ on_client_abort }) => on_client_abort === mode).map(({ name }) => name);
  return {
    drained: named('drain'),
    cancelled: named('cancel'),
    // The error of one charge is at most the cost of the most expensive request.
    most_expensive: mostExpensiveRequest(config),
    worst_case: config.spend_limits?.reserve === 'worst_case',
  };
}

function describeUnknownBills({
  drained,
  cancelled,
  most_expensive,
  worst_case,
}: ReturnType<typeof unknownBills>): string {
  const known = drained.length === 0 ? '' : `the reported usage (${drained.join(', ')}); `;
  const where = drained.length === 0 ? '' : `beyond drain_limits${cancelled.length > 0 ? ', and' : ','} `;
  const at = cancelled.length > 0 ? `where responses are cancelled (${cancelled.join(', ')}), ` : '';
  const usual = worst_case ? 'the most they can cost' : 'what 95 of 100 such requests cost';
  const off =
    most_expensive === undefined ? '' : `, each off by at most ${formatUsd(most_expensive.cost_nano_usd)} USD`;
  const possible = worst_case
    ? 'counts against limits, up to the most that a request can cost'
    : 'is kept apart and counts against no limit';
  return [
    paragraph(`aborted requests: charged ${known}${where}${at}${usual}${off}`),
    paragraph(`failures of upstreams: charged nothing; their possible bill ${possible}`),
  ].join('');
}

/** `appscli check`: checks the paths, and the configuration if it is named or there are no paths. */
async function check(
  context: CommandContext,
  options: {
    readonly config: string;
    readonly config_named: boolean;
    readonly paths: readonly string[];
    readonly format: 'text' | 'json' | 'github';
    readonly denyWarnings?: true;
    readonly verbose?: true;
    readonly live?: true;
    readonly timeout?: number;
  },
): Promise<number> {
  const { terminal, env } = context;
  const { config, config_named, paths, format, live, timeout } = options;
  if (timeout !== undefined && !live) {
    throw usageError('--timeout needs --live');
  }
  return runCheck({
    ...(config_named || paths.length === 0 ? { config } : {}),
    paths,
    format,
    deny_warnings: options.denyWarnings === true,
    verbose: options.verbose === true,
    stages: await context.stages(),
    env,
    environment: live ? 'required' : 'ignored',
    ...(live
      ? { live: async (found) => (await import('../doctor/host/live/check-live.ts')).checkLive(found, env, timeout) }
      : {}),
    color: terminal.data_color,
    data: terminal.data,
    info: terminal.info,
  });
}

/** `appscli check`. */
export const commands: readonly CommandRow[] = [
  {
    arguments: [['[paths...]', 'files or directories to check (default: gateway.yaml, its pipelines and tests)']],
    options: [
      choice('--format <format>', 'output format', ['text', 'json', 'github']).default('text'),
      option('--deny-warnings', 'count warnings as errors'),
      option(
        '--live',
        'also check that database, upstreams and identity provider are reachable, and send a span to the collector',
      ),
      option('--timeout <seconds>', 'with --live: timeout of each check (default: 5)', seconds),
      option('--verbose', 'also print bounds of spending and memory, and retention'),
    ],
    place: 'configuration',
    asks_config_named: true,
    examples: [
      'appscli check --config gateway.yaml',
      'appscli check examples/ pipelines/models.yaml',
      'appscli check --live',
      'appscli check --format github --deny-warnings',
    ],
    run: check,
  },
];
