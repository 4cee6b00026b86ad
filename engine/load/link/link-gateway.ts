import { resolve } from 'node:path';
import type { GatewayConfig, RouteUpstream } from '../../contract/config.ts';
import { NO_MODEL } from '../../contract/no-model.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { isLoopbackUrl, parseListenAddress, urlProblem } from '../../kit/net/addresses.ts';
import { decidingVariable, proxyProblem } from '../../kit/net/way.ts';
import { secretHolder, secretIn, secretInFile } from '../../kit/secret-names.ts';
import { didYouMean, oneOf } from '../../kit/text/suggest.ts';
import { DECISIVE_NAMES, fieldRule } from '../../protocols/body/decisive-fields.ts';
import { looksSecret } from '../../source/diagnostics/secrets.ts';
import type { Findings } from '../../source/findings.ts';
import {
  childOf,
  entriesOf,
  entryOf,
  itemsOf,
  keyName,
  type MapNode,
  type Mark,
  type Node,
  nodeAt,
  quote,
  textOf,
} from '../../source/node.ts';
import { DECISIVE_HEADERS, decisionOf, isDecisiveHeader } from '../../upstreams/decisive-headers.ts';
import { traceHeaderOf, whyNotFixed } from '../../upstreams/upstream-headers.ts';
import type { AnnotationContext, KnownNames } from '../annotations.ts';
import { checkGroupName, linkAuth } from './link-auth.ts';
import { repeated, reportExclusive, reportExclusiveSecrets, reportTwins, secretEntryOf } from './link-keys.ts';
import { linkMoney } from './link-money.ts';

/** Names of headers that hold secrets. */
const SECRET_NAME =
  /(?:^|-)(?:api-?key|key|token|secret|password|passwd|auth|authorization|credentials?|cookie|jwt|signature)$/;

/** Names after which nobody needs another credential for an upstream. */
function namesCredential(upstream: Node): boolean {
  return entriesOf(childOf(upstream, 'headers')).some(
    ({ value }) => textOf(secretEntryOf(value, 'value_env')?.value) !== undefined,
  );
}

/** Finds fixed headers of an upstream that cannot be set for every request, and secrets among them that are written out. */
function linkHeaders(upstream: Node, findings: Findings): void {
  for (const { key, key_mark, value } of entriesOf(childOf(upstream, 'headers'))) {
    const refused = whyNotFixed(key);
    const text = textOf(value);
    const is_secret = text !== undefined && (SECRET_NAME.test(key) || isCookie(key) || looksSecret(text));
    if (is_secret) findings.hide(value);
    if (refused !== undefined) {
      const message = `the header ${quote(key)} cannot be set for an upstream: ${refused.why}`;
      findings.report('C4080', key_mark, message, { help: refused.help });
    } else if (is_secret) {
      findings.report(
        'C4081',
        value.mark,
        `the header ${quote(key)} holds a secret, which does not belong into the file`,
        {
          expected: 'the name of an environment variable with the value',
          help: `write \`${key}: { value_env: ${variableFor(key)} }\` and put the value into the environment`,
        },
      );
    }
  }
}

/** Names of query parameters that hold secrets, which servers and proxies write into their logs. */
const SECRET_PARAMETER =
  /^code$|(?:^|[-_.])(?:(?:api)?key|token|secret|password|passwd|pwd|auth|authorization|credentials?|jwt|sig|signature)$/i;

/** Finds query parameters of an upstream that decide what limits and bills have to know, and secrets among them. */
function linkQuery(upstream: Node, findings: Findings): void {
  for (const { key, key_mark, value } of entriesOf(childOf(upstream, 'query'))) {
    const decides = fieldRule(key, true)?.decides;
    const text = textOf(value);
    if (text !== undefined && (SECRET_PARAMETER.test(key) || looksSecret(text))) {
      findings.hide(value);
      findings.report('C4081', value.mark, `the query parameter ${quote(key)} holds a secret`, {
        expected: 'a parameter that may be seen in logs, such as api-version',
        help: 'name the variable of a key with api_key_env or auth_token_env, or in headers with value_env',
      });
    } else if (decides === 'model' || decides === 'price') {
      const message = `the query parameter ${quote(key)} cannot be set for an upstream: it decides over the ${decides}, and limits and bills would not know`;
      const help = 'say in `models` and `prices` what is asked for and what it costs';
      findings.report('C4080', key_mark, message, { help });
    }
  }
}

