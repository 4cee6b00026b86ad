import { resolve } from 'node:path';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { NO_MODEL } from '../../../base/contract/no-model.ts';
import { PROTOCOL_PATHS } from '../../../base/contract/protocol.ts';
import { matchesGlob } from '../../../base/kit/glob.ts';
import { isLoopbackUrl, parseListenAddress, urlProblem } from '../../../base/kit/net/addresses.ts';
import { decidingVariable, proxyProblem } from '../../../base/kit/net/proxy-route.ts';
import { secretHolder, secretIn, secretInFile } from '../../../base/kit/secret-names.ts';
import { didYouMean, oneOf } from '../../../base/kit/text/suggest.ts';
import { looksSecret } from '../../../base/source/diagnostics/secrets.ts';
import type { Findings } from '../../../base/source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  keyName,
  type MapNode,
  type Mark,
  type Node,
  nodeAt,
  quote,
  textOf,
} from '../../../base/source/node.ts';
import { fieldRule, PRIVILEGED_NAMES } from '../../../domain/protocols/body/privileged-fields.ts';
import { DEFINITIONS } from '../../../domain/protocols/definitions.ts';
import { decisionOf, isPrivilegedHeader, PRIVILEGED_HEADERS, whyNotFixed } from '../../../domain/upstreams/headers.ts';
import {
  DEFAULT_UPSTREAM_TYPE,
  isUpstreamType,
  spokenBy,
  UPSTREAM_TYPE_NAMES,
  UPSTREAM_TYPES,
  type UpstreamTypeName,
} from '../../../domain/upstreams/types/index.ts';
import type { AnnotationContext, KnownNames } from '../annotations.ts';
import { checkGroupName, linkAuth } from './link-auth.ts';
import {
  itemsAt,
  repeated,
  reportExclusive,
  reportExclusiveSecrets,
  reportRepeated,
  reportUnknown,
  secretEntryOf,
  textsAt,
  type Written,
} from './link-keys.ts';
import { linkMoney } from './link-money.ts';

interface Linked {
  readonly root: MapNode;
  readonly names: KnownNames;
  readonly findings: Findings;
}

/** Lists of named entries, and where the names are. */
const NAMED = [
  ['upstreams', 'upstreams.*.name'],
  ['models', 'models.*.id'],
  ['token groups', 'token_groups.*.name'],
  ['spend rules', 'spend_limits.rules.*.name'],
  ['routing rules', 'routing.rules.*.name'],
  ['access rules', 'access.rules.*.name'],
  ['teams', 'auth.teams.*.name'],
  ['projects', 'auth.projects.*.name'],
] as const;

/** Checks gateway.yaml beyond its schema; tolerates values that validation rejected. */
export function linkGateway(root: MapNode, names: KnownNames, findings: Findings): void {
  const linked = { root, names, findings };
  for (const [what, path] of NAMED) reportRepeated(what, textsAt(root, path), findings);
  checkReserved(linked);
  reportExclusive(childOf(root, 'database'), ['postgres', 'embedded'], findings);
  for (const upstream of itemsAt(root, 'upstreams')) checkUpstream(upstream, findings);
  checkModels(linked);
  checkAliases(itemsAt(root, 'models'), findings);
  checkTokenGroups(linked);
  checkRouting(linked);
  for (const glob of textsAt(root, 'access.rules.*.models.*')) checkMatch(glob, 'C4004', linked);
  checkHeaders(linked);
  checkRegions(linked);
  linkMoney(root, names, findings);
  linkAuth(root, findings);
  linkMetrics(root, findings);
  linkTelemetryUrls(root, findings);
}

/** Reports names that the ledger and the audit log use for something else. */
function checkReserved({ root, findings }: Linked): void {
  for (const { text, mark } of textsAt(root, 'routing.rules.*.name')) {
    if (text !== 'default') continue;
    findings.report('C4005', mark, 'the name "default" is reserved for the default route', {
      help: 'rename the rule: the audit log identifies routes by name',
    });
  }
  for (const model of itemsAt(root, 'models')) {
    const id = childOf(model, 'id');
    for (const node of [id, ...aliasesOf(model).map((alias) => alias.node)]) {
      if (node === undefined || textOf(node) !== NO_MODEL.id) continue;
      findings.report('C4005', node.mark, `the name ${quote(NO_MODEL.id)} is reserved for requests without a model`, {
        help: `rename the ${node === id ? 'model' : 'alias'}: the ledger identifies models by name`,
      });
    }
  }
}

