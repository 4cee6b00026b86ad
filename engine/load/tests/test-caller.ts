/** Checks the names a case has for its caller and model, against the configuration it runs with. */
import type { GatewayConfig } from '../../contract/config.ts';
import { almost, closest, oneOf } from '../../kit/text/suggest.ts';
import { quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entryOf, itemsOf, type Node, textOf } from '../../source/node.ts';

/** Groups the configuration goes by at sign-in, and its token groups. */
function groupsOf({ auth, token_groups }: GatewayConfig): readonly string[] {
  const assigned = [...(auth?.teams ?? []), ...(auth?.projects ?? [])].flatMap(({ groups }) => groups);
  return [
    ...(auth?.known_groups ?? []),
    ...(auth?.oidc?.allowed_groups ?? []),
    ...(auth?.admin_groups ?? []),
    ...assigned,
    ...token_groups.map(({ name }) => name),
  ];
}

/** Strangers are for tests to play: only a name that is almost a known one is most likely a mistake. */
function reportAlmost(
  what: string,
  node: Node | undefined,
  known: readonly string[],
  findings: Findings,
  near = almost,
): void {
  const name = textOf(node);
  const meant = name === undefined || known.includes(name) ? undefined : near(name, known);
  if (meant === undefined) return;
  findings.report('W7201', node!.mark, `the ${what} ${quote(name!)} is almost ${quote(meant)}`, {
    help: `did you mean \`${meant}\`?`,
  });
}

/** Checks the models, upstreams and rules whose counters a case says are spent, or granted more. */
export function checkCounters(node: Node, config: GatewayConfig, findings: Findings): void {
  const names: Readonly<Record<string, readonly string[]>> = {
    model: config.models.map(({ id }) => id),
    upstream: config.upstreams.map(({ name }) => name),
    rule: (config.spend_limits?.rules ?? []).map(({ name }) => name),
  };
  for (const item of ['spent', 'grants'].flatMap((key) => itemsOf(childOf(node, key)))) {
    const [scopes, keys] = ['scope', 'key'].map((name) => {
      const value = childOf(item, name);
      return value === undefined ? [] : value.kind === 'list' ? itemsOf(value) : [value];
    });
    for (const [at, scope] of (scopes ?? []).entries()) {
      const kind = textOf(scope) ?? '';
      const known = names[kind];
      if (known !== undefined) reportAlmost(kind, keys?.[at], known, findings, closest);
    }
  }
}

/** Whether a step expects to be refused, so that what it names need not exist. */
function isRefused(step: Node): boolean {
  const expect = childOf(step, 'expect');
  const status = childOf(expect, 'status');
  if (status?.kind === 'scalar' && Number(status.value) >= 400) return true;
  return textOf(childOf(expect, 'error')) !== undefined;
}

/** Checks the caller and the model of a step of a case. */
export function checkCaller(step: Node, config: GatewayConfig, findings: Findings): void {
  const caller = childOf(step, 'caller');
  const token_groups = config.token_groups.map(({ name }) => name);
  const group = childOf(caller, 'group');
  const name = textOf(group) ?? '';
  if (group !== undefined && token_groups.length > 0 && !token_groups.includes(name)) {
    findings.report('C4020', group.mark, `there is no token group ${quote(name)}`, {
      help: oneOf(name, token_groups, 'token groups'),
    });
  }
  for (const node of itemsOf(childOf(caller, 'groups'))) reportAlmost('group', node, groupsOf(config), findings);
  for (const what of ['team', 'project'] as const) {
    const known = (config.auth?.[`${what}s`] ?? []).map((each) => each.name);
    reportAlmost(what, childOf(caller, what), known, findings);
  }
  if (!isRefused(step)) {
    const known = config.models.flatMap(({ id, aliases, group_aliases }) => [
      id,
      ...aliases,
      ...group_aliases.map((alias) => alias.name),
    ]);
    reportAlmost('model', childOf(step, 'request', 'json', 'model'), known, findings, closest);
  }
  const region = entryOf(caller, 'region');
  if (region !== undefined && config.server.region_header === undefined) {
    findings.report('C8006', region.key_mark, 'this configuration does not know the region of a caller', {
      help: 'name the header that tells it in gateway.yaml: server: { region_header: x-region }',
    });
  }
}
