import { createServer, type Socket } from 'node:net';

/** A scripted server of raw bytes: answers once a request's head has arrived. Open while the test runs. */
export async function rawServer(
  response: (socket: Socket, head: string) => void,
): Promise<{ readonly url: string; readonly heads: string[]; [Symbol.asyncDispose](): Promise<void> }> {
  const heads: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    let received = '';
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', function look(chunk) {
      received += chunk;
      if (!received.includes('\r\n\r\n')) return;
      socket.off('data', look);
      socket.resume();
      heads.push(received);
      response(socket, received);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    heads,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
