import { matchesGlob } from '../../kit/glob.ts';
import { isLoopbackUrl, urlProblem } from '../../kit/net/addresses.ts';
import { oneOf } from '../../kit/text/suggest.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import {
  childOf,
  type Entry,
  entriesOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Node,
  textOf,
} from '../../source/node.ts';
import type { KnownNames } from '../annotations.ts';
import { linkAllowed } from './link-allowed.ts';
import { checkGroupName, linkAuth } from './link-auth.ts';
import { reportExclusive, reportTwins } from './link-keys.ts';
import { linkMoney } from './link-money.ts';

/** Checks what must fit together in gateway.yaml; tolerates values that validation already refused. */
export function linkGateway(root: MapNode, names: KnownNames, findings: Findings): void {
  const linker = new GatewayLinker(root, names, findings);
  linker.names();
  linker.database();
  linker.upstreams();
  linker.models();
  linker.aliases();
  linker.tokenGroups();
  linker.routing();
  linker.regions();
  linkMoney(root, names, findings);
  linkAuth(root, findings);
}

/** What a base URL ends with when it holds part of the paths of requests. The version belongs into a compat one. */
const VENDOR_API_PATH = /^https?:\/\/[^/]+.*?(\/v1(?:\/messages|\/chat\/completions|\/responses)?)\/?$/;
const COMPAT_API_PATH = /^https?:\/\/[^/]+.*?(\/chat\/completions|\/responses)\/?$/;

function isCompat(upstream: Node): boolean {
  return textOf(childOf(upstream, 'type')) === 'compat';
}

class GatewayLinker {
  private readonly root: MapNode;
  private readonly findings: Findings;
  private readonly model_nodes: readonly Node[];
  private readonly known: KnownNames;

  constructor(root: MapNode, known: KnownNames, findings: Findings) {
    this.root = root;
    this.known = known;
    this.findings = findings;
    this.model_nodes = itemsOf(childOf(root, 'models'));
  }

  private list(section: string, key?: string): readonly Node[] {
    const node = childOf(this.root, section);
    return itemsOf(key === undefined ? node : childOf(node, key));
  }

  names(): void {
    const unique = (what: string, items: readonly Node[], key: string) => reportTwins(what, items, key, this.findings);
    unique('upstream', this.list('upstreams'), 'name');
    unique('model', this.model_nodes, 'id');
    unique('token group', this.list('token_groups'), 'name');
    unique('spend rule', this.list('spend_limits', 'rules'), 'name');
    const rules = this.list('routing', 'rules');
    unique('routing rule', rules, 'name');
    for (const name of rules.map((rule) => childOf(rule, 'name'))) {
      if (name === undefined || textOf(name) !== 'default') continue;
      this.findings.report('C4005', name.mark, 'the name "default" belongs to the default route', {
        help: 'give the rule another name: audit rows tell routes apart by it',
      });
    }
  }

  database(): void {
    reportExclusive(childOf(this.root, 'database'), ['postgres', 'embedded'], this.findings);
  }

  upstreams(): void {
    for (const upstream of this.list('upstreams')) {
      reportExclusive(upstream, ['api_key_env', 'auth_token_env'], this.findings);
      const named = ['api_key_env', 'auth_token_env'].some((key) => entryOf(upstream, key) !== undefined);
      this.protocols(upstream);
      this.apiPath(upstream);
      this.encryption(upstream);
      linkAllowed(upstream, this.findings);
      const name = childOf(upstream, 'name');
      if (named || name === undefined || entriesOf(upstream).some(({ key }) => /key|token/.test(key))) continue;
      this.findings.report('W7005', name.mark, `the upstream ${quote(textOf(name) ?? '')} has no credential`, {
        help: 'if it needs one: api_key_env or auth_token_env',
      });
    }
  }

  private protocols(upstream: Node): void {
    const counts = childOf(childOf(upstream, 'supports'), 'count_tokens');
    if (isCompat(upstream) && counts?.kind === 'scalar' && counts.value === true) {
      this.findings.report('C4022', counts.mark, 'an upstream of type compat has no call that counts tokens', {
        help: 'leave `count_tokens` out, or write false',
      });
    }
    const profile = entryOf(upstream, 'profile');
    if (isCompat(upstream) && profile !== undefined) {
      this.findings.report('C4022', profile.key_mark, 'only headers of the Messages API have names by vendor', {
        help: 'leave `profile` out; what an upstream of type compat is sent has the same names everywhere',
      });
    }
    const bound = entryOf(upstream, 'max_tokens_field');
    const spoken = itemsOf(childOf(upstream, 'protocols')).map(textOf);
    if (bound !== undefined && (!isCompat(upstream) || (spoken.length > 0 && !spoken.includes('chat')))) {
      this.findings.report('C4022', bound.key_mark, 'only chat completions have two fields that bound an answer', {
        help: 'leave `max_tokens_field` out, or write `type: compat` where the upstream speaks chat completions',
      });
    }
    const entry = entryOf(upstream, 'protocols');
    if (entry === undefined || isCompat(upstream)) return;
    this.findings.report('C4022', entry.key_mark, 'an upstream of type vendor speaks Messages and nothing else', {
      help: 'leave `protocols` out, or write `type: compat` where it speaks chat completions or Responses',
    });
  }

  /** A base URL that ends where the paths of requests begin. */
  private apiPath(upstream: Node): void {
    const node = childOf(upstream, 'base_url');
    const url = textOf(node) ?? '';
    const path = (isCompat(upstream) ? COMPAT_API_PATH : VENDOR_API_PATH).exec(url)?.[1];
    if (node === undefined || path === undefined) return;
    this.findings.report('W7031', node.mark, `the path of a request is added to this URL, which has ${path} already`, {
      help: `leave it out: ${url.slice(0, url.lastIndexOf(path))}`,
    });
  }

