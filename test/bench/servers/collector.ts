/** The collector of the bench: takes what it is sent, and counts the spans when it is asked. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readExport } from '../../support/telemetry/otlp.ts';
import { serveParent } from './parent.ts';

/** What came since this was asked last. */
export interface Collected {
  readonly exports: number;
  readonly bytes: number;
  readonly spans: number;
  readonly points: number;
}

const bodies: { readonly url: string; readonly body: Buffer }[] = [];

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    bodies.push({ url: req.url ?? '', body: Buffer.concat(chunks) });
    res.writeHead(200, { 'content-type': 'application/x-protobuf', 'content-length': 0 }).end();
  });
});

function collected(): Collected {
  const all = bodies.splice(0);
  const read = all.map(({ url, body }) => readExport(url === '/v1/metrics' ? 'metrics' : 'traces', body, false));
  return {
    exports: all.length,
    bytes: all.reduce((sum, { body }) => sum + body.length, 0),
    spans: read.reduce((sum, { spans }) => sum + spans.length, 0),
    points: read.reduce((sum, { points }) => sum + points.length, 0),
  };
}

server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  serveParent({ url: `http://127.0.0.1:${port}` }, { collected }, async () => {
    server.close();
    server.closeAllConnections();
  });
});