function checkUpstream(upstream: Node, findings: Findings): void {
  const keys = ['api_key_env', 'auth_token_env'];
  reportExclusiveSecrets(upstream, keys, findings);
  checkType(upstream, findings);
  checkBaseUrl(upstream, findings);
  linkHeaders(upstream, findings);
  linkQuery(upstream, findings);
  linkAllowed(upstream, findings);
  const name = childOf(upstream, 'name');
  const has_secret_header = entriesOf(childOf(upstream, 'headers')).some(
    ({ value }) => textOf(secretEntryOf(value, 'value_env')?.value) !== undefined,
  );
  if (has_secret_header || keys.some((key) => secretEntryOf(upstream, key) !== undefined)) return;
  if (name === undefined || entriesOf(upstream).some(({ key }) => /key|token/.test(key))) return;
  findings.report('W7005', name.mark, `the upstream ${quote(textOf(name) ?? '')} has no credential`, {
    help: 'if it needs one, set api_key_env or auth_token_env, or for a file api_key_file or auth_token_file',
  });
}

/** The type of an upstream; the default one where gateway.yaml has none that exists. */
function typeNameOf(upstream: Node): UpstreamTypeName {
  const name = textOf(childOf(upstream, 'type')) ?? '';
  return isUpstreamType(name) ? name : DEFAULT_UPSTREAM_TYPE;
}

function checkType(upstream: Node, findings: Findings): void {
  const name = typeNameOf(upstream);
  const { protocols, selectable_protocols, counts_tokens } = UPSTREAM_TYPES[name];
  const reject = (entry: Entry | undefined, message: string, help = `remove ${keyName(entry?.key ?? '')}`) => {
    if (entry !== undefined) findings.report('C4022', entry.key_mark, message, { help });
  };
  const spoken = textsAt(upstream, 'protocols.*').map(({ text }) => text);
  const supports = childOf(upstream, 'supports');
  if (!counts_tokens && supports !== undefined && flagOf(supports, 'count_tokens') === true)
    reject(entryOf(supports, 'count_tokens'), `an upstream of type ${name} has no endpoint that counts tokens`);
  if (!protocols.some((protocol) => Object.keys(DEFINITIONS[protocol].form_headers).length > 0))
    reject(entryOf(upstream, 'profile'), 'only upstreams that speak Messages have a profile');
  const bounded = protocols.filter((protocol) => DEFINITIONS[protocol].output.fields.length > 1);
  if (!bounded.some((protocol) => spoken.length === 0 || spoken.includes(protocol)))
    reject(entryOf(upstream, 'max_tokens_field'), '`max_tokens_field` is only for chat completions');
  const known: readonly string[] = selectable_protocols;
  // What no type offers, the schema rejects.
  if (known.length > 0 && spoken.every((protocol) => known.includes(protocol) || !OFFERED.includes(protocol))) return;
  const others = UPSTREAM_TYPE_NAMES.filter((other) => UPSTREAM_TYPES[other].selectable_protocols.length > 0);
  const help = `remove \`protocols\`, or choose another type: ${others.join(', ')}`;
  reject(entryOf(upstream, 'protocols'), `an upstream of type ${name} only speaks ${spokenBy(name)}`, help);
}

const OFFERED: readonly string[] = Object.values(UPSTREAM_TYPES).flatMap((type) => type.selectable_protocols);

const PATH_ENDS = Object.values(PROTOCOL_PATHS)
  .map((path) => path.slice('/v1'.length))
  .join('|');

/** Matches a base URL that ends with a part of a request's path, which is the group. */
const PATH_END = new RegExp(`^https?://[^/]+.*?(${PATH_ENDS})/?$`);
const VERSIONED_END = new RegExp(`^https?://[^/]+.*?(/v1(?:${PATH_ENDS})?)/?$`);

