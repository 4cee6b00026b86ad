/** The collector of the bench: accepts everything. */
import { createServer } from 'node:http';
import { serveHttp } from './parent.ts';

const server = createServer((req, res) => {
  req.resume().on('end', () => {
    res.writeHead(200, { 'content-type': 'application/x-protobuf', 'content-length': 0 }).end();
  });
});

serveHttp(server);
