import { resolve } from 'node:path';
import { urlProblem } from '../../kit/net/addresses.ts';
import { decidingVariable, proxyProblem } from '../../kit/net/way.ts';
import { secretHolder, secretIn, secretInFile } from '../../kit/secret-names.ts';
import { keyName } from '../../source/describe.ts';
import { childOf, itemsOf, type MapNode, type Node, textOf } from '../../source/node.ts';
import type { AnnotationContext } from '../annotations.ts';
import { secretEntryOf } from './link-keys.ts';

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
