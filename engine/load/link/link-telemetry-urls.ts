import { isLoopbackUrl, parseListenAddress, urlProblem } from '../../kit/net/addresses.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';

const SIGNALS = ['traces', 'metrics', 'logs'] as const;
const ENDPOINTS = { traces: 'endpoint', metrics: 'metrics_endpoint', logs: 'logs_endpoint' } as const;
/** The usual port of OTLP over gRPC. */
const GRPC_PORT = '4317';
const SIGNAL_PATH = /\/v1\/(traces|metrics|logs)\/?$/;
/** What a destination gets where it says nothing. */
const DEFAULTS: Readonly<Record<string, boolean>> = { metrics: true };

/** Checks where telemetry goes: of the gateway, and of clients. */
export function linkTelemetryUrls(root: MapNode, findings: Findings): void {
  const otlp = childOf(root, 'telemetry', 'otlp');
  for (const key of Object.values(ENDPOINTS)) {
    const node = childOf(otlp, key);
    checkEncryption(node, findings);
    checkPort(node, findings);
  }
  if (otlp !== undefined) checkPaths(otlp, findings);
  for (const destination of itemsOf(childOf(root, 'telemetry', 'forward_to'))) {
    const url = childOf(destination, 'url');
    checkEncryption(url, findings);
    checkPort(url, findings);
    checkCircle(root, url, findings);
    checkAnything(destination, findings);
  }
}

function usableUrl(node: Node | undefined): URL | undefined {
  const text = textOf(node);
  return text === undefined || urlProblem(text, 'endpoint') !== undefined ? undefined : new URL(text);
}

function checkEncryption(node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url?.protocol !== 'http:' || isLoopbackUrl(url.href)) return;
  findings.report('W7085', node.mark, `telemetry travels to ${url.host} without encryption`, {
    help: `write https://, or allow it where the network is yours: allow: { W7085: "${url.host} is in our cluster" }`,
  });
}

function checkPort(node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url?.port !== GRPC_PORT) return;
  findings.report('W7087', node.mark, 'port 4317 is usually for OTLP over gRPC, which the gateway does not speak', {
    help: "write the collector's port for HTTP, usually 4318",
  });
}

/** A signal that would go where another one belongs. */
function checkPaths(otlp: Node, findings: Findings): void {
  for (const signal of SIGNALS) {
    const own = childOf(otlp, ENDPOINTS[signal]);
    const node = own ?? childOf(otlp, 'endpoint');
    const { origin, pathname = '/' } = usableUrl(node) ?? {};
    const is_sent = flagOf(otlp, signal) ?? signal !== 'logs';
    const ends_in = SIGNAL_PATH.exec(pathname)?.[1] ?? (own === undefined ? 'nothing' : signal);
    const is_right = ends_in === signal || (own === undefined && ends_in === 'traces');
    if (node === undefined || pathname === '/' || !is_sent || is_right) continue;
    const meant = `${origin}${pathname.replace(SIGNAL_PATH, '').replace(/\/+$/, '')}/v1/${own === undefined ? 'traces' : signal}`;
    const message =
      own === undefined
        ? `${signal} are sent nowhere: this URL does not end in /v1/traces`
        : `${signal} would be sent to this URL, which does not end in /v1/${signal}`;
    const or = own === undefined ? `, or say with \`${ENDPOINTS[signal]}\` where ${signal} go` : '';
    findings.report('W7087', node.mark, message, { help: `write ${meant}${or}` });
    if (own === undefined || signal === 'traces') return;
  }
}

/** A destination that is the gateway itself would get what it has sent, for ever. */
function checkCircle(root: MapNode, node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url === undefined) return;
  const own = usableUrl(childOf(root, 'server', 'public_url'));
  const listen = parseListenAddress(textOf(childOf(root, 'server', 'listen')) ?? '');
  const port = Number(url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : url.port);
  const is_own_port = listen !== undefined && listen.port === port && port !== 0 && isLoopbackUrl(url.href);
  if (url.origin !== own?.origin && !is_own_port) return;
  findings.report('C4056', node.mark, 'telemetry of clients would be sent to the gateway that it comes from', {
    help: 'write the address of a collector',
  });
}

function checkAnything(destination: Node, findings: Findings): void {
  if (SIGNALS.some((signal) => flagOf(destination, signal) ?? DEFAULTS[signal] ?? false)) return;
  findings.report('W7086', destination.mark, 'nothing is sent to this destination', {
    help: 'write `metrics: true`, `logs: true` or `traces: true`, or take the entry out',
  });
}

function flagOf(node: Node, key: string): boolean | undefined {
  const flag = childOf(node, key);
  return flag?.kind === 'scalar' && typeof flag.value === 'boolean' ? flag.value : undefined;
}
