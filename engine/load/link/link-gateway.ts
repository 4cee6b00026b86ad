import { NO_MODEL } from '../../contract/no-model.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { isLoopbackUrl, urlProblem } from '../../kit/net/addresses.ts';
import { oneOf } from '../../kit/text/suggest.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entriesOf, entryOf, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';
import type { KnownNames } from '../annotations.ts';
import { linkAllowed } from './link-allowed.ts';
import { checkGroupName, linkAuth } from './link-auth.ts';
import { linkHeaders, linkQuery, namesCredential } from './link-headers.ts';
import { reportExclusive, reportExclusiveSecrets, reportTwins, secretEntryOf } from './link-keys.ts';
import { linkMetrics } from './link-metrics.ts';
import { linkMoney } from './link-money.ts';
import { linkRoute } from './link-routes.ts';
import { linkTelemetryUrls } from './link-telemetry-urls.ts';

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
  linkAllowed(upstream, findings);
  linkHeaders(upstream, findings);
  linkQuery(upstream, findings);
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

function checkMatch(glob: Node, code: 'W7002' | 'C4019', { root, names: { model: ids }, findings }: Linked): void {
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
    for (const glob of itemsOf(childOf(rule, 'models'))) checkMatch(glob, 'C4019', linked);
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
    for (const glob of itemsOf(childOf(rule, 'models'))) checkMatch(glob, 'C4019', linked);
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
