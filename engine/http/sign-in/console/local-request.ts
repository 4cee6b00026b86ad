import type { IncomingMessage } from 'node:http';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import { isLoopbackUrl } from '../../../kit/net/addresses.ts';

const FORWARDING = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];
const LOOPBACK = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$|^::1$/;

/**
 * Refuses a request that does not come from this machine itself, for what takes no sign-in. Raises forbidden.
 */
export function demandLocal(
  { headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  { server }: Pick<GatewayConfig, 'server'>,
): void {
  const is_local = LOOPBACK.test(socket.remoteAddress ?? '') && FORWARDING.every((name) => headers[name] === undefined);
  // A tunnel that adds no header still brings the name by which others know this machine.
  const is_named_so = isLoopbackUrl(`http://${headers.host}`);
  if (is_local && is_named_so && isLoopbackUrl(server.public_url)) return;
  throw new StageError(
    'forbidden',
    'Without an identity provider the console opens on the machine of the gateway only, with a server.public_url such as http://127.0.0.1:8080. Open it there (or through "ssh -L"), or set auth.oidc in gateway.yaml so that people can sign in.',
  );
}
