/**
 * A mock of nginx in front of a gateway: it passes paths and headers on as the lines of a server say, which an operator writes.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { LOOPBACK_CERTIFICATE } from '../certificates.ts';

/** Where a server listens, and its other lines: `location` blocks. */
export interface NginxServer {
  readonly host: '127.0.0.1' | '::1';
  readonly port: number;
  readonly tls: boolean;
  readonly locations: string;
  /** Lines beside the server, such as `upstream` blocks. */
  readonly beside?: string;
}

/** A `location` as far as it is heeded. */
interface Location {
  readonly path: string;
  readonly upstream: URL;
  /** The replacement of `path`; `undefined` where the address ends with the host. */
  readonly replacement: string | undefined;
  /** As written, by name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
}

/** nginx's own of ngx_http_proxy_module. */
const DEFAULT_HEADERS = [
  ['host', '$proxy_host'],
  ['connection', 'close'],
] as const;

function locationsIn({ locations, beside = '' }: NginxServer): readonly Location[] {
  return [...locations.matchAll(/^\s*location\s+(\S+)\s*\{([^}]*)\}/gm)].map(([, path, lines]) => {
    const [, scheme, host, replacement] = /proxy_pass\s+(https?):\/\/([^/;]+)(\/[^;]*)?;/.exec(lines!)!;
    const server = new RegExp(`upstream\\s+${host}\\s*\\{[^}]*?server\\s+([^\\s;]+)`).exec(beside)?.[1];
    const own = [...lines!.matchAll(/proxy_set_header\s+(\S+)\s+(?:"([^"]*)"|([^;]*));/g)];
    return {
      path: path!,
      upstream: new URL(`${scheme}://${server ?? host}`),
      replacement,
      headers: new Map([
        ...DEFAULT_HEADERS.map(([name, value]) => [name, value === '$proxy_host' ? host! : value] as const),
        ...own.map(([, name, quoted, plain]) => [name!.toLowerCase(), quoted ?? plain!] as const),
      ]),
    };
  });
}

/** Starts it. */
export async function startNginx(input: NginxServer) {
  const locations = locationsIn(input).toSorted((a, b) => b.path.length - a.path.length);
  const response = (req: IncomingMessage, res: ServerResponse) => {
    const location = locations.find(({ path }) => req.url!.startsWith(path));
    if (location === undefined) return void res.writeHead(404).end();
    const { path, upstream, replacement, headers } = location;
    const rest = replacement === undefined ? req.url! : replacement + req.url!.slice(path.length);
    const sent: Record<string, string | string[] | undefined> = { ...req.headers };
    for (const [name, value] of headers) sent[name] = filled(value, req, input) || undefined;
    const onward = request({
      host: upstream.hostname,
      port: upstream.port,
      method: req.method,
      path: rest,
      headers: Object.fromEntries(Object.entries(sent).filter(([, value]) => value !== undefined)) as never,
      agent: false,
    });
    onward.on('error', () => res.writeHead(502).end());
    onward.on('response', (from) => {
      const { connection: _, 'transfer-encoding': __, ...kept } = from.headers;
      from.pipe(res.writeHead(from.statusCode!, kept));
    });
    req.pipe(onward);
  };
  const server = input.tls ? createTlsServer(LOOPBACK_CERTIFICATE, response) : createServer(response);
  server.listen({ port: input.port, host: input.host });
  await once(server, 'listening');
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A value with the variables of nginx in it. */
function filled(value: string, { headers, socket }: IncomingMessage, { port, tls }: NginxServer): string {
  const { host: http_host = '' } = headers;
  const before = headers['x-forwarded-for'];
  const peer = socket.remoteAddress ?? '';
  const variables: Readonly<Record<string, string>> = {
    host: http_host.replace(/:\d+$/, ''),
    http_host,
    server_port: String(port),
    scheme: tls ? 'https' : 'http',
    remote_addr: peer,
    proxy_add_x_forwarded_for: before === undefined ? peer : `${before}, ${peer}`,
  };
  return value.replace(/\$(\w+)/g, (_, name: string) => {
    const known = variables[name];
    if (known === undefined) throw new Error(`the mock of nginx does not know $${name}`);
    return known;
  });
}
