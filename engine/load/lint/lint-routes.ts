/** Warns about routes of several upstreams that would not help when one of them fails, and settings that decide nothing. */
import type { GatewayConfig, ModelConfig, UpstreamConfig } from '../../contract/config.ts';
import { matchesGlob } from '../../kit/glob.ts';
import { closest } from '../../kit/text/suggest.ts';
import { keyName, quote } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entriesOf, isWritten, type MapNode, nodeAt } from '../../source/node.ts';
import { ownBoundary } from '../config-shape.ts';
import { markOfEntry, type WrittenRoute, writtenRoutes } from '../link/link-routes.ts';

interface Linted {
  readonly config: GatewayConfig;
  readonly root: MapNode;
  readonly findings: Findings;
}

/** Looks at all routes of a configuration without errors, and at what its upstreams say for the case that one fails. */
export function lintRoutes(config: GatewayConfig, root: MapNode, findings: Findings): void {
  const linted = { config, root, findings };
  const routes = writtenRoutes(config, root);
  for (const route of routes) {
    lintPlaces(route, linted);
    lintTwins(route, linted);
  }
  if (routes.some(({ upstreams }) => upstreams.length > 1)) lintAttempts(linted);
  config.upstreams.forEach((upstream, index) => {
    lintShared(upstream, index, linted);
    lintBreaker(upstream, index, linted);
  });
  lintCachePolicies(linted);
  lintWindows(linted);
}

/** Weights without anybody to share with, and places that are the same by accident. */
function lintPlaces(route: WrittenRoute, { root, findings }: Linted): void {
  const { upstreams, pointer } = route;
  if (pointer === undefined) return;
  const written = (index: number, key: string) => isWritten(root, `${pointer}/${index}/${key}`);
  const is_shared = upstreams.some((_, index) => written(index, 'weight'));
  upstreams.forEach(({ upstream, order }, index) => {
    const others = upstreams.filter((other, i) => i !== index && other.order === order);
    if (written(index, 'weight') && others.length === 0) {
      const message = `\`weight\` has no effect: no other upstream has the order ${order}`;
      findings.report('W7050', markOfEntry(root, route, index, 'weight'), message, {
        help: `leave it out, or give another upstream the same order, to share the sessions of ${quote(upstream)}`,
      });
    }
    const same = upstreams.findIndex((other, i) => other.order === order && written(i, 'order'));
    if (is_shared || written(index, 'order') || same < 0) return;
    const [one, other] = [quote(upstream), quote(upstreams[same]!.upstream)];
    findings.report('W7081', markOfEntry(root, route, index), `${one} shares the sessions of ${other} by accident`, {
      found: `order ${order} by its place in the list, which ${other} has by \`order\``,
      help: 'write `order` for every entry of the list, or for none',
    });
  });
}

/** What an upstream calls the models that can be routed to it. */
function namesAt({ name }: UpstreamConfig, { models }: GatewayConfig): string {
  return JSON.stringify(models.map(({ id, upstream_ids }) => upstream_ids?.[name] ?? id));
}

/** Two upstreams that are the same server, account and models: what fails at one fails at the other. */
function lintTwins(route: WrittenRoute, { config, root, findings }: Linted): void {
  const upstreams = route.upstreams.map(({ upstream }) => config.upstreams.find(({ name }) => name === upstream)!);
  const identity = (upstream: UpstreamConfig) => `${ownBoundary(upstream, '/')} ${namesAt(upstream, config)}`;
  upstreams.forEach((upstream, index) => {
    const first = upstreams.slice(0, index).find((other) => identity(other) === identity(upstream));
    if (first === undefined) return;
    const [one, other] = [quote(upstream.name), quote(first.name)];
    findings.report('W7080', markOfEntry(root, route, index), `${one} fails whenever ${other} does`, {
      found: 'the same address, credential and names of models at both',
      help: 'name another server or account, or remove it from the route',
    });
  });
}

/** Settings for all attempts that leave no room for a second one. */
function lintAttempts({ config, root, findings }: Linted): void {
  const { most, seconds, unconfirmed } = config.routing.attempts;
  const attempts = nodeAt(root, '/routing/attempts');
  if (most === 1) {
    findings.report('W7080', childOf(attempts, 'most')!.mark, 'what an upstream fails goes to no other one', {
      found: '`most: 1`: a request is sent once, to an upstream that seems to work',
      help: 'write 2 or more, or leave it out: 4',
    });
    return;
  }
  const { first_byte_seconds } = config.server.timeouts;
  if (!unconfirmed || first_byte_seconds < seconds) return;
  const { mark } =
    childOf(attempts, 'seconds') ?? childOf(root, 'server', 'timeouts', 'first_byte_seconds') ?? attempts;
  findings.report('W7080', mark, 'what an upstream does not answer in time goes to no other one', {
    found: `routing.attempts.seconds: ${seconds}, server.timeouts.first_byte_seconds: ${first_byte_seconds}`,
    expected: 'more seconds for all attempts than the first byte of one may take',
  });
}

