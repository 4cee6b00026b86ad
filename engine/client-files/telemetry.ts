import {
  exporterVariable,
  SIGNALS,
  type Signal,
  telemetryVariables,
  tracesVariable,
} from '../contract/client-telemetry.ts';
import type { MessagesClientNames } from '../contract/config.ts';
import { isTable, type Values } from './broken-file.ts';
import type { ClientWish, Credential } from './draft.ts';
import { callsHelper, HELPER_KEEP_MS } from './key-helper.ts';

/** The variable with what every client sends along with its telemetry; it wins over what a file says. */
export const HEADERS_VARIABLE = 'OTEL_EXPORTER_OTLP_HEADERS';

/** The setting that names the command which prints these headers. */
const HEADERS_HELPER = 'otelHeadersHelper';

/** Begins the value of the variable; a token is behind it. */
export const BEARER_HEADER = 'Authorization=Bearer ';

/** Variables that win over what the file of a client says about telemetry. */
const DECISIVE = {
  messages: /^OTEL_EXPORTER_OTLP_(?:METRICS|LOGS|TRACES)_(?:ENDPOINT|HEADERS|PROTOCOL)$/,
  'coding-cli': /^OTEL_EXPORTER_OTLP_(?:(?:METRICS|LOGS|TRACES)_)?HEADERS$/,
  'build-cli':
    /^OTEL_(?:EXPORTER_OTLP_(?:(?:METRICS|LOGS)_)?(?:ENDPOINT|PROTOCOL)|(?:METRICS|LOGS)_EXPORTER|LOG_[A-Z_]+)$/,
} as const;

type Telling = Pick<ClientWish, 'root_url' | 'credential' | 'telemetry'>;

