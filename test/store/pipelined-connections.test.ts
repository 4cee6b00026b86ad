import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import type { Log } from '../../engine/base/contract/services.ts';
import { openPipelinedConnections } from '../../engine/base/store/pipelined-connections.ts';
import { createConnections } from '../../engine/base/store/postgres-client.ts';
import { createTestDatabase } from '../support/database.ts';
import { quietLog } from '../support/store.ts';
import { until } from '../support/until.ts';

/** Passes everything on, but gives clients an id of its own for their backend, as connection poolers do. */
async function startPooler(target_port: number) {
  let asked = '';
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target_port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => (socket === near ? far : near).destroy());
    }
    near.on('data', (bytes) => {
      asked += bytes.toString('latin1');
      far.write(bytes);
    });
    far.on('data', (bytes) => {
      const at = bytes.indexOf(Buffer.from('4b0000000c', 'hex'));
      if (at >= 0) bytes.writeInt32BE(1, at + 5);
      near.write(bytes);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as { port: number }).port,
    get asked() {
      return asked;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

test('nothing is pipelined behind a connection pooler, whose other clients keep their settings', async () => {
  const { url, drop } = await createTestDatabase();
  const through = new URL(url);
  const pooler = await startPooler(Number(through.port));
  through.port = String(pooler.port);
  const connections = createConnections({ settings: () => ({ connectionString: through.href }), label: () => 'test' });
  let reports = 0;
  const log: Log = {
    ...quietLog,
    info() {
      reports++;
    },
  };
  const lanes = openPipelinedConnections(connections, 2, log);
  try {
    assert.equal(lanes.count, 2);
    await until('both connections are known', () => lanes.count === 0);
    assert.equal(lanes.free(), undefined);
    assert.equal(reports, 1);
    assert.ok(pooler.asked.includes('pg_backend_pid'));
    assert.ok(!pooler.asked.includes('set_config'), pooler.asked);
  } finally {
    lanes.close();
    connections.cut();
    pooler.close();
    await drop();
  }
});
