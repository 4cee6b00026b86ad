import {
  exporterVariable,
  SIGNALS,
  type Signal,
  telemetryVariables,
  tracesVariable,
} from '../../base/contract/client-telemetry.ts';
import type { Fields } from '../../base/kit/json/fields.ts';
import { isTable, type Values, valueAt } from './broken-file.ts';
import type { ClientKind, ClientSpec, Credential, Row } from './clients.ts';
import { type ClientPlatform, callsHelper, HELPER_KEEP_MS, headersHelper, helperLine } from './key-helper.ts';
import type { ClientNames } from './names.ts';

/** The variable with the headers of a client's telemetry; it overrides configuration files. */
export const HEADERS_VARIABLE = 'OTEL_EXPORTER_OTLP_HEADERS';
/** Prefix of the variable's value, before the token. */
export const BEARER_HEADER = 'Authorization=Bearer ';
/** The Messages client's setting for a command that prints these headers. */
const HEADERS_HELPER = 'otelHeadersHelper';

const EXPORTERS = { metrics: 'metrics_exporter', logs: 'exporter', traces: 'trace_exporter' } as const;

interface TelemetryTable {
  readonly overrides: RegExp;
  sends(found: Fields, root_url: string, names: ClientNames): Signal[];
  /** Settings that send these signals to the gateway, without content. */
  rows(signals: readonly Signal[], spec: ClientSpec, names: ClientNames, platform: ClientPlatform): Row[];
}

const tokenOf = ({ credential }: ClientSpec) =>
  credential !== undefined && 'token' in credential ? credential.token : undefined;