function checkBaseUrl(upstream: Node, findings: Findings): void {
  for (const { text: url, mark } of textsAt(upstream, 'base_url')) {
    const { versioned_base_url } = UPSTREAM_TYPES[typeNameOf(upstream)];
    const path = (versioned_base_url ? PATH_END : VERSIONED_END).exec(url)?.[1];
    // `append_v1: false` declares it complete.
    if (path !== undefined && !(path === '/v1' && flagOf(upstream, 'append_v1') === false))
      findings.report('W7031', mark, `the gateway appends the request path, and this URL already ends in ${path}`, {
        help: `write ${url.slice(0, url.lastIndexOf(path))}`,
      });
    if (/^http:/i.test(url) && urlProblem(url, 'base') === undefined)
      reportUnencrypted(mark, url, 'prompts and the credential are sent', findings);
  }
}

function reportUnencrypted(mark: Mark, url: string, what: string, findings: Findings): void {
  if (isLoopbackUrl(url)) return;
  const { host } = new URL(url);
  findings.report('W7042', mark, `${what} to ${host} without encryption`, {
    help: `use https://, or allow it on a trusted network: allow: { W7042: "${host} is in our cluster" }`,
  });
}

/** Names of headers and query parameters with secrets; servers and proxies log query strings. */
const SECRET_NAME =
  /(?:^|[-_.])(?:(?:api)?key|token|secret|password|passwd|pwd|auth|authorization|credentials?|cookie|jwt|sig|signature)$/i;

/** Cookies and account keys are credentials under any name. */
const isCookie = (key: string): boolean =>
  key === 'cookie2' || (decisionOf(key) === 'account' && /key|cookie/.test(key));

/** Reports fixed headers that must not be set for every request, and literal secrets among them. */
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
      const variable = key.toUpperCase().replaceAll('-', '_');
      const message = `the header ${quote(key)} contains a secret, which must not be in the file`;
      findings.report('C4081', value.mark, message, {
        expected: 'the name of an environment variable with the value',
        help: `write \`${key}: { value_env: ${variable} }\` and put the value into the environment`,
      });
    }
  }
}

/** Reports query parameters that determine the model or the price, and literal secrets among them. */
function linkQuery(upstream: Node, findings: Findings): void {
  for (const { key, key_mark, value } of entriesOf(childOf(upstream, 'query'))) {
    const decides = fieldRule(key, true)?.decides;
    const text = textOf(value);
    if (text !== undefined && (key === 'code' || SECRET_NAME.test(key) || looksSecret(text))) {
      findings.hide(value);
      findings.report('C4081', value.mark, `the query parameter ${quote(key)} contains a secret`, {
        expected: 'a parameter that may appear in logs, such as api-version',
        help: 'name the variable with the secret in api_key_env, auth_token_env, or value_env of a header',
      });
    } else if (decides === 'model' || decides === 'price') {
      const message = `the query parameter ${quote(key)} cannot be set for an upstream: it determines the ${decides}, which limits and bills would not see`;
      const help = 'configure the model in `models` and its price in `prices`';
      findings.report('C4080', key_mark, message, { help });
    }
  }
}

/** Reports names in `allow_fields` and `allow_headers` that have no effect there: most likely they are misspelt. */
function linkAllowed(upstream: Node, findings: Findings): void {
  const report = (mark: Mark, problem: string, help: string) => findings.report('W7032', mark, problem, { help });
  const otherwise = 'see the reference of privileged fields';
  for (const { text: field, mark } of textsAt(upstream, 'allow_fields.*')) {
    const keys = field.replaceAll('[]', '').split('.');
    const { rule = 'pass' } = fieldRule(keys.at(-1)!, keys.length === 1) ?? {};
    if (field === 'tools[]' || rule !== 'pass') continue;
    const message = `the field ${quote(field)} needs no allowance: it is never rejected`;
    report(mark, message, didYouMean(field, PRIVILEGED_NAMES, otherwise));
  }
  const known = PRIVILEGED_HEADERS.map(({ name }) => name);
  for (const { text: header, mark } of textsAt(upstream, 'allow_headers.*')) {
    if (isPrivilegedHeader(header)) continue;
    const message = `the header ${quote(header)} needs no allowance: \`allow_headers\` does not control it`;
    report(mark, message, didYouMean(header, known, otherwise));
  }
}