/** Finds names in `allow_fields` and `allow_headers` that need no allowance, or get none there: most likely they are misspelt. */
function linkAllowed(upstream: Node, findings: Findings): void {
  const report = (node: Node, problem: string, help: string) => findings.report('W7032', node.mark, problem, { help });
  const otherwise = 'see the reference of decisive fields';
  for (const node of itemsOf(childOf(upstream, 'allow_fields'))) {
    const field = textOf(node) ?? 'tools[]';
    const keys = field.replaceAll('[]', '').split('.');
    const { rule = 'pass' } = fieldRule(keys.at(-1)!, keys.length === 1) ?? {};
    if (field === 'tools[]' || rule !== 'pass') continue;
    report(node, `the field ${quote(field)} is not refused anywhere`, didYouMean(field, DECISIVE_NAMES, otherwise));
  }
  const known = DECISIVE_HEADERS.map(({ name }) => name);
  for (const node of itemsOf(childOf(upstream, 'allow_headers'))) {
    const header = textOf(node);
    if (header === undefined || isDecisiveHeader(header)) continue;
    const carries = traceHeaderOf(header.toLowerCase());
    if (carries === undefined)
      report(node, `the header ${quote(header)} is not dropped anywhere`, didYouMean(header, known, otherwise));
    else report(node, `whether the header ${quote(header)} passes is not decided here`, TRACE_HELP[carries]);
  }
}

const TRACE_HELP = {
  baggage: 'take it out: baggage never reaches an upstream',
  trace: 'take it out: telemetry.propagate says what upstreams get of the trace of a request',
} as const;

/** Cookies and keys of accounts are credentials whatever they are called. */
function isCookie(key: string): boolean {
  return key === 'cookie2' || (decisionOf(key) === 'account' && /key|cookie/.test(key));
}

function variableFor(key: string): string {
  return key.toUpperCase().replaceAll('-', '_');
}

/** Checks where metrics can be read: never by anybody, and never at the gateway's own port. */
function linkMetrics(root: MapNode, findings: Findings): void {
  const metrics = childOf(root, 'telemetry', 'metrics');
  const node = childOf(metrics, 'listen');
  const listen = textOf(node);
  const token = secretEntryOf(metrics, 'token_env');
  if (token !== undefined && entryOf(metrics, 'listen') === undefined) {
    findings.report('W7050', token.key_mark, `${keyName(token.key)} has no effect: there is no \`listen\``, {
      help: 'say with `listen` where metrics are read, or remove the key',
    });
  }
  if (node === undefined || listen === undefined) return;
  const address = parseListenAddress(listen);
  if (address === undefined) return;
  const { port } = address;
  if (token === undefined && !isLoopbackUrl(`http://${listen}`)) {
    findings.report('C4050', node.mark, 'other machines could read the metrics without a token', {
      help: `write 127.0.0.1:${port}, or name the variable with a token for readers: \`token_env: METRICS_TOKEN\``,
    });
  }
  const gateway = parseListenAddress(textOf(childOf(root, 'server', 'listen')) ?? '');
  if (gateway?.port !== port || port === 0 || !meet(gateway.host, address.host)) return;
  findings.report('C4023', node.mark, 'metrics are not served at the port of the gateway itself', {
    help: 'give them a port of their own, such as 9464',
  });
}

const EVERYWHERE = ['0.0.0.0', '::'];

function meet(one: string, other: string): boolean {
  return one === other || EVERYWHERE.includes(one) || EVERYWHERE.includes(other);
}

