import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';

const LISTENER = `const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => console.log(server.address().port));`;

/** More connections than a backlog of one holds. */
const FILLERS = 6;

/** A server to which connections can be neither made nor rejected: it is stopped, and its backlog is full. */
export async function startDeafServer(): Promise<{ url: string; close(): void }> {
  const child = spawn(process.execPath, ['-e', LISTENER], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout, 'data');
  const port = Number(String(line));
  child.kill('SIGSTOP');
  const fillers: Socket[] = Array.from({ length: FILLERS }, () => createConnection(port, '127.0.0.1'));
  for (const filler of fillers) filler.on('error', () => {});
  await once(fillers[0]!, 'connect');
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      for (const filler of fillers) filler.destroy();
      child.kill('SIGKILL');
    },
  };
}
