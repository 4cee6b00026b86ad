/**
 * nginx in front of a gateway, with the lines of a server as an operator writes them: the real one where it is installed,
 * else a mock that passes paths and headers on as the same lines say.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LOOPBACK_CERTIFICATE } from '../certificates.ts';
import { until } from '../until.ts';

/** Whether nginx is installed here. */
export const HAS_NGINX = spawnSync('nginx', ['-v']).status === 0;

/** Where a server listens, and its other lines: `location` blocks. */
export interface NginxServer {
  readonly host: '127.0.0.1' | '::1';
  readonly port: number;
  readonly tls: boolean;
  readonly locations: string;
  /** Lines beside the server, such as `upstream` blocks. */
  readonly beside?: string;
}

/** Starts nginx, or its replacement. */
export function startNginx(server: NginxServer): Promise<{ close(): Promise<void> }> {
  return HAS_NGINX ? startReal(server) : startStandIn(server);
}

async function startReal({ host, port, tls, locations, beside = '' }: NginxServer) {
  const directory = await mkdtemp(join(tmpdir(), 'appscli-nginx-'));
  const file = (name: string) => join(directory, name);
  await writeFile(file('tls.crt'), LOOPBACK_CERTIFICATE.cert);
  await writeFile(file('tls.key'), LOOPBACK_CERTIFICATE.key);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  await writeFile(
    file('nginx.conf'),
    `daemon off; master_process off; pid ${file('pid')}; error_log stderr;
     events {}
     http {
       access_log off;
       ${temporary.map((name) => `${name}_temp_path ${file(name)};`).join(' ')}
       ${beside}
       server {
         listen ${host === '::1' ? '[::1]' : host}:${port}${tls ? ' ssl' : ''};
         ${tls ? `ssl_certificate ${file('tls.crt')}; ssl_certificate_key ${file('tls.key')};` : ''}
         ${locations}
       }
     }`,
  );
  const child = spawn('nginx', ['-p', directory, '-c', file('nginx.conf'), '-e', 'stderr'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => {
    said += bytes.toString();
  });
  const ended = once(child, 'close');
  await until('nginx listens', async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended: ${said}`);
    return answers(host, port);
  });
  return {
    async close() {
      child.kill('SIGTERM');
      await ended;
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function answers(host: string, port: number): Promise<boolean> {
  const socket = connect(port, host);
  const connected = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return connected;
}

/** A `location` as far as the mock heeds it. */
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

async function startStandIn(input: NginxServer) {
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
