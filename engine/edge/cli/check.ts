import type { GatewayConfig } from '../../base/contract/config.ts';
import { StageNotCreated } from '../../base/contract/start-error.ts';
import { frozenClock } from '../../base/kit/clock.ts';
import { formatUsd, nanoToUsd } from '../../base/kit/money.ts';
import { jsonText, printableLines } from '../../base/kit/text/printable.ts';
import { escapeData, renderDiagnostics } from '../../base/source/diagnostics/render.ts';
import { type Overshoot, overshootBound } from '../../domain/budget/limits/overshoot.ts';
import { type CheckedPaths, loadPaths, type PathOptions } from '../../pipeline/load/paths.ts';
import type { PlanObserver } from '../../pipeline/run/compiled.ts';
import { diagnosisOf, type LiveCheck } from '../doctor/host/live/probe.ts';
import {
  type CommandContext,
  type CommandRow,
  choice,
  EXIT_FINDINGS,
  EXIT_OK,
  option,
  seconds,
  usageError,
} from './commands.ts';
import { counted, paragraph } from './output.ts';
import { renderCheck } from './report.ts';

/** Memory to parse one large body, as a multiple of its size: text, values, garbage. One is parsed at a time. */
const READING_FACTOR = 6;

/** Measured upper limit of an idle client connection. */
const CONNECTION_BYTES = 40 * 1024;

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

export interface CheckOptions {
  readonly paths: readonly string[];
  readonly config?: string;
  readonly format: 'text' | 'json' | 'github';
  readonly denyWarnings?: boolean;
  readonly verbose?: boolean;
  readonly live?: boolean;
  readonly timeout?: number;
  readonly cwd?: string;
}

function parts({ gateways, pipelines, fragments, policies, tests }: CheckedPaths): string {
  const configs = gateways.map(({ config }) => config);
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

const block = (text: string, indent = '') => printableLines(paragraph(text, indent, `${indent}  `));

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
  const why = `each by overshoot_percent, or by the most that one request can cost${one ?? ''} if that is more; the same applies to limits that are set at run time; reserve: worst_case makes it 0`;
  const unbounded = `treated as unbounded: requests with only max_completion_tokens, at ${unbounded_at.join(', ')} (\`enforces\`)`;
  return [
    block(`spend limits: exceeded by at most ${formatUsd(bound_nano_usd)} USD`),
    ...(limits.length === 0 ? [] : [block(`each at most: ${bounds.join(', ')}`, '  '), block(why, '  ')]),
    block(`not bounded: ${not_bounded.join(', ')}`, '  '),
    ...(unbounded_at.length === 0 ? [] : [block(unbounded, '  ')]),
  ].join('');
}

const inMib = (bytes: number) => `${Math.ceil(bytes / 1024 ** 2)} MiB`;

function describeMemory(gateway: CheckedPaths['gateways'][number]): string {
  const { buffered, reading, bodies, connections, of_connections } = memoryBound(gateway);
  const why = `buffered_bytes, ${inMib(buffered)}, and ${inMib(reading)} to read one body at a time`;
  const each = `${connections} of ${CONNECTION_BYTES / 1024} KiB`;
  return `${block(`memory for bodies: at most ${inMib(bodies)} (${why})`)}memory for connections: at most ${inMib(of_connections)} (${each})\n`;
}

function statistics({ gateways }: CheckedPaths): string {
  return [
    ...new Set([
      ...gateways.map(({ config, pipelines }) => describeOvershoot(overshootBound(config, pipelines))),
      ...gateways.map(describeMemory),
    ]),
  ].join('');
}