// Checks what must fit together in routes, and in what is said of upstreams that fail.

/** A list of upstreams as it stands in the file, with what it is after defaults. */
export interface WrittenRoute {
  /** The default route, or the name of the rule. */
  readonly name: string;
  readonly upstreams: readonly RouteUpstream[];
  /** JSON pointer of the list; `undefined` where the route is written as one upstream. */
  readonly pointer: string | undefined;
}

/** Whether a route is written as one upstream or as several, and no upstream stands there twice; tolerates refused values. */
function linkRoute(owner: Node | undefined, [one, several]: readonly [string, string], findings: Findings): void {
  reportExclusive(owner, [one, several], findings);
  const names = itemsOf(childOf(owner, several)).map((entry) => childOf(entry, 'upstream') ?? entry);
  for (const [node, first] of repeated(names, textOf)) {
    findings.report('C3010', node.mark, `${quote(textOf(node)!)} is listed twice`, {
      help: `remove one of the two: the first is in line ${first.mark.line}; \`weight\` says how much goes there`,
    });
  }
}

/** The routes of a configuration that are in force or in shadow mode, the default one last. */
export function writtenRoutes({ routing }: GatewayConfig, root: MapNode): readonly WrittenRoute[] {
  const listAt = (pointer: string) => (nodeAt(root, pointer).kind === 'list' ? pointer : undefined);
  return [
    ...routing.rules.map(({ name, upstreams }, index) => {
      return { name, upstreams, pointer: listAt(`/routing/rules/${index}/upstreams`) };
    }),
    { name: 'default', upstreams: routing.default_upstreams, pointer: listAt('/routing/default_upstreams') },
  ];
}

/** Where something is said of an entry of a route: at one of its keys, or at its name. */
export function markOfEntry(root: MapNode, { pointer }: WrittenRoute, index: number, key?: string): Mark {
  const entry = nodeAt(root, `${pointer}/${index}`);
  return ((key === undefined ? undefined : childOf(entry, key)) ?? childOf(entry, 'upstream') ?? entry).mark;
}

/** Checks routes and breakers after defaults are filled in. */
export function checkRoutes(config: GatewayConfig, root: MapNode, findings: Findings): void {
  for (const route of writtenRoutes(config, root)) checkWeights(route, root, findings);
  config.upstreams.forEach(({ breaker: { open_seconds, open_seconds_max } }, index) => {
    if (open_seconds <= open_seconds_max) return;
    const { mark } =
      childOf(nodeAt(root, `/upstreams/${index}/breaker`), 'open_seconds_max') ??
      childOf(nodeAt(root, `/upstreams/${index}/breaker`), 'open_seconds')!;
    findings.report('C4023', mark, 'the breaker opens for longer than the longest time it may', {
      found: `open_seconds: ${open_seconds}, open_seconds_max: ${open_seconds_max}`,
      expected: 'open_seconds_max to be open_seconds or more',
      help: `write open_seconds_max: ${open_seconds}, or a shorter open_seconds`,
    });
  });
}

/** Upstreams of one order that each serve only what another of them cannot would wait for each other. */
function checkWeights(route: WrittenRoute, root: MapNode, findings: Findings): void {
  const { upstreams, pointer } = route;
  if (pointer === undefined) return;
  for (const [order, entries] of Map.groupBy(upstreams, (entry) => entry.order)) {
    if (entries.some(({ weight }) => weight > 0)) continue;
    const index = upstreams.indexOf(entries[0]!);
    const alone = entries.length === 1;
    const message = alone
      ? `the weight of ${quote(entries[0]!.upstream)} is 0, and no other upstream has the order ${order}`
      : `the weights of all upstreams of order ${order} are 0`;
    findings.report('C4023', markOfEntry(root, route, index, 'weight'), message, {
      expected: 'an upstream of the same order with a weight above 0',
      help: alone ? 'leave `weight` out: its order says when it is used' : 'give one of them a weight, such as 1',
    });
  }
}