  /** A base URL whose requests anybody on the way could read, with the credential in them. */
  private encryption(upstream: Node): void {
    const node = childOf(upstream, 'base_url');
    const url = textOf(node) ?? '';
    if (node === undefined || !/^http:/i.test(url) || isLoopbackUrl(url) || urlProblem(url, 'base') !== undefined)
      return;
    const { host } = new URL(url);
    this.findings.report('W7042', node.mark, `prompts and the credential travel to ${host} without encryption`, {
      help: `write https://, or allow it where the network is yours: allow: { W7042: "${host} is in our cluster" }`,
    });
  }

  models(): void {
    const upstreams = this.known.upstream;
    for (const model of upstreams === undefined ? [] : this.model_nodes) {
      for (const { key, key_mark } of entriesOf(childOf(model, 'upstream_ids'))) {
        if (upstreams!.includes(key)) continue;
        this.findings.report('C4004', key_mark, `there is no upstream ${quote(key)}`, {
          help: oneOf(key, upstreams!, 'upstreams'),
        });
      }
    }
    const section = entryOf(this.root, 'models');
    if (section !== undefined && (section.value.kind !== 'list' || this.model_nodes.length > 0)) return;
    this.findings.report(
      'W7003',
      section?.value.mark ?? this.root.mark,
      'there are no models: every request will be refused',
      {
        help: 'list the models callers may use under `models:`',
      },
    );
  }

  /** A request names one model: by its id, or by one of its aliases. */
  aliases(): void {
    const taken = new Map<string, { readonly node: Node; readonly what: string }>();
    for (const model of this.model_nodes) {
      const node = childOf(model, 'id');
      const id = textOf(node);
      if (node !== undefined && id !== undefined && !taken.has(id)) taken.set(id, { node, what: 'the id of a model' });
    }
    for (const model of this.model_nodes) {
      const what = `an alias of ${quote(textOf(childOf(model, 'id')) ?? '')}`;
      for (const node of itemsOf(childOf(model, 'aliases'))) {
        const alias = textOf(node);
        const first = alias === undefined ? undefined : taken.get(alias);
        if (alias !== undefined && first === undefined) taken.set(alias, { node, what });
        // Twice in one list is for the schema to tell.
        if (alias === undefined || first === undefined || first.what === what) continue;
        this.findings.report('C4005', node.mark, `${quote(alias)} is ${first.what} already`, {
          help: `that is in line ${first.node.mark.line}; a request names one model`,
        });
      }
    }
  }

  tokenGroups(): void {
    if (this.known.model === undefined) return;
    const families = [...new Set(this.model_nodes.flatMap((model) => textOf(childOf(model, 'family')) ?? []))];
    for (const group of this.list('token_groups')) {
      for (const glob of itemsOf(childOf(group, 'models'))) this.matches(glob, 'W7002');
      for (const family of itemsOf(childOf(group, 'families'))) {
        const name = textOf(family);
        if (name === undefined || families.includes(name)) continue;
        this.findings.report('W7002', family.mark, `no model is of the family ${quote(name)}`, {
          help: oneOf(name, families, 'families', 'no model has a family'),
        });
      }
    }
  }

  private matches(glob: Node, code: 'W7002' | 'C4019'): void {
    const pattern = textOf(glob);
    const { model: ids } = this.known;
    if (pattern === undefined || ids === undefined || ids.some((id) => matchesGlob(pattern, id))) return;
    const meant = this.model_nodes.find((model) =>
      itemsOf(childOf(model, 'aliases')).some((alias) => textOf(alias) === pattern),
    );
    const id = meant && textOf(childOf(meant, 'id'));
    this.findings.report(code, glob.mark, `no model matches ${quote(pattern)}`, {
      help: id === undefined ? oneOf(pattern, ids, 'models') : `that is an alias; the id of the model is ${quote(id)}`,
    });
  }

  routing(): void {
    for (const rule of this.list('routing', 'rules')) {
      reportExclusive(rule, ['upstream', 'upstreams'], this.findings);
      const upstreams = itemsOf(childOf(rule, 'upstreams')).flatMap((item) => textOf(item) ?? []);
      for (const weight of entriesOf(childOf(rule, 'weights'))) this.weight(weight, upstreams);
      for (const glob of itemsOf(childOf(rule, 'models'))) this.matches(glob, 'C4019');
      const group = childOf(rule, 'group');
      if (group !== undefined) checkGroupName(group, this.findings);
    }
  }

  /** The region of a client is known only where a trusted proxy names it. */
  regions(): void {
    const server = childOf(this.root, 'server');
    const header = childOf(server, 'region_header');
    if (header !== undefined && itemsOf(childOf(server, 'trusted_proxies')).length === 0) {
      this.findings.report('W7040', header.mark, 'no proxy is trusted to name the region of a client', {
        help: 'list the proxies that set this header under `trusted_proxies`',
      });
    }
    for (const rule of header === undefined ? this.list('routing', 'rules') : []) {
      const region = childOf(rule, 'region');
      if (region === undefined) continue;
      this.findings.report('W7040', region.mark, 'the region of a client is never known, so this rule never matches', {
        help: 'name the header that tells it under `server`: region_header: x-client-region',
      });
    }
  }

  private weight({ key, key_mark }: Entry, upstreams: readonly string[]): void {
    if (upstreams.includes(key)) return;
    this.findings.report('C4004', key_mark, `this rule has no upstream ${quote(key)}`, {
      help: oneOf(key, upstreams, 'upstreams of this rule'),
    });
  }
}