function describeVerdict(
  checked: CheckedPaths,
  failed: boolean,
  errors: number,
  warnings: number,
  live: readonly LiveCheck[] | undefined,
  is_live: boolean,
): string {
  const found = [errors > 0 && counted(errors, 'error'), warnings > 0 && counted(warnings, 'warning')].filter(Boolean);
  const fine = live?.filter(({ ok }) => ok).length;
  const services =
    live === undefined
      ? 'skipped because of errors'
      : live.length === 0
        ? 'nothing to check without a gateway.yaml; name it with --config'
        : `${fine} of ${live.length} services are ok`;
  const code = checked.diagnostics[0]?.code;
  const more = code === undefined ? [] : [`see appscli explain ${code}`];
  const reached = is_live ? [`live: ${services}`] : [];
  if (errors > 0) return block([found.join(', '), ...reached, ...more].join('; '));
  const verdict = block([`${failed ? 'failed' : 'ok'}: ${parts(checked)}`, ...found, ...reached].join('; '));
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
  const document = { ...JSON.parse(findings), spend_limits, memory, ...(live && { live }) };
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

const checkServices = async (config: GatewayConfig, env: NodeJS.ProcessEnv, timeout?: number) =>
  (await import('../doctor/host/live/check-live.ts')).checkLive(config, env, timeout);

/** Checks configuration files; contacts services only if the files have no errors. Returns the exit code: 0, or 1. */
export async function runCheck(
  { terminal, env, stages }: CommandContext,
  options: CheckOptions,
  ask: typeof checkServices = checkServices,
): Promise<number> {
  const { format, live: is_live = false, cwd = process.cwd(), timeout } = options;
  if (timeout !== undefined && !is_live) throw usageError('--timeout needs --live');
  const environment = is_live ? 'required' : 'ignored';
  const checked = await loadPaths(options.paths, {
    ...{ stages: await stages(), env, environment, tryStages },
    ...(options.config !== undefined && { config: options.config }),
  });
  const { diagnostics, sources } = checked;
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const live =
    errors > 0 || !is_live
      ? undefined
      : (await Promise.all(checked.gateways.map(({ config }) => ask(config, env, timeout)))).flat();
  const is_reached = !is_live || (live !== undefined && live.length > 0 && live.every(({ ok }) => ok));
  const failed = errors > 0 || !is_reached || (options.denyWarnings === true && warnings > 0);
  const color = terminal.data_color;
  const findings = renderDiagnostics(diagnostics, { format, color, sources, cwd });
  if (format === 'json') {
    terminal.data(asJson(checked, findings, live));
  } else {
    if (findings !== '') terminal.data(findings);
    const reached = live === undefined ? '' : renderLive(live, { format, color });
    if (reached !== '') terminal.data(`${findings === '' || format === 'github' ? '' : '\n'}${reached}`);
    if (findings + reached !== '') terminal.info('\n');
    if (options.verbose && errors === 0 && checked.gateways.length > 0) terminal.info(`${statistics(checked)}\n`);
    terminal.info(describeVerdict(checked, failed, errors, warnings, live, is_live));
  }
  return failed ? EXIT_FINDINGS : EXIT_OK;
}

export function renderLive(
  checks: readonly LiveCheck[],
  { format, color }: { readonly format: 'text' | 'github'; readonly color: boolean },
): string {
  if (format === 'github') return checks.flatMap(renderGithub).join('');
  return checks
    .map((check) => ({ ...diagnosisOf({ id: '', title: check.name }, check), duration_ms: check.duration_ms }))
    .map((result) => renderCheck(result, color, true))
    .join('');
}

function renderGithub({ name, ok, what, help, warnings = [] }: LiveCheck): string[] {
  const failure = ok
    ? []
    : [`error title=live::${escapeData(`${name}: ${what}${help === undefined ? '' : `; ${help}`}`)}`];
  const doubts = warnings.map((text) => `warning title=live::${escapeData(`${name}: ${text}`)}`);
  return [...failure, ...doubts].map((command) => `::${command}\n`);
}

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
      option('--verbose', 'also print bounds of spending and memory'),
    ],
    place: 'configuration',
    asks_config_named: true,
    examples: [
      'appscli check --config gateway.yaml',
      'appscli check examples/ pipelines/models.yaml',
      'appscli check --live',
      'appscli check --format github --deny-warnings',
    ],
    // A configuration that is not named is checked only without paths.
    run(context, options: CheckOptions & { readonly config_named: boolean }) {
      const { config: _, ...unnamed } = options;
      return runCheck(context, options.config_named || options.paths.length === 0 ? options : unnamed);
    },
  },
];
