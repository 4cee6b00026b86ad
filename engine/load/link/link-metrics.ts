import { isLoopbackUrl, parseListenAddress } from '../../kit/net/addresses.ts';
import { keyName } from '../../source/describe.ts';
import type { Findings } from '../../source/findings.ts';
import { childOf, entryOf, type MapNode, textOf } from '../../source/node.ts';
import { secretEntryOf } from './link-keys.ts';

/** Checks where metrics can be read: never by anybody, and never at the gateway's own port. */
export function linkMetrics(root: MapNode, findings: Findings): void {
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
  findings.report('C4051', node.mark, 'metrics are not served at the port of the gateway itself', {
    help: 'give them a port of their own, such as 9464',
  });
}

const EVERYWHERE = ['0.0.0.0', '::'];

function meet(one: string, other: string): boolean {
  return one === other || EVERYWHERE.includes(one) || EVERYWHERE.includes(other);
}
