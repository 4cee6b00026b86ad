import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Router } from 'express';
import { EXPORT_BYTES_MAX, SIGNALS } from '../../../base/contract/client-telemetry.ts';
import { ERRORS, type ErrorSpec } from '../../../base/contract/errors.ts';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { CONTENT_ENCODINGS } from '../../../base/kit/decompressor.ts';
import { PACKAGE_ROOT } from '../../../base/kit/package-root.ts';
import type { PipelineSpec } from '../../../base/source/spec.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { definitionOf } from '../../../domain/protocols/index.ts';
import { REQUEST_ID_HEADER } from '../../../pipeline/run/headers.ts';
import { PATHS } from './paths.ts';
import { mountRoutes, type SignInOptions } from './routes.ts';

export interface ProtocolOptions extends Pick<SignInOptions, 'config' | 'clock' | 'log'> {
  readonly version: string;
  readonly pipelines: readonly Pick<PipelineSpec, 'match' | 'summary'>[];
}

const CACHE_SECONDS = 60;

/** Serves `/protocol`: the protocol reference for client authors, generated from the active configuration. */
export function protocolRoute(options: ProtocolOptions): Router {
  const markdown = protocolText(options);
  const headers = { 'cache-control': `public, max-age=${CACHE_SECONDS}` };
  const get = () => ({ status: 200, headers, markdown });
  return mountRoutes([{ path: PATHS.protocol, speaks: 'json', get }], options);
}

const TEMPLATE = readFileSync(join(PACKAGE_ROOT, 'schemas/protocol.md'), 'utf8');

/** The protocol reference in Markdown. Public: names no upstream and no identity provider. */
export function protocolText({
  config,
  version,
  pipelines,
}: Pick<ProtocolOptions, 'config' | 'version' | 'pipelines'>): string {
  const { auth, server, spend_limits, telemetry } = config;
  const { header_prefix, refusal_header } = server.profile;
  const has_sign_in = auth?.oidc !== undefined;
  const model_requests = modelRequests(pipelines);
  const forwarded = SIGNALS.filter((signal) => telemetry.forward_to.some((destination) => destination[signal]));
  const values: Readonly<Record<string, unknown>> = {
    ...{ ...server.limits, ...server.timeouts, ...auth?.limits, ...auth?.session },
    version,
    issuer: issuerOf(config),
    endpoints: endpoints(pipelines, has_sign_in),
    model_requests,
    session_token: has_sign_in ? ', or a session token (see Sign-in)' : '',
    login_notice: auth?.login_notice === undefined ? '' : ' `login_notice` is a text to show to the person.',
    errors: errors(spend_limits?.status),
    request_id_header: REQUEST_ID_HEADER,
    header_prefix,
    refusal_header:
      refusal_header === undefined ? '' : `, and the header \`${refusal_header}\` has its sentence in ASCII`,
    content_encodings: CONTENT_ENCODINGS.map((name) => `\`${name}\``).join(', '),
    export_bytes: EXPORT_BYTES_MAX,
    forwarded_signals: forwarded.join(', ') || 'no signal',
  };
  const omitted = [model_requests === undefined && '## Model requests', !has_sign_in && '## Sign-in'];
  return TEMPLATE.split(/^(?=## )/m)
    .filter((section) => !omitted.includes(section.split('\n', 1)[0]!))
    .join('')
    .replace(/\{\{(\w+)\}\}/g, (_, name: string) => String(values[name]));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

const SIGN_IN_ENDPOINTS: readonly (readonly string[])[] = [
  ['GET', `\`${PATHS.discovery}\``, 'OAuth server metadata.', 'OAuth'],
  ['POST', `\`${PATHS.device_authorization}\``, 'Begins a sign-in.', 'OAuth'],
  ['GET, POST', `\`${PATHS.device}\``, 'Confirms a code, in a browser.', 'a page'],
  ['GET', `\`${PATHS.callback}\``, 'Redirect URI of the identity provider, in a browser.', 'a page'],
  ['POST', `\`${PATHS.token}\``, 'Issues and renews session tokens.', 'OAuth'],
  ['POST', `\`${PATHS.revocation}\``, 'Signs out.', 'OAuth'],
];

function endpoints(pipelines: ProtocolOptions['pipelines'], has_sign_in: boolean): string {
  const rows = pipelines.flatMap(({ match, summary }) =>
    match.paths.map((path) => [match.methods.join(', '), `\`${path}\``, summary, definitionOf(match.protocol).name]),
  );
  const fixed = [
    ['GET', '`/`', 'Front page: HTML for browsers, JSON for programs.', ''],
    ['GET', `\`${PATHS.protocol}\``, 'This document.', ''],
    ['GET', '`/admin/api/openapi.json`', 'The administration API, as OpenAPI.', 'Messages'],
  ];
  const all = [...rows, ...(has_sign_in ? SIGN_IN_ENDPOINTS : []), ...fixed];
  return table(['method', 'path', 'what it does', 'error envelope'], all);
}

function modelRequests(pipelines: ProtocolOptions['pipelines']): string | undefined {
  const rows = PROTOCOLS.flatMap((protocol) =>
    pipelines
      .filter(({ match }) => match.protocol === protocol)
      .flatMap(({ match }) => match.paths)
      .map((path) => {
        const { name, clients } = definitionOf(protocol);
        return [name, `\`<root>${clients.base_path}\``, `\`POST ${path}\``];
      }),
  );
  return rows.length === 0 ? undefined : table(['protocol', 'base URL of clients', 'request'], rows);
}

function errors(spending_status: number | undefined): string {
  const rows = Object.entries(ERRORS).map(([code, spec]: [string, ErrorSpec]) => {
    const retry = spec.retry === undefined ? '' : String(spec.retry);
    const status = (code === 'spend_limit_exceeded' ? spending_status : undefined) ?? spec.status;
    return [`\`${code}\``, String(status), `\`${spec.type}\``, `\`${spec.compat.type}\``, retry, spec.meaning];
  });
  const head = ['code', 'status', 'type (Messages)', 'type (chat completions, Responses)', 'retry', 'meaning'];
  return table(head, rows);
}
