/**
 * The gateway's baseline: express 5 and http-proxy-3 with a keep-alive pool. It reads the body, parses it as
 * JSON (any gateway has to look at the model) and proxies it. No token, no budget, no meter, no audit, no limits.
 */
import { once } from 'node:events';
import { Agent, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import express from 'express';
import { createProxyServer } from 'http-proxy-3';
import { serveParent } from './parent.ts';

const upstream = process.argv[2] as string;
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 1024 });
const proxy = createProxyServer({ target: upstream, agent });
proxy.on('error', (_error, _req, res) => {
  if ('headersSent' in res && !res.headersSent) res.writeHead(502);
  res.end();
});

const app = express();
app.disable('x-powered-by');
app.disable('etag');
app.use((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    const request: { model?: unknown } = JSON.parse(body.toString('utf8'));
    if (typeof request.model === 'string') proxy.web(req, res, { buffer: Readable.from([body]) });
    else res.status(400).end();
  });
});

const server = createServer(app);
server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
serveParent({ url: `http://127.0.0.1:${port}` }, {}, async () => {
  server.close();
  server.closeAllConnections();
});
