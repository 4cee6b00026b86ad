/**
 * A mock SIEM: receives lines of JSON on http://127.0.0.1:8088 and prints each. `--away 3` responds 503 to the first three
 * requests.
 * @module
 */
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';

const { values } = parseArgs({ options: { port: { type: 'string', default: '8088' }, away: { type: 'string' } } });
let away = Number(values.away ?? 0);

const server = createServer(async (req, res) => {
  const lines = await text(req);
  if (req.headers.authorization === undefined) {
    res.writeHead(401).end();
  } else if (away > 0) {
    away -= 1;
    res.writeHead(503).end();
  } else {
    process.stdout.write(lines);
    res.writeHead(202).end();
  }
});

server.listen(Number(values.port), '127.0.0.1', () => console.error(`listening on port ${values.port}`));