function checkModels({ root, names: { upstream: upstreams }, findings }: Linked): void {
  const models = itemsAt(root, 'models');
  for (const model of upstreams === undefined ? [] : models) {
    const by_upstream = ['upstream_ids', 'context_windows'].flatMap((name) => entriesOf(childOf(model, name)));
    for (const { key, key_mark } of by_upstream)
      reportUnknown({ text: key, mark: key_mark }, 'upstream', upstreams!, findings);
  }
  const section = childOf(root, 'models');
  if (section?.kind !== 'list' || models.length > 0) return;
  findings.report('W7003', section.mark, 'there are no models: every request will be rejected', {
    help: 'list models (for large providers the id is enough: `- id: ...`), or remove `models` to serve what the upstreams list',
  });
}

const aliasesOf = (model: Node) =>
  itemsAt(model, 'aliases').map((item) => {
    const node = childOf(item, 'name') ?? item;
    return { node, name: textOf(node), groups: item.kind === 'map' ? itemsAt(item, 'groups').map(textOf) : undefined };
  });

/** Reports names of more than one model: for each group, an id or alias must name one model. */
function checkAliases(models: readonly Node[], findings: Findings): void {
  const taken = new Map<string, { readonly mark: Mark; readonly what: string }>();
  const claim = (key: string, name: string, { mark }: Node, what: string, of = '') => {
    const first = taken.get(key);
    if (first === undefined) taken.set(key, { mark, what });
    // The schema reports repetitions within one list.
    if (first === undefined || first.what === what) return;
    findings.report('C4005', mark, `${quote(name)} is already ${first.what}${of}`, {
      help: `remove or rename one of the two: the other is in line ${first.mark.line}`,
    });
  };
  for (const { text, mark } of models.flatMap((model) => textsAt(model, 'id')))
    if (!taken.has(text)) taken.set(text, { mark, what: 'the id of a model' });
  const ids = new Set(taken.keys());
  for (const model of models) {
    const own_id = textOf(childOf(model, 'id'));
    const what = `an alias of ${quote(own_id ?? '')}`;
    for (const { node, name, groups } of aliasesOf(model)) {
      if (name === undefined) continue;
      if (name === own_id) {
        const help = 'remove the alias: requests with the id need none';
        findings.report('C4005', node.mark, `${quote(name)} is already the id of this model`, { help });
        continue;
      }
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
  for (const glob of textsAt(root, 'token_groups.*.models.*')) checkMatch(glob, 'W7002', linked);
  const families = [...new Set(textsAt(root, 'models.*.family').map(({ text }) => text))];
  for (const { text, mark } of textsAt(root, 'token_groups.*.families.*')) {
    if (families.includes(text)) continue;
    findings.report('W7002', mark, `no model is of the family ${quote(text)}`, {
      help: oneOf(text, families, 'families', 'no model has a family'),
    });
  }
}

function checkMatch({ text, mark }: Written, code: 'W7002' | 'C4004', { root, names, findings }: Linked): void {
  const { model: ids } = names;
  if (ids === undefined || ids.some((id) => matchesGlob(text, id))) return;
  const meant = itemsAt(root, 'models').find((model) => aliasesOf(model).some(({ name }) => name === text));
  const id = meant && textOf(childOf(meant, 'id'));
  findings.report(code, mark, `no model matches ${quote(text)}`, {
    help:
      id === undefined
        ? oneOf(text, ids, 'configured models', 'there are no models')
        : `it is an alias; the id of the model is ${quote(id)}`,
  });
}

/** Reports a route with both forms (one upstream, several), and repeated upstreams. */
function linkRoute(owner: Node | undefined, key: string, findings: Findings): void {
  reportExclusive(owner, [key, `${key}s`], findings);
  const names = itemsAt(owner, `${key}s`).map((entry) => childOf(entry, 'upstream') ?? entry);
  for (const [node, first] of repeated(names, textOf)) {
    findings.report('C3010', node.mark, `${quote(textOf(node)!)} is listed twice`, {
      help: `remove this one (the first is in line ${first.mark.line}); for a larger share of requests, raise the \`weight\` of the first`,
    });
  }
}

function checkRouting(linked: Linked): void {
  const { root, findings } = linked;
  linkRoute(childOf(root, 'routing'), 'default_upstream', findings);
  for (const rule of itemsAt(root, 'routing.rules')) {
    linkRoute(rule, 'upstream', findings);
    for (const glob of textsAt(rule, 'models.*')) checkMatch(glob, 'C4004', linked);
    const group = childOf(rule, 'group');
    if (group !== undefined) checkGroupName(group, findings);
  }
}

const CREDENTIALS = /^(?:authorization|proxy-authorization|cookie|set-cookie|x-api-key|api-key)$|token|secret|password/;

function checkHeaders({ root, findings }: Linked): void {
  for (const { text: name, mark } of textsAt(root, 'facts.headers.*')) {
    if (!CREDENTIALS.test(name)) continue;
    findings.report('C5031', mark, `the header ${quote(name)} contains a credential`, {
      help: 'facts are written to the audit log; to identify callers, use `principal.*` in conditions',
    });
  }
  for (const { text: name, mark } of textsAt(root, 'server.region_header')) {
    if (!CREDENTIALS.test(name)) continue;
    findings.report('C5031', mark, `the header ${quote(name)} contains a credential`, {
      help: 'the region is written to the audit log; name a header such as x-client-region',
    });
  }
}

/** The region of a client comes only from the header of a trusted proxy. */
function checkRegions({ root, findings }: Linked): void {
  const server = childOf(root, 'server');
  const header = childOf(server, 'region_header');
  if (header === undefined) {
    for (const region of itemsAt(root, 'routing.rules').flatMap((rule) => childOf(rule, 'region') ?? []))
      findings.report('W7040', region.mark, 'the region of a client is never known, so this rule never matches', {
        help: 'name its header under `server`: region_header: x-client-region',
      });
  } else if (itemsAt(server, 'trusted_proxies').length === 0) {
    findings.report('W7040', header.mark, 'no trusted proxy sets this header', {
      help: 'list the proxies that set it under `trusted_proxies`',
    });
  }
}

const EVERYWHERE = ['0.0.0.0', '::'];

const meet = (one: string, other: string): boolean =>
  one === other || EVERYWHERE.includes(one) || EVERYWHERE.includes(other);

const gatewayAddress = (root: MapNode) => parseListenAddress(textOf(childOf(root, 'server', 'listen')) ?? '');

/** Checks the address of metrics: it needs a token on other interfaces, and a port of its own. */
function linkMetrics(root: MapNode, findings: Findings): void {
  const metrics = childOf(root, 'telemetry', 'metrics');
  const token = secretEntryOf(metrics, 'token_env');
  if (token !== undefined && entryOf(metrics, 'listen') === undefined) {
    findings.report('W7050', token.key_mark, `${keyName(token.key)} has no effect without \`listen\``, {
      help: 'set `listen` to the address for metrics, or remove the key',
    });
  }
  for (const { text: listen, mark } of textsAt(metrics, 'listen')) {
    const address = parseListenAddress(listen);
    if (address === undefined) return;
    const { host, port } = address;
    if (token === undefined && !isLoopbackUrl(`http://${listen}`)) {
      findings.report('C4050', mark, 'other machines could read the metrics without a token', {
        help: `write 127.0.0.1:${port}, or name the variable with a token for readers: \`token_env: METRICS_TOKEN\``,
      });
    }
    const gateway = gatewayAddress(root);
    if (gateway?.port !== port || port === 0 || !meet(gateway.host, host)) return;
    findings.report('C4023', mark, 'metrics cannot share the port of the gateway', {
      help: 'use another port, such as 9464',
    });
  }
}

const SIGNALS = ['traces', 'metrics', 'logs'] as const;
const ENDPOINTS = { traces: 'endpoint', metrics: 'metrics_endpoint', logs: 'logs_endpoint' } as const;
/** The usual port of OTLP over gRPC. */
const GRPC_PORT = '4317';
const SIGNAL_PATH = /\/v1\/(traces|metrics|logs)\/?$/;

/** Checks the destinations of telemetry, of the gateway and of clients. */
function linkTelemetryUrls(root: MapNode, findings: Findings): void {
  const otlp = childOf(root, 'telemetry', 'otlp');
  for (const key of Object.values(ENDPOINTS)) checkDestination(childOf(otlp, key), findings);
  if (otlp !== undefined) checkPaths(otlp, findings);
  for (const destination of itemsAt(root, 'telemetry.forward_to')) {
    const url = childOf(destination, 'url');
    checkDestination(url, findings);
    checkCircle(root, url, findings);
    if (SIGNALS.some((signal) => flagOf(destination, signal) ?? signal === 'metrics')) continue;
    findings.report('W7086', destination.mark, 'nothing is sent to this destination', {
      help: 'write `metrics: true`, `logs: true` or `traces: true`, or remove the entry',
    });
  }
}

function usableUrl(node: Node | undefined): URL | undefined {
  const text = textOf(node);
  return text === undefined || urlProblem(text, 'endpoint') !== undefined ? undefined : new URL(text);
}

function checkDestination(node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url === undefined) return;
  if (url.protocol === 'http:') reportUnencrypted(node.mark, url.href, 'telemetry is sent', findings);
  if (url.port !== GRPC_PORT) return;
  findings.report('W7087', node.mark, 'port 4317 is usually for OTLP over gRPC, which the gateway does not speak', {
    help: "write the collector's port for HTTP, usually 4318",
  });
}

/** Reports the gateway itself as a destination: an endless loop. */
function checkCircle(root: MapNode, node: Node | undefined, findings: Findings): void {
  const url = usableUrl(node);
  if (node === undefined || url === undefined) return;
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const is_own_port = gatewayAddress(root)?.port === port && isLoopbackUrl(url.href);
  if (url.origin !== usableUrl(childOf(root, 'server', 'public_url'))?.origin && !is_own_port) return;
  findings.report('C4056', node.mark, 'this is the gateway itself: the telemetry of clients would loop', {
    help: 'write the address of a collector',
  });
}

/** Reports a signal that is sent to the path of another one, or nowhere. */
function checkPaths(otlp: Node, findings: Findings): void {
  for (const signal of SIGNALS) {
    const own = childOf(otlp, ENDPOINTS[signal]);
    const node = own ?? childOf(otlp, 'endpoint');
    const { origin, pathname = '/' } = usableUrl(node) ?? {};
    const wanted = own === undefined ? 'traces' : signal;
    const ends_in = SIGNAL_PATH.exec(pathname)?.[1] ?? (own === undefined ? undefined : signal);
    const is_sent = flagOf(otlp, signal) ?? signal !== 'logs';
    if (node === undefined || pathname === '/' || !is_sent || ends_in === wanted) continue;
    const where = own === undefined ? 'nowhere: this URL' : 'to this URL, which';
    findings.report('W7087', node.mark, `${signal} are sent ${where} does not end in /v1/${wanted}`, {
      help: `write ${origin}${pathname.replace(SIGNAL_PATH, '').replace(/\/+$/, '')}/v1/${wanted}`,
    });
    if (own === undefined || signal === 'traces') return;
  }
}

function flagOf(node: Node, key: string): boolean | undefined {
  const flag = childOf(node, key);
  return flag?.kind === 'scalar' && typeof flag.value === 'boolean' ? flag.value : undefined;
}

/** A route after defaults, with the JSON pointer of its list; `undefined` for the short form with one upstream. */
export type WrittenRoute = ReturnType<typeof writtenRoutes>[number];

/** The routes of a configuration, those in shadow mode included, the default one last. */
export function writtenRoutes({ routing }: GatewayConfig, root: MapNode) {
  const listAt = (pointer: string) => (nodeAt(root, pointer).kind === 'list' ? pointer : undefined);
  return [
    ...routing.rules.map(({ upstreams }, index) => {
      return { upstreams, pointer: listAt(`/routing/rules/${index}/upstreams`) };
    }),
    { upstreams: routing.default_upstreams, pointer: listAt('/routing/default_upstreams') },
  ];
}

/** The mark for a finding about an entry of a route: at a key, or at its name. */
export function markOfEntry(root: MapNode, { pointer }: WrittenRoute, index: number, key?: string): Mark {
  const entry = nodeAt(root, `${pointer}/${index}`);
  return ((key === undefined ? undefined : childOf(entry, key)) ?? childOf(entry, 'upstream') ?? entry).mark;
}

/** Checks routes and breakers after defaults. */
export function checkRoutes(config: GatewayConfig, root: MapNode, findings: Findings): void {
  for (const route of writtenRoutes(config, root)) checkWeights(route, root, findings);
  config.upstreams.forEach(({ breaker: { open_seconds, open_seconds_max } }, index) => {
    if (open_seconds <= open_seconds_max) return;
    const breaker = nodeAt(root, `/upstreams/${index}/breaker`);
    const { mark } = childOf(breaker, 'open_seconds_max') ?? childOf(breaker, 'open_seconds')!;
    findings.report('C4023', mark, '`open_seconds` is above `open_seconds_max`', {
      found: `open_seconds: ${open_seconds}, open_seconds_max: ${open_seconds_max}`,
      expected: 'open_seconds_max of at least open_seconds',
      help: `write open_seconds_max: ${open_seconds}, or a shorter open_seconds`,
    });
  });
}

function checkWeights(route: WrittenRoute, root: MapNode, findings: Findings): void {
  const { upstreams, pointer } = route;
  for (const [order, entries] of pointer === undefined ? [] : Map.groupBy(upstreams, (entry) => entry.order)) {
    if (entries.some(({ weight }) => weight > 0)) continue;
    const mark = markOfEntry(root, route, upstreams.indexOf(entries[0]!), 'weight');
    findings.report('C4023', mark, `no upstream of order ${order} has a weight above 0`, {
      help: 'give one of them a weight, such as 1, or remove `weight`: the order decides when an upstream is used',
    });
  }
}

type Options = Pick<AnnotationContext, 'env' | 'environment' | 'findings'> & {
  readonly directory: string;
};

const EXPECTED = 'none, http://host:port or https://host:port';

/** Reports unusable proxies, of upstreams and of the environment. */
export function checkProxies(root: MapNode, options: Options): void {
  const urls = ['auth.oidc.issuer_url', 'telemetry.otlp.endpoint', 'telemetry.forward_to.*.url'];
  for (const upstream of itemsAt(root, 'upstreams')) {
    const proxy = childOf(upstream, 'proxy');
    if (proxy !== undefined) checkProxy(proxy, options);
    else for (const url of textsAt(upstream, 'base_url')) checkEnvironment(url, options);
  }
  for (const url of urls.flatMap((path) => textsAt(root, path))) checkEnvironment(url, options);
}

/** Reports an unusable proxy of the environment that requests to a server would use. */
function checkEnvironment({ text, mark }: Written, { env, environment, findings }: Options): void {
  if (environment === 'ignored' || urlProblem(text, 'endpoint') !== undefined) return;
  const { host, hostname } = new URL(text);
  const { name = '', is_proxy } = decidingVariable(new URL(text), env) ?? {};
  const problem = is_proxy ? proxyProblem(env[name]!) : undefined;
  if (problem === undefined) return;
  findings.report('C4082', mark, `requests to ${host} go through the proxy of ${name}, which ${problem}`, {
    help: `correct ${name}, or list ${hostname} in NO_PROXY to connect directly`,
    once: true,
  });
}

function checkProxy(proxy: Node, { env, environment, findings, directory }: Options): void {
  const entry = secretEntryOf(proxy, 'url_env');
  const written = textOf(entry?.value);
  if (entry !== undefined && written !== undefined) {
    const name = entry.key === 'url_env' ? written : secretInFile(resolve(directory, written));
    const value = secretIn(name, env) ?? '';
    const problem = environment === 'ignored' || value === '' ? undefined : proxyProblem(value);
    if (problem === undefined) return;
    findings.report('C4082', entry.value.mark, `${secretHolder(name)} ${problem}`, {
      help: `set it to an address such as http://name:password@proxy.example.com:3128`,
    });
    return;
  }
  const text = textOf(proxy);
  if (text === undefined || text === 'none') return;
  if (text.includes('@')) {
    findings.hide(proxy);
    findings.report('C4082', proxy.mark, 'the address of the proxy contains credentials', {
      expected: EXPECTED,
      help: 'put the whole address into an environment variable, and write `proxy: { url_env: PROXY_URL }`',
    });
    return;
  }
  const problem = text.includes('://') ? proxyProblem(text) : 'has no scheme';
  if (problem !== undefined) findings.report('C4082', proxy.mark, `\`proxy\` ${problem}`, { expected: EXPECTED });
}
