import type { IncomingMessage } from 'node:http';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import { isLoopbackUrl } from '../../../kit/net/addresses.ts';

const FORWARDING = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];
const LOOPBACK = /^(?:::ffff:)?127(?:\.\d{1,3}){3}$|^::1$/;

type Request = Pick<IncomingMessage, 'headers' | 'socket'>;

/** Whether a request comes from this machine, and no proxy says that it passed it on. */
function isLocal({ headers, socket }: Request): boolean {
  return LOOPBACK.test(socket.remoteAddress ?? '') && FORWARDING.every((name) => headers[name] === undefined);
}

/**
 * Refuses a request that does not come from this machine itself, for what takes no sign-in. Raises forbidden.
 */
export function demandLocal(request: Request, { server }: Pick<GatewayConfig, 'server'>): void {
  // A tunnel that adds no header still brings the name by which others know this machine.
  const is_named_so = isLoopbackUrl(`http://${request.headers.host}`);
  if (isLocal(request) && is_named_so && isLoopbackUrl(server.public_url)) return;
  throw new StageError(
    'forbidden',
    'Without an identity provider the console opens on the machine of the gateway only, with a server.public_url such as http://127.0.0.1:8080. Open it there (or through "ssh -L"), or set auth.oidc in gateway.yaml so that people can sign in.',
  );
}

/**
 * Whether a browser certainly came by another name of this machine than the public URL has, such as `localhost` for 127.0.0.1:
 * cookies heed the name and not the port (RFC 6265 section 8.5), so those it gets here would be missing when it comes back.
 * A proxy may write whatever it likes into the Host header; what a browser sends itself says `Connection: keep-alive`, which
 * belongs to one connection (RFC 9110 section 7.6.1).
 */
export function cameByOtherName(request: Request, public_url: string): boolean {
  const { host, connection } = request.headers;
  const came_to = `http://${host}`;
  if (!isLoopbackUrl(public_url) || !isLoopbackUrl(came_to)) return false;
  if (!isLocal(request) || connection?.toLowerCase() !== 'keep-alive') return false;
  return new URL(came_to).hostname !== new URL(public_url).hostname;
}