const SIGNALS = ['traces', 'metrics', 'logs'] as const;
const ENDPOINTS = { traces: 'endpoint', metrics: 'metrics_endpoint', logs: 'logs_endpoint' } as const;
/** The usual port of OTLP over gRPC. */
const GRPC_PORT = '4317';
const SIGNAL_PATH = /\/v1\/(traces|metrics|logs)\/?$/;

/** Checks where telemetry goes: of the gateway, and of clients. */
function linkTelemetryUrls(root: MapNode, findings: Findings): void {
  const otlp = childOf(root, 'telemetry', 'otlp');
  for (const key of Object.values(ENDPOINTS)) {
    const node = childOf(otlp, key);
    checkTelemetryEncryption(node, findings);
    checkPort(node, findings);
  }
  if (otlp !== undefined) checkPaths(otlp, findings);
  for (const destination of itemsOf(childOf(root, 'telemetry', 'forward_to'))) {
    const url = childOf(destination, 'url');
    checkTelemetryEncryption(url, findings);
    checkPort(url, findings);
    checkCircle(root, url, findings);
    if (SIGNALS.some((signal) => flagOf(destination, signal) ?? signal === 'metrics')) continue;
    findings.report('W7086', destination.mark, 'nothing is sent to this destination', {
      help: 'write `metrics: true`, `logs: true` or `traces: true`, or take the entry out',
    });
  }
}

/** A destination that is the gateway itself would get what it has sent, for ever. */
function checkCircle(root: MapNode, node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url === undefined) return;
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const listen = parseListenAddress(textOf(childOf(root, 'server', 'listen')) ?? '');
  const is_own_port = listen?.port === port && isLoopbackUrl(url.href);
  if (url.origin !== usableUrl(childOf(root, 'server', 'public_url'))?.origin && !is_own_port) return;
  findings.report('C4056', node.mark, 'telemetry of clients would be sent to the gateway that it comes from', {
    help: 'write the address of a collector',
  });
}

function usableUrl(node: Node | undefined): URL | undefined {
  const text = textOf(node);
  return text === undefined || urlProblem(text, 'endpoint') !== undefined ? undefined : new URL(text);
}