const TELEMETRY: Readonly<Record<ClientKind, TelemetryTable>> = {
  messages: {
    overrides: /^OTEL_EXPORTER_OTLP_(?:METRICS|LOGS|TRACES)_(?:ENDPOINT|HEADERS|PROTOCOL)$/,
    sends(found, root_url, { messages: { feature_prefix } }) {
      const env = isTable(found.env) ? found.env : {};
      const is_on = env[`${feature_prefix}_ENABLE_TELEMETRY`] === '1' && env.OTEL_EXPORTER_OTLP_ENDPOINT === root_url;
      return SIGNALS.filter((signal) => is_on && env[exporterVariable(signal)] === 'otlp');
    },
    rows(signals, spec, { messages: { feature_prefix } }, platform) {
      const { root_url: address, credential } = spec;
      const token = tokenOf(spec);
      const helper = credential !== undefined && 'helper' in credential ? credential.helper : undefined;
      // Percent-encode characters that would end a header in the list.
      const written = token?.replace(/[%,;"\\]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
      const variables = {
        [tracesVariable(feature_prefix)]: undefined,
        ...telemetryVariables(signals, { address, feature_prefix }),
        [HEADERS_VARIABLE]: written && BEARER_HEADER + written,
        [`${feature_prefix}_OTEL_HEADERS_HELPER_DEBOUNCE_MS`]: helper && String(HELPER_KEEP_MS),
      };
      return [
        { path: [HEADERS_HELPER], value: helper && helperLine(headersHelper(helper), platform) },
        ...Object.entries(variables).map(([name, value]) => ({ path: ['env', name], value })),
      ];
    },
  },
  'coding-cli': {
    overrides: /^OTEL_EXPORTER_OTLP_(?:(?:METRICS|LOGS|TRACES)_)?HEADERS$/,
    sends: (found, root_url) =>
      SIGNALS.filter(
        (signal) => valueAt(found, ['otel', EXPORTERS[signal], 'otlp-http', 'endpoint']) === `${root_url}/v1/${signal}`,
      ),
    rows(signals, spec) {
      const token = tokenOf(spec);
      // The variable overrides this header.
      const headers = token === undefined ? undefined : { headers: { authorization: `Bearer ${token}` } };
      const exporter = (signal: Signal): Values => ({
        'otlp-http': { endpoint: `${spec.root_url}/v1/${signal}`, protocol: 'binary', ...headers },
      });
      return [
        { path: ['otel', 'log_user_prompt'], value: false },
        ...signals.map((signal) => ({ path: ['otel', EXPORTERS[signal]], value: exporter(signal) })),
      ];
    },
  },
  'build-cli': {
    overrides:
      /^OTEL_(?:EXPORTER_OTLP_(?:(?:METRICS|LOGS)_)?(?:ENDPOINT|PROTOCOL)|(?:METRICS|LOGS)_EXPORTER|LOG_[A-Z_]+)$/,
    sends({ telemetry }, root_url) {
      const table = isTable(telemetry) ? telemetry : {};
      const is_on = table.otel_enabled === true && table.otel_endpoint === root_url;
      return SIGNALS.filter((signal) => is_on && table[`otel_${signal}_exporter`] === 'otlp');
    },
    rows(signals, { root_url }) {
      const exporter = (signal: Signal) => (signals.includes(signal) ? 'otlp' : 'none');
      const values = {
        otel_enabled: true,
        otel_metrics_exporter: exporter('metrics'),
        otel_logs_exporter: exporter('logs'),
        otel_endpoint: root_url,
        otel_protocol: 'http/protobuf',
        otel_log_user_prompts: false,
        otel_log_assistant_responses: false,
        otel_log_tool_details: false,
        otel_log_tool_content: false,
      };
      return Object.entries(values).map(([key, value]) => ({ path: ['telemetry', key], value }));
    },
  },
};

/** The telemetry signals that a client's file sends to a gateway. */
export function signalsIn(client: ClientKind, found: Fields, root_url: string, names: ClientNames): Signal[] {
  return TELEMETRY[client].sends(found, root_url, names);
}

/** Telemetry settings of a file. Without `spec.telemetry`, signals that already go to the gateway get the current credential. */
export function telemetryRows(
  client: ClientKind,
  spec: ClientSpec,
  names: ClientNames,
  { found, platform }: { readonly found: Fields; readonly platform: ClientPlatform },
): Row[] {
  const { root_url, credential } = spec;
  const { sends, rows } = TELEMETRY[client];
  const now = sends(found, root_url, names);
  const helper = found[HEADERS_HELPER];
  // Keep the set-up of users with a variable or their own helper.
  const is_theirs =
    credential === undefined || 'variable' in credential || (helper !== undefined && !callsHelper(helper, root_url));
  const signals = spec.telemetry ?? (is_theirs ? [] : now);
  const without = (paths: readonly Row[]) => paths.map(({ path }): Row => ({ path, value: undefined }));
  if (signals.length > 0) {
    const wanted = rows(signals, spec, names, platform);
    const over = rows(
      now.filter((signal) => !signals.includes(signal)),
      spec,
      names,
      platform,
    ).filter(({ path }) => !wanted.some((row) => row.path.join() === path.join()));
    return [...without(over), ...wanted];
  }
  if (spec.telemetry === undefined || now.length === 0) return [];
  return without(rows(client === 'coding-cli' ? now : SIGNALS, spec, names, platform));
}

/** Warnings about variables that override the telemetry settings of a client's file. */
export function telemetryWarnings(
  client: ClientKind,
  { telemetry = [] }: ClientSpec,
  set: Fields,
  where: string,
): string[] {
  if (telemetry.length === 0) return [];
  return Object.keys(set)
    .filter((name) => TELEMETRY[client].overrides.test(name) && set[name] !== undefined && set[name] !== '')
    .map((name) => `${name} is set in ${where}: remove it, because it overrides the client's telemetry settings`);
}

/** How to start a client that reads its telemetry headers only from the variable. */
export function howToAuthenticate(credential: Credential, root_url: string): string {
  const value =
    'variable' in credential
      ? `$${credential.variable}`
      : 'helper' in credential
        ? `$(appscli token --base-url ${root_url})`
        : '<API_KEY>';
  const ends = 'helper' in credential ? ' It expires with that token; a token of `tokens create` lasts longer.' : '';
  return `The client reads its telemetry credential only from its environment, for example ${HEADERS_VARIABLE}="${BEARER_HEADER}${value}".${ends}`;
}