/** A token behind it, with what would end a header in a list of them written as a URL has it. */
function headerOf(token: string): string {
  return BEARER_HEADER + token.replace(/[%,;"\\]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/**
 * The settings of the Messages client about its telemetry; nothing where they stay as they are.
 * @param renews whether the client sends to the gateway already, and only its credential changes
 */
export function messagesTelemetry(
  { root_url, credential, telemetry = [] }: Telling,
  { feature_prefix }: Pick<MessagesClientNames, 'feature_prefix'>,
  { helper_line, renews = false }: { readonly helper_line?: string | undefined; readonly renews?: boolean },
): { readonly env: Record<string, string>; readonly settings: Record<string, string> } {
  if (telemetry.length === 0 && !renews) return { env: {}, settings: {} };
  const env = renews ? {} : telemetryVariables(telemetry, { address: root_url, feature_prefix });
  if ('token' in credential) return { env: { ...env, [HEADERS_VARIABLE]: headerOf(credential.token) }, settings: {} };
  if (helper_line === undefined) return { env, settings: {} };
  const keep = { [helperTimeVariable(feature_prefix)]: String(HELPER_KEEP_MS) };
  return { env: { ...env, ...keep }, settings: { [HEADERS_HELPER]: helper_line } };
}

/** What a shell is told about the telemetry of the Messages client, but for its credential. */
export function shellTelemetry(
  wish: Telling,
  names: Pick<MessagesClientNames, 'feature_prefix'>,
): Record<string, string> {
  // Whatever else was set in a shell is also that of other programs.
  if (wish.telemetry?.length === 0) return { [`${names.feature_prefix}_ENABLE_TELEMETRY`]: '0' };
  return messagesTelemetry(wish, names, {}).env;
}

/** Whether the credential of telemetry that goes to the gateway already changes with that of the client. */
export function renewsTelemetry(
  { root_url, credential, telemetry }: Telling,
  { feature_prefix }: Pick<MessagesClientNames, 'feature_prefix'>,
  found: Readonly<Record<string, unknown>>,
): boolean {
  // What is in a variable is not in the file, and whoever has it there can go on as before.
  if (telemetry !== undefined || 'variable' in credential) return false;
  const helper = found[HEADERS_HELPER];
  if (helper !== undefined && !callsHelper(helper, root_url)) return false;
  return messagesSignals(found, { root_url, feature_prefix }).length > 0;
}

const helperTimeVariable = (feature_prefix: string) => `${feature_prefix}_OTEL_HEADERS_HELPER_DEBOUNCE_MS`;

/** What of the settings has to go, given what they say: other ways to a credential, or everything about our telemetry. */
export function unwantedTelemetry(
  { root_url, credential, telemetry }: Telling,
  { feature_prefix }: Pick<MessagesClientNames, 'feature_prefix'>,
  found: Readonly<Record<string, unknown>>,
): string[][] {
  const renews = renewsTelemetry({ root_url, credential, telemetry }, { feature_prefix }, found);
  if (telemetry === undefined && !renews) return [];
  const variables = (names: readonly string[]) => names.map((name) => ['env', name]);
  const helper = [[HEADERS_HELPER], ...variables([helperTimeVariable(feature_prefix)])];
  if (telemetry === undefined || telemetry.length > 0) {
    const literal = 'token' in credential ? [] : variables([HEADERS_VARIABLE]);
    const traces =
      telemetry === undefined || telemetry.includes('traces') ? [] : variables([tracesVariable(feature_prefix)]);
    return [...traces, ...literal, ...('helper' in credential ? [] : helper)];
  }
  const env = isTable(found.env) ? found.env : {};
  if (env.OTEL_EXPORTER_OTLP_ENDPOINT !== root_url) return [];
  const names = Object.keys(telemetryVariables(SIGNALS, { address: root_url, feature_prefix }));
  return [...variables([...names, HEADERS_VARIABLE]), ...(callsHelper(found[HEADERS_HELPER], root_url) ? helper : [])];
}

/** The signals that settings of the Messages client send to a gateway. */
export function messagesSignals(
  found: Readonly<Record<string, unknown>>,
  { root_url, feature_prefix }: { readonly root_url: string; readonly feature_prefix: string },
): Signal[] {
  const env = isTable(found.env) ? found.env : {};
  const is_on = env[`${feature_prefix}_ENABLE_TELEMETRY`] === '1' && env.OTEL_EXPORTER_OTLP_ENDPOINT === root_url;
  return SIGNALS.filter((signal) => is_on && env[exporterVariable(signal)] === 'otlp');
}

/** Keys of the coding CLI's section about telemetry, by signal. */
const EXPORTERS = { metrics: 'metrics_exporter', logs: 'exporter', traces: 'trace_exporter' } as const;

/** How that section says that signals are sent by HTTP. */
const BY_HTTP = 'otlp-http';

/** The coding CLI's section about telemetry; where that stays as it is, with the credential of today. */
export function codingTelemetry(
  { root_url, credential, telemetry }: Telling,
  found: Readonly<Record<string, unknown>>,
): Values {
  if (telemetry === undefined) return renewedExporters(codingSignals(found, root_url), credential);
  if (telemetry.length === 0) return {};
  // A header given in both places is sent as the variable has it.
  const headers = 'token' in credential ? { headers: { authorization: `Bearer ${credential.token}` } } : {};
  const exporters = telemetry.map((signal) => [
    EXPORTERS[signal],
    { [BY_HTTP]: { endpoint: `${root_url}/v1/${signal}`, protocol: 'binary', ...headers } },
  ]);
  return { otel: { log_user_prompt: false, ...Object.fromEntries(exporters) } };
}

function renewedExporters(signals: readonly Signal[], credential: Credential): Values {
  if (signals.length === 0 || !('token' in credential)) return {};
  const headers = { authorization: `Bearer ${credential.token}` };
  return { otel: Object.fromEntries(signals.map((signal) => [EXPORTERS[signal], { [BY_HTTP]: { headers } }])) };
}

/** What of that section has to go: exporters of another kind or to another place where ours come, those of ours that are not wanted. */
export function unwantedExporters(
  { root_url, credential, telemetry }: Telling,
  found: Readonly<Record<string, unknown>>,
): string[][] {
  if (telemetry === undefined) return [];
  const otel = isTable(found.otel) ? found.otel : {};
  const ours = codingSignals(found, root_url);
  const drops = SIGNALS.flatMap((signal) => {
    const key = EXPORTERS[signal];
    const path = ['otel', key];
    if (!telemetry.includes(signal)) return ours.includes(signal) ? [path] : [];
    const exporter = otel[key];
    const is_alike = isTable(exporter) && Object.keys(exporter).every((kind) => kind === BY_HTTP);
    // Headers for somebody else's collector may hold a secret of theirs.
    if (!is_alike || !ours.includes(signal)) return exporter === undefined ? [] : [path];
    return 'token' in credential ? [] : [[...path, BY_HTTP, 'headers']];
  });
  const is_over = telemetry.length === 0 && ours.length > 0 && otel.log_user_prompt === false;
  return is_over ? [...drops, ['otel', 'log_user_prompt']] : drops;
}

/** The signals that a file of the coding CLI sends to a gateway. */
export function codingSignals(found: Readonly<Record<string, unknown>>, root_url: string): Signal[] {
  const otel = isTable(found.otel) ? found.otel : {};
  return SIGNALS.filter((signal) => {
    const exporter = otel[EXPORTERS[signal]];
    const by_http = isTable(exporter) ? exporter[BY_HTTP] : undefined;
    return isTable(by_http) && by_http.endpoint === `${root_url}/v1/${signal}`;
  });
}

/** The build CLI's section about telemetry, which knows no traces; nothing where it stays as it is. */
export function buildTelemetry({ root_url, telemetry = [] }: Telling): Values {
  if (telemetry.length === 0) return {};
  const exporter = (signal: Signal) => (telemetry.includes(signal) ? 'otlp' : 'none');
  return {
    telemetry: {
      otel_enabled: true,
      otel_metrics_exporter: exporter('metrics'),
      otel_logs_exporter: exporter('logs'),
      otel_endpoint: root_url,
      otel_protocol: 'http/protobuf',
      otel_log_user_prompts: false,
      otel_log_assistant_responses: false,
      otel_log_tool_details: false,
      otel_log_tool_content: false,
    },
  };
}

/** What of that section has to go where nothing is to be sent to the gateway. */
export function unwantedBuildTelemetry(
  wish: Pick<Telling, 'root_url' | 'telemetry'>,
  found: Readonly<Record<string, unknown>>,
): string[][] {
  const is_over = wish.telemetry?.length === 0 && buildSignals(found, wish.root_url).length > 0;
  if (!is_over) return [];
  const keys = Object.keys(
    buildTelemetry({ root_url: '', credential: { sign_in: true }, telemetry: SIGNALS }).telemetry!,
  );
  return keys.map((key) => ['telemetry', key]);
}

/** The signals that a file of the build CLI sends to a gateway. */
export function buildSignals(found: Readonly<Record<string, unknown>>, root_url: string): Signal[] {
  const table = isTable(found.telemetry) ? found.telemetry : {};
  const is_on = table.otel_enabled === true && table.otel_endpoint === root_url;
  return SIGNALS.filter((signal) => is_on && table[`otel_${signal}_exporter`] === 'otlp');
}

/** Variables that are set and win over what the file of a client says about telemetry. */
export function telemetryWarnings(
  client: keyof typeof DECISIVE,
  { telemetry = [] }: Pick<Telling, 'telemetry'>,
  set: Readonly<Record<string, unknown>>,
  where: string,
): string[] {
  if (telemetry.length === 0) return [];
  return Object.keys(set)
    .filter((name) => DECISIVE[client].test(name) && set[name] !== undefined && set[name] !== '')
    .map((name) => `${name} is set in ${where}: remove it, or it decides over the client's telemetry`);
}

/** How a client that reads its headers from the variable alone is started so that the gateway knows who it is. */
export function howToAuthenticate(credential: Credential, root_url: string): string {
  const value =
    'variable' in credential
      ? `$${credential.variable}`
      : 'helper' in credential
        ? `$(appscli token --base-url ${root_url})`
        : '<API_KEY>';
  const ends = 'helper' in credential ? ' It is good as long as that token is; one of tokens create lasts longer.' : '';
  return `The client takes the credential of its telemetry from its environment alone, for example ${HEADERS_VARIABLE}="${BEARER_HEADER}${value}".${ends}`;
}