function checkTelemetryEncryption(node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url?.protocol !== 'http:' || isLoopbackUrl(url.href)) return;
  findings.report('W7042', node.mark, `telemetry travels to ${url.host} without encryption`, {
    help: `write https://, or allow it where the network is yours: allow: { W7042: "${url.host} is in our cluster" }`,
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

function flagOf(node: Node, key: string): boolean | undefined {
  const flag = childOf(node, key);
  return flag?.kind === 'scalar' && typeof flag.value === 'boolean' ? flag.value : undefined;
}

/** What a base URL ends with when it holds part of the paths of requests. The version belongs into a compat one. */
const VENDOR_API_PATH = /^https?:\/\/[^/]+.*?(\/v1(?:\/messages|\/chat\/completions|\/responses)?)\/?$/;
const COMPAT_API_PATH = /^https?:\/\/[^/]+.*?(\/chat\/completions|\/responses)\/?$/;

function isCompat(upstream: Node): boolean {
  return textOf(childOf(upstream, 'type')) === 'compat';
}

/** What the checks of one gateway.yaml share. */
interface Linked {
  readonly root: MapNode;
  readonly names: KnownNames;
  readonly findings: Findings;
}

/** Checks what must fit together in gateway.yaml; tolerates values that validation already refused. */
export function linkGateway(root: MapNode, names: KnownNames, findings: Findings): void {
  const linked = { root, names, findings };
  checkNames(linked);
  checkModelNames(linked);
  reportExclusive(childOf(root, 'database'), ['postgres', 'embedded'], findings);
  for (const upstream of itemsOf(childOf(root, 'upstreams'))) checkUpstream(upstream, findings);
  checkModels(linked);
  checkAliases(modelsOf(root), findings);
  checkTokenGroups(linked);
  checkRouting(linked);
  checkAccess(linked);
  checkHeaders(linked);
  checkRegions(linked);
  linkMoney(root, names, findings);
  linkAuth(root, findings);
  linkMetrics(root, findings);
  linkTelemetryUrls(root, findings);
}

const modelsOf = (root: MapNode) => itemsOf(childOf(root, 'models'));
const routingRulesOf = (root: MapNode) => itemsOf(childOf(root, 'routing', 'rules'));

function checkNames({ root, findings }: Linked): void {
  const spend_rules = itemsOf(childOf(root, 'spend_limits', 'rules'));
  reportTwins('upstream', itemsOf(childOf(root, 'upstreams')), 'name', findings);
  reportTwins('model', modelsOf(root), 'id', findings);
  reportTwins('token group', itemsOf(childOf(root, 'token_groups')), 'name', findings);
  reportTwins('spend rule', spend_rules, 'name', findings);
  reportTwins('routing rule', routingRulesOf(root), 'name', findings);
  reportTwins('access rule', itemsOf(childOf(root, 'access', 'rules')), 'name', findings);
  for (const name of routingRulesOf(root).map((rule) => childOf(rule, 'name'))) {
    if (name === undefined || textOf(name) !== 'default') continue;
    findings.report('C4005', name.mark, 'the name "default" belongs to the default route', {
      help: 'give the rule another name: audit rows tell routes apart by it',
    });
  }
}

function checkModelNames(linked: Linked): void {
  const { root, findings } = linked;
  for (const model of modelsOf(root)) {
    const names = [childOf(model, 'id'), ...itemsOf(childOf(model, 'aliases'))];
    for (const name of names) {
      if (name === undefined || (textOf(name) ?? textOf(childOf(name, 'name'))) !== NO_MODEL.id) continue;
      findings.report('C4005', name.mark, `the name ${quote(NO_MODEL.id)} belongs to requests that name no model`, {
        help: 'give the model another name: the ledger tells the two apart by it',
      });
    }
  }
}

function checkUpstream(upstream: Node, findings: Findings): void {
  reportExclusiveSecrets(upstream, ['api_key_env', 'auth_token_env'], findings);
  const named =
    ['api_key_env', 'auth_token_env'].some((key) => secretEntryOf(upstream, key) !== undefined) ||
    namesCredential(upstream);
  checkProtocols(upstream, findings);
  checkApiPath(upstream, findings);
  checkEncryption(upstream, findings);
  linkHeaders(upstream, findings);
  linkQuery(upstream, findings);
  linkAllowed(upstream, findings);
  const name = childOf(upstream, 'name');
  if (named || name === undefined || entriesOf(upstream).some(({ key }) => /key|token/.test(key))) return;
  findings.report('W7005', name.mark, `the upstream ${quote(textOf(name) ?? '')} has no credential`, {
    help: 'if it needs one: api_key_env or auth_token_env, or a file: api_key_file or auth_token_file',
  });
}

function checkProtocols(upstream: Node, findings: Findings): void {
  const counts = childOf(upstream, 'supports', 'count_tokens');
  if (isCompat(upstream) && counts?.kind === 'scalar' && counts.value === true) {
    findings.report('C4022', counts.mark, 'an upstream of type compat has no call that counts tokens', {
      help: 'leave `count_tokens` out, or write false',
    });
  }
  const profile = entryOf(upstream, 'profile');
  if (isCompat(upstream) && profile !== undefined) {
    findings.report('C4022', profile.key_mark, 'only headers of the Messages protocol have names by vendor', {
      help: 'leave `profile` out; what an upstream of type compat is sent has the same names everywhere',
    });
  }
  const bound = entryOf(upstream, 'max_tokens_field');
  const spoken = itemsOf(childOf(upstream, 'protocols')).map(textOf);
  if (bound !== undefined && (!isCompat(upstream) || (spoken.length > 0 && !spoken.includes('chat')))) {
    findings.report('C4022', bound.key_mark, 'only chat completions have two fields that bound an answer', {
      help: 'leave `max_tokens_field` out, or write `type: compat` where the upstream speaks chat completions',
    });
  }
  const entry = entryOf(upstream, 'protocols');
  if (entry === undefined || isCompat(upstream)) return;
  findings.report('C4022', entry.key_mark, 'an upstream of type vendor speaks Messages and nothing else', {
    help: 'leave `protocols` out, or write `type: compat` where it speaks chat completions or Responses',
  });
}

/** Whether the base URL is said to be complete: nothing of the version of a path is put behind it. */
function isComplete(upstream: Node): boolean {
  const append = childOf(upstream, 'append_v1');
  return append?.kind === 'scalar' && append.value === false;
}

/** A base URL that ends where the paths of requests begin. */
function checkApiPath(upstream: Node, findings: Findings): void {
  const node = childOf(upstream, 'base_url');
  const url = textOf(node) ?? '';
  const path = (isCompat(upstream) ? COMPAT_API_PATH : VENDOR_API_PATH).exec(url)?.[1];
  if (node === undefined || path === undefined || (path === '/v1' && isComplete(upstream))) return;
  findings.report('W7031', node.mark, `the path of a request is added to this URL, which has ${path} already`, {
    help: `leave it out: ${url.slice(0, url.lastIndexOf(path))}`,
  });
}

/** A base URL whose requests anybody on the way could read, with the credential in them. */
function checkEncryption(upstream: Node, findings: Findings): void {
  const node = childOf(upstream, 'base_url');
  const url = textOf(node) ?? '';
  if (node === undefined || !/^http:/i.test(url) || isLoopbackUrl(url) || urlProblem(url, 'base') !== undefined) return;
  const { host } = new URL(url);
  findings.report('W7042', node.mark, `prompts and the credential travel to ${host} without encryption`, {
    help: `write https://, or allow it where the network is yours: allow: { W7042: "${host} is in our cluster" }`,
  });
}

function checkModels({ root, names: { upstream: upstreams }, findings }: Linked): void {
  for (const model of upstreams === undefined ? [] : modelsOf(root)) {
    const by_upstream = ['upstream_ids', 'context_windows'].flatMap((name) => entriesOf(childOf(model, name)));
    for (const { key, key_mark } of by_upstream) {
      if (upstreams!.includes(key)) continue;
      findings.report('C4004', key_mark, `there is no upstream ${quote(key)}`, {
        help: oneOf(key, upstreams!, 'upstreams'),
      });
    }
  }
  const section = entryOf(root, 'models');
  if (section === undefined || section.value.kind !== 'list' || modelsOf(root).length > 0) return;
  findings.report('W7003', section.value.mark, 'there are no models: every request will be refused', {
    help: 'list them, of large providers the id is enough: `- id: ...`; or leave `models` out, to serve what the upstreams list',
  });
}

/** An alias as it is written: for everybody, or for some groups. */
interface Alias {
  readonly node: Node;
  readonly name: string | undefined;
  readonly groups: readonly (string | undefined)[] | undefined;
}

function aliasesOf(model: Node): readonly Alias[] {
  return itemsOf(childOf(model, 'aliases')).map((item) => {
    if (item.kind !== 'map') return { node: item, name: textOf(item), groups: undefined };
    const node = childOf(item, 'name') ?? item;
    return { node, name: textOf(node), groups: itemsOf(childOf(item, 'groups')).map(textOf) };
  });
}

/** A request names one model: by its id, or by one of its aliases, which for each group is that of one model. */
function checkAliases(models: readonly Node[], findings: Findings): void {
  const taken = new Map<string, { readonly node: Node; readonly what: string }>();
  const claim = (key: string, name: string, node: Node, what: string, of = '') => {
    const first = taken.get(key);
    if (first === undefined) taken.set(key, { node, what });
    // Twice in one list is for the schema to tell.
    if (first === undefined || first.what === what) return;
    findings.report('C4005', node.mark, `${quote(name)} is ${first.what} already${of}`, {
      help: `that is in line ${first.node.mark.line}; a request names one model`,
    });
  };
  for (const model of models) {
    const node = childOf(model, 'id');
    const id = textOf(node);
    if (node !== undefined && id !== undefined && !taken.has(id)) taken.set(id, { node, what: 'the id of a model' });
  }
  const ids = new Set(taken.keys());
  for (const model of models) {
    const what = `an alias of ${quote(textOf(childOf(model, 'id')) ?? '')}`;
    for (const { node, name, groups } of aliasesOf(model)) {
      if (name === undefined) continue;
      if (groups === undefined || ids.has(name)) claim(name, name, node, what);
      else
        for (const group of groups)
          claim(`${name}\n${group}`, name, node, what, ` for the group ${quote(group ?? '')}`);
    }
  }
}

function checkTokenGroups(linked: Linked): void {
  const { root, names, findings } = linked;
  if (names.model === undefined) return;
  const families = [...new Set(modelsOf(root).flatMap((model) => textOf(childOf(model, 'family')) ?? []))];
  for (const group of itemsOf(childOf(root, 'token_groups'))) {
    for (const glob of itemsOf(childOf(group, 'models'))) checkMatch(glob, 'W7002', linked);
    for (const family of itemsOf(childOf(group, 'families'))) {
      const name = textOf(family);
      if (name === undefined || families.includes(name)) continue;
      findings.report('W7002', family.mark, `no model is of the family ${quote(name)}`, {
        help: oneOf(name, families, 'families', 'no model has a family'),
      });
    }
  }
}

function checkMatch(glob: Node, code: 'W7002' | 'C4004', { root, names: { model: ids }, findings }: Linked): void {
  const pattern = textOf(glob);
  if (pattern === undefined || ids === undefined || ids.some((id) => matchesGlob(pattern, id))) return;
  const meant = modelsOf(root).find((model) => aliasesOf(model).some(({ name }) => name === pattern));
  const id = meant && textOf(childOf(meant, 'id'));
  findings.report(code, glob.mark, `no model matches ${quote(pattern)}`, {
    help: id === undefined ? oneOf(pattern, ids, 'models') : `that is an alias; the id of the model is ${quote(id)}`,
  });
}

function checkRouting(linked: Linked): void {
  const { root, findings } = linked;
  linkRoute(childOf(root, 'routing'), ['default_upstream', 'default_upstreams'], findings);
  for (const rule of routingRulesOf(root)) {
    linkRoute(rule, ['upstream', 'upstreams'], findings);
    for (const glob of itemsOf(childOf(rule, 'models'))) checkMatch(glob, 'C4004', linked);
    const group = childOf(rule, 'group');
    if (group !== undefined) checkGroupName(group, findings);
  }
}

/** Headers that hold who somebody is, and must be known to nobody else. */
const CREDENTIALS = /^(?:authorization|proxy-authorization|cookie|set-cookie|x-api-key|api-key)$|token|secret|password/;

function checkHeaders({ root, findings }: Linked): void {
  for (const node of itemsOf(childOf(root, 'facts', 'headers'))) {
    const name = textOf(node);
    if (name === undefined || !CREDENTIALS.test(name)) continue;
    findings.report('C5031', node.mark, `the header ${quote(name)} holds a credential`, {
      help: 'facts are written to the audit log; conditions tell callers apart by `principal.*`',
    });
  }
}

function checkAccess(linked: Linked): void {
  for (const rule of itemsOf(childOf(linked.root, 'access', 'rules'))) {
    for (const glob of itemsOf(childOf(rule, 'models'))) checkMatch(glob, 'C4004', linked);
  }
}

/** The region of a client is known only where a trusted proxy names it. */
function checkRegions({ root, findings }: Linked): void {
  const server = childOf(root, 'server');
  const header = childOf(server, 'region_header');
  if (header !== undefined && itemsOf(childOf(server, 'trusted_proxies')).length === 0) {
    findings.report('W7040', header.mark, 'no proxy is trusted to name the region of a client', {
      help: 'list the proxies that set this header under `trusted_proxies`',
    });
  }
  for (const rule of header === undefined ? routingRulesOf(root) : []) {
    const region = childOf(rule, 'region');
    if (region === undefined) continue;
    findings.report('W7040', region.mark, 'the region of a client is never known, so this rule never matches', {
      help: 'name the header that tells it under `server`: region_header: x-client-region',
    });
  }
}

type Options = Pick<AnnotationContext, 'env' | 'environment' | 'findings'> & {
  /** Where paths in gateway.yaml begin. */
  readonly directory: string;
};

/** Finds proxies that cannot be used: those that upstreams name, and those of the environment that requests would go through. */
export function linkWays(root: MapNode, options: Options): void {
  for (const upstream of itemsOf(childOf(root, 'upstreams'))) {
    const proxy = childOf(upstream, 'proxy');
    if (proxy === undefined) checkEnvironment(childOf(upstream, 'base_url'), options);
    else checkProxy(proxy, options);
  }
  checkEnvironment(childOf(root, 'auth', 'oidc', 'issuer_url'), options);
  checkEnvironment(childOf(root, 'telemetry', 'otlp', 'endpoint'), options);
  for (const destination of itemsOf(childOf(root, 'telemetry', 'forward_to'))) {
    checkEnvironment(childOf(destination, 'url'), options);
  }
}

const EXPECTED = 'none, http://host:port or https://host:port';

function checkProxy(proxy: Node, { env, environment, findings, directory }: Options): void {
  const entry = secretEntryOf(proxy, 'url_env');
  const written = textOf(entry?.value);
  if (entry !== undefined && written !== undefined) {
    const variable = entry.value;
    const name = entry.key === 'url_env' ? written : secretInFile(resolve(directory, written));
    const value = secretIn(name, env) ?? '';
    const problem = environment === 'ignored' || value === '' ? undefined : proxyProblem(value);
    if (problem === undefined) return;
    findings.report('C4082', variable.mark, `${secretHolder(name)} ${problem}`, {
      help: `set it to an address such as http://name:password@proxy.example.com:3128`,
    });
    return;
  }
  const text = textOf(proxy);
  if (text === undefined || text === 'none' || text === '') return;
  if (/@/.test(text)) {
    findings.hide(proxy);
    findings.report('C4082', proxy.mark, 'the address of the proxy holds credentials', {
      expected: EXPECTED,
      help: 'put the whole address into an environment variable, and write `proxy: { url_env: PROXY_URL }`',
    });
    return;
  }
  const problem = text.includes('://') ? proxyProblem(text) : 'has no scheme';
  if (problem === undefined) return;
  const help = /[.:]/.test(text) ? `write http://${text}` : 'to use none, write `proxy: none`';
  findings.report('C4082', proxy.mark, `${keyName('proxy')} ${problem}`, {
    expected: EXPECTED,
    ...(!text.includes('://') && { help }),
  });
}

/** Where a server is reached through a proxy of the environment, that has to be one. */
function checkEnvironment(node: Node | undefined, { env, environment, findings }: Options): void {
  const url = textOf(node);
  if (environment === 'ignored' || node === undefined || url === undefined || urlProblem(url, 'endpoint') !== undefined)
    return;
  const { host, hostname } = new URL(url);
  const variable = decidingVariable(new URL(url), env);
  const problem = variable?.is_proxy ? proxyProblem(env[variable.name]!) : undefined;
  if (problem === undefined) return;
  const { name } = variable!;
  findings.report('C4082', node.mark, `requests to ${host} go through the proxy of ${name}, which ${problem}`, {
    help: `correct ${name}, or list ${hostname} in NO_PROXY where it is reached directly`,
    once: true,
  });
}