/** Pools and boundaries with one upstream in them. */
function lintShared(upstream: UpstreamConfig, index: number, { config, root, findings }: Linted): void {
  const others = config.upstreams.filter((other) => other !== upstream);
  for (const key of ['cache_pool', 'state_boundary'] as const) {
    const pointer = `/upstreams/${index}/${key}`;
    if (!isWritten(root, pointer) || others.some((other) => other[key] === upstream[key])) continue;
    if (key === 'state_boundary' && others.some((other) => ownBoundary(other, '/') === ownBoundary(upstream, '/')))
      continue;
    const named = config.upstreams.flatMap((other, i) =>
      other === upstream || !isWritten(root, `/upstreams/${i}/${key}`) ? [] : other[key],
    );
    const meant = closest(upstream[key], named);
    const message = `${keyName(key)} has no effect: no other upstream is in ${quote(upstream[key])}`;
    findings.report('W7050', nodeAt(root, pointer).mark, message, {
      help:
        meant === undefined ? 'name it at the upstreams that share it, or leave it out' : `did you mean \`${meant}\`?`,
    });
  }
}

/**
 * The largest share of failures, in percent, in a window of at least `requests_min` requests in which never `failures` in a
 * row failed: each run of `failures - 1` failures is followed by a success.
 */
function largestShare(failures: number, requests_min: number): number {
  const sizes = Array.from({ length: failures }, (_, i) => requests_min + i);
  return Math.max(...sizes.map((size) => (100 * (size - Math.floor(size / failures))) / size));
}

/** Settings of a breaker that others leave nothing to. */
function lintBreaker({ breaker }: UpstreamConfig, index: number, { root, findings }: Linted): void {
  const { mode, failures, failure_percent, requests_min } = breaker;
  const entries = entriesOf(nodeAt(root, `/upstreams/${index}/breaker`));
  if (!isWritten(root, `/upstreams/${index}/breaker`)) return;
  for (const { key, key_mark } of mode === 'off' ? entries.filter((entry) => entry.key !== 'mode') : []) {
    findings.report('W7050', key_mark, `${keyName(key)} has no effect: \`mode: off\`, there is no breaker`, {
      help: 'leave it out, or leave `mode` out',
    });
  }
  const of_share = entries.filter(({ key }) => ['failure_percent', 'requests_min', 'window_seconds'].includes(key));
  if (mode === 'off' || of_share.length === 0 || largestShare(failures, requests_min) >= failure_percent) return;
  const { key, key_mark } = of_share[0]!;
  const row = failures === 1 ? 'the first failure' : `${failures} failures in a row`;
  findings.report('W7050', key_mark, `${keyName(key)} has no effect: ${row} always come first`, {
    found: `of ${requests_min} requests or more ${failure_percent} % fail only if ${failures} in a row do`,
    help: 'write more `failures`, a lower `failure_percent`, or leave it out',
  });
}

/** What happens to a 1-hour cache that is not supported, said where it is. */
function lintCachePolicies({ config, root, findings }: Linted): void {
  const { models, routing } = config;
  const keeps = ({ supports }: UpstreamConfig | ModelConfig) => supports.prompt_cache_1h;
  const report = (pointer: string, where: string) =>
    findings.report('W7050', nodeAt(root, pointer).mark, `\`on_unsupported_cache\` has no effect: ${where}`, {
      help: 'write `supports: { prompt_cache_1h: false }` at the upstream or model that does not, or leave it out',
    });
  config.upstreams.forEach((upstream, index) => {
    const pointer = `/upstreams/${index}/on_unsupported_cache`;
    if (!isWritten(root, pointer) || !keeps(upstream) || !models.every(keeps)) return;
    report(pointer, 'the upstream keeps prompts for an hour');
  });
  routing.rules.forEach(({ upstreams, models: globs }, index) => {
    const pointer = `/routing/rules/${index}/on_unsupported_cache`;
    if (!isWritten(root, pointer)) return;
    const there = config.upstreams.filter(({ name }) => upstreams.some(({ upstream }) => upstream === name));
    const asked = models.filter(({ id }) => globs?.some((glob) => matchesGlob(glob, id)) ?? true);
    if (![...there, ...asked].every(keeps)) return;
    report(
      pointer,
      there.length === 1 ? 'its upstream keeps prompts for an hour' : 'its upstreams keep prompts for an hour',
    );
  });
}

/** Windows of a model at an upstream that are no smaller than its own. */
function lintWindows({ config, root, findings }: Linted): void {
  config.models.forEach(({ context_window, context_windows = {} }, index) => {
    for (const [upstream, window] of Object.entries(context_windows)) {
      if (window < context_window) continue;
      const { mark } = childOf(nodeAt(root, `/models/${index}/context_windows`), upstream)!;
      const message = `the window at ${quote(upstream)} has no effect: \`context_window\` is ${context_window} tokens`;
      findings.report('W7050', mark, message, {
        help: 'leave it out, or set context_window to the longest that the model reads anywhere',
      });
    }
  });
}
