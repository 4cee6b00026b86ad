/** The collector of the bench: accepts everything. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveParent } from './parent.ts';

const server = createServer((req, res) => {
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'application/x-protobuf', 'content-length': 0 }).end();
  });
});

server.keepAliveTimeout = 600_000;
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  serveParent({ url: `http://127.0.0.1:${port}` }, {}, async () => {
    server.close();
    server.closeAllConnections();
  });
});
