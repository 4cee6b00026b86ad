import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { fieldsOf, safeToShow } from '../../client/answers.ts';
import { createAsk } from '../../client/http.ts';
import type { ClientKind, SetUpSpec } from '../../client-files/clients.ts';
import { BEARER_HEADER, HEADERS_VARIABLE, howToAuthenticate } from '../../client-files/telemetry.ts';
import { usageError } from '../exit-codes.ts';

/** Content of each telemetry signal. */
const SENT: Readonly<Record<Signal, string>> = {
  metrics: 'counts of sessions, tokens, tool calls and lines, with costs and durations',
  logs: 'events for requests, tool calls, decisions and errors, with names, sizes and times',
  traces: 'spans of requests and tool calls',
};

/** Describes a change of the client's telemetry; empty without a change. */
export function describeTelemetry({ telemetry, root_url }: SetUpSpec): string[] {
  if (telemetry === undefined) return [];
  if (telemetry.length === 0) return [`The client will send no telemetry to ${root_url}.`];
  return [
    `The client will send telemetry to ${root_url}, which adds your identity:`,
    ...telemetry.map((signal) => `  ${signal}: ${SENT[signal]}`),
    'It contains no texts of prompts, responses and tools.',
  ];
}

/** Describes telemetry with shell lines. */
export function describeShellTelemetry(spec: SetUpSpec): string[] {
  if ((spec.telemetry ?? []).length === 0) return describeTelemetry(spec);
  const others = `Other OpenTelemetry programs in this shell will also send to the gateway, with your token: use --settings to configure only the client.`;
  return [...describeTelemetry(spec), others];
}

/** A spec without the signals that the build CLI does not have. Raises StartError when none is left. */
export function withoutTraces<S extends SetUpSpec>(spec: S, warn: (warning: string) => void): S {
  if (!spec.telemetry?.includes('traces')) return spec;
  const telemetry = spec.telemetry.filter((signal) => signal !== 'traces');
  if (telemetry.length === 0) throw usageError('this client sends no traces: use --telemetry with metrics and logs');
  warn('this client sends no traces; only the other signals are configured');
  return { ...spec, telemetry };
}

/** A note if the client's file cannot contain the telemetry credential. */
export function telemetryNote(kind: ClientKind, spec: SetUpSpec): string | undefined {
  const { telemetry = [], credential, root_url } = spec;
  if (telemetry.length === 0 || 'sign_in' in credential) return undefined;
  const in_file = kind === 'build-cli' ? [] : kind === 'coding-cli' ? ['token'] : ['token', 'helper'];
  return in_file.some((way) => way in credential) ? undefined : howToAuthenticate(credential, root_url);
}

/** Shell variables for telemetry: a text followed by another variable. */
export function telemetryPrefixes({ telemetry = [], credential }: SetUpSpec) {
  if (telemetry.length === 0 || !('variable' in credential)) return {};
  return { [HEADERS_VARIABLE]: { text: BEARER_HEADER, variable: credential.variable } };
}

/** Checks with empty requests that the gateway accepts telemetry. Returns a line per signal. Raises StartError. */
export async function checkTelemetry(options: {
  readonly root_url: string;
  readonly token: string;
  readonly signals: readonly Signal[];
}): Promise<string[]> {
  const { root_url, token, signals } = options;
  const ask = createAsk();
  const lines = await Promise.all(
    signals.map(async (signal) => {
      const url = `${root_url}/v1/${signal}`;
      const { status, body } = await ask('POST', url, {
        headers: { authorization: `Bearer ${token}` },
        json: {},
      });
      if (status !== 200) {
        throw new StartError(
          `${url} responds with status ${status}: the gateway accepts no ${signal} with this credential; omit --telemetry to set up the client`,
        );
      }
      const { errorMessage } = fieldsOf(fieldsOf(safeToShow(body)).partialSuccess);
      return `${root_url} accepts ${signal}${typeof errorMessage === 'string' && errorMessage !== '' ? `: ${errorMessage}` : ''}`;
    }),
  );
  return lines;
}
