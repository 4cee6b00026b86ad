import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { StartError } from '../../../base/contract/start-error.ts';
import { fieldsOf, safeToShow } from '../../client/answers.ts';
import { createAsk } from '../../client/http.ts';
import type { ClientKind, SetUpSpec } from '../../client-files/clients.ts';
import { BEARER_HEADER, HEADERS_VARIABLE, howToAuthenticate } from '../../client-files/telemetry.ts';
import { usageError } from '../exit-codes.ts';

/** What a client sends of each signal, for the person whose client it is. */
const SENT: Readonly<Record<Signal, string>> = {
  metrics: 'how many sessions, tokens, tool calls and lines there were, what they cost and how long they took',
  logs: 'an event for each request, tool call, decision and error, with names, sizes and times',
  traces: 'how requests and tool calls follow each other',
};

/** What is said before a client is told to send telemetry, or no longer to; nothing where that stays as it is. */
export function describeTelemetry({ telemetry, root_url }: SetUpSpec): string[] {
  if (telemetry === undefined) return [];
  if (telemetry.length === 0) return [`The client will send no telemetry to ${root_url}.`];
  return [
    `The client will send telemetry to ${root_url}, which stamps it with who you are:`,
    ...telemetry.map((signal) => `  ${signal}: ${SENT[signal]}`),
    'The texts of prompts, answers and tools stay out of it.',
  ];
}

/** What is said about the lines for a shell. */
export function describeShellTelemetry(spec: SetUpSpec): string[] {
  if ((spec.telemetry ?? []).length === 0) return describeTelemetry(spec);
  const others = `Every program started from this shell that uses OpenTelemetry sends to the gateway as well, with your token: --settings puts this into the client's own file.`;
  return [...describeTelemetry(spec), others];
}

/** A spec without the signals that the build CLI does not have. Raises StartError when none is left. */
export function withoutTraces<S extends SetUpSpec>(spec: S, warn: (warning: string) => void): S {
  if (!spec.telemetry?.includes('traces')) return spec;
  const telemetry = spec.telemetry.filter((signal) => signal !== 'traces');
  if (telemetry.length === 0) throw usageError('this client sends no traces: --telemetry takes metrics and logs here');
  warn('this client sends no traces, so it is told about the others only');
  return { ...spec, telemetry };
}

/** What is left to do where the file cannot hold the credential of telemetry; `undefined` where nothing is. */
export function telemetryNote(kind: ClientKind, spec: SetUpSpec): string | undefined {
  const { telemetry = [], credential, root_url } = spec;
  if (telemetry.length === 0 || 'sign_in' in credential) return undefined;
  const in_file = kind === 'build-cli' ? [] : kind === 'coding-cli' ? ['token'] : ['token', 'helper'];
  return in_file.some((way) => way in credential) ? undefined : howToAuthenticate(credential, root_url);
}

/** Variables of the shell about telemetry: to texts, and to a text before the value of another. */
export function telemetryPrefixes({ telemetry = [], credential }: SetUpSpec) {
  if (telemetry.length === 0 || !('variable' in credential)) return {};
  return { [HEADERS_VARIABLE]: { text: BEARER_HEADER, variable: credential.variable } };
}

/** Asks a gateway whether it takes telemetry with this credential, by sending none. Returns what it says about it. Raises StartError. */
export async function checkTelemetry(options: {
  readonly root_url: string;
  readonly token: string;
  readonly signals: readonly Signal[];
}): Promise<string[]> {
  const { root_url, token, signals } = options;
  const ask = createAsk();
  const said = await Promise.all(
    signals.map(async (signal) => {
      const url = `${root_url}/v1/${signal}`;
      const { status, body } = await ask('POST', url, {
        headers: { authorization: `Bearer ${token}` },
        json: {},
      });
      if (status !== 200) {
        throw new StartError(
          `${url} answers with status ${status}, so the gateway takes no ${signal} with this credential; without --telemetry the client is set up all the same`,
        );
      }
      const { errorMessage } = fieldsOf(fieldsOf(safeToShow(body)).partialSuccess);
      return `${root_url} takes ${signal}${typeof errorMessage === 'string' && errorMessage !== '' ? `: ${errorMessage}` : ''}`;
    }),
  );
  return said;
}
