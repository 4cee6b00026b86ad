import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { basename } from 'node:path';
import { test } from 'node:test';
import { readControlGroup } from '../../../engine/doctor/host/control-group.ts';
import { findListeners, mayListen } from '../../../engine/doctor/host/listeners.ts';
import { mayUser, thisMachine } from '../../../engine/doctor/host/machine.ts';
import { sizeText, spanText } from '../../../engine/doctor/host/sizes.ts';
import { machineWith } from './support.ts';

const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n';
const socket = (address: string, state: string, inode: number) =>
  `   0: ${address} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${inode} 1 0000000000000000 100 0 0 10 0\n`;

test('who listens on a port is found by its socket, and other states and ports are nobody', () => {
  const tcp =
    HEAD + socket('0100007F:1F90', '0A', 7) + socket('0100007F:1F91', '0A', 8) + socket('0100007F:1F90', '01', 9);
  const machine = machineWith(
    { '/proc/net/tcp': tcp, '/proc/4711/comm': 'nginx\n' },
    {
      list: (path) => ({ '/proc': ['1', '4711', 'self'], '/proc/4711/fd': ['0', '3'] })[path] ?? [],
      link: (path) => (path === '/proc/4711/fd/3' ? 'socket:[7]' : '/dev/null'),
    },
  );
  assert.deepEqual(findListeners(machine, '127.0.0.1', 8080), [{ pid: 4711, program: 'nginx' }]);
  assert.deepEqual(findListeners(machine, '0.0.0.0', 8080), [{ pid: 4711, program: 'nginx' }]);
  assert.deepEqual(findListeners(machine, '192.0.2.1', 8080), []);
  assert.deepEqual(findListeners(machine, '127.0.0.1', 8082), []);
  assert.deepEqual(findListeners(machine, '127.0.0.1', 8081), [{ pid: undefined, program: undefined }]);
  assert.equal(findListeners(machineWith({}), '127.0.0.1', 8080), undefined);
});

test('a socket for all addresses takes the port of each', () => {
  const machine = machineWith({ '/proc/net/tcp6': HEAD + socket('00000000000000000000000000000000:1F90', '0A', 7) });
  assert.equal(findListeners(machine, '127.0.0.1', 8080)?.length, 1);
});

test('this process is found as what listens on its own socket', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const found = findListeners(thisMachine(), '127.0.0.1', port);
  server.close();
  // Elsewhere than on Linux there is no list to find it in.
  if (process.platform === 'linux')
    assert.deepEqual(found, [{ pid: process.pid, program: basename(process.execPath) }]);
  else assert.equal(found, undefined);
});

test('low ports are for those whom the kernel lets', () => {
  const status = (capabilities: string) => ({ '/proc/self/status': `CapEff:\t${capabilities}\n` });
  assert.equal(mayListen(machineWith(status('0000000000000400')), 443), true);
  assert.equal(mayListen(machineWith(status('0000000000000000')), 443), false);
  assert.equal(
    mayListen(machineWith({ ...status('0'), '/proc/sys/net/ipv4/ip_unprivileged_port_start': '80\n' }), 443),
    true,
  );
  assert.equal(mayListen(machineWith(status('0')), 8080), true);
  assert.equal(mayListen(machineWith({}, { uid: 1000 }), 443), undefined);
});

test('limits of a container are those of its group and all above it (version 2)', () => {
  const group = readControlGroup(
    machineWith({
      '/proc/7/cgroup': '0::/system.slice/gateway.service\n',
      '/sys/fs/cgroup/cgroup.controllers': 'cpu memory',
      '/sys/fs/cgroup/system.slice/cgroup.events': '',
      '/sys/fs/cgroup/system.slice/memory.max': '1073741824\n',
      '/sys/fs/cgroup/system.slice/gateway.service/cgroup.events': '',
      '/sys/fs/cgroup/system.slice/gateway.service/memory.max': 'max\n',
      '/sys/fs/cgroup/system.slice/gateway.service/memory.current': '1000\n',
      '/sys/fs/cgroup/system.slice/gateway.service/memory.events': 'low 0\noom 3\noom_kill 2\n',
      '/sys/fs/cgroup/system.slice/gateway.service/cpu.max': '50000 100000\n',
      '/sys/fs/cgroup/system.slice/gateway.service/cpu.stat': 'nr_periods 100\nnr_throttled 25\n',
    }),
    7,
  );
  assert.deepEqual(group, {
    memory_bytes: 1_073_741_824,
    memory_high_bytes: undefined,
    used_bytes: 1000,
    memory_kills: 2,
    processors: 0.5,
    throttled: 0.25,
  });
});

test('limits inside of a container are those of the root, whatever path its group has outside (version 2)', () => {
  const group = readControlGroup(
    machineWith({
      '/proc/self/cgroup': '0::/../../docker/abc\n',
      '/sys/fs/cgroup/cgroup.controllers': 'memory',
      '/sys/fs/cgroup/cgroup.events': '',
      '/sys/fs/cgroup/memory.max': '536870912',
    }),
    'self',
  );
  assert.equal(group.memory_bytes, 536_870_912);
});

test('limits of a container are read from version 1, too, where the largest number is none', () => {
  const files = (limit: string) => ({
    '/proc/self/cgroup': '4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n',
    '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712',
    '/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes': limit,
    '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1',
    '/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us': '150000',
    '/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us': '100000',
  });
  const group = readControlGroup(machineWith(files('268435456')), 'self');
  assert.deepEqual([group.memory_bytes, group.processors], [268_435_456, 1.5]);
  assert.equal(readControlGroup(machineWith(files('9223372036854771712')), 'self').memory_bytes, undefined);
  assert.equal(readControlGroup(machineWith({}), 'self').memory_bytes, undefined);
});

test('what a user may do with a file follows from its owner, its group and all others', () => {
  const machine = { ...machineWith({}), uid: 1000, groups: [100] };
  const rights = { kind: 'file', uid: 0, gid: 0, mode: 0o640, bytes: 0, changed_at: 0 } as const;
  assert.equal(mayUser(machine, rights, 4), false);
  assert.equal(mayUser(machine, { ...rights, gid: 100 }, 4), true);
  assert.equal(mayUser(machine, { ...rights, uid: 1000, mode: 0o077 }, 4), false);
  assert.equal(mayUser({ ...machine, uid: 0 }, { ...rights, mode: 0 }, 4), true);
});

test('sizes and spans of time are told in words', () => {
  assert.deepEqual([0, 1023, 1536, 10 * 1024 ** 3].map(sizeText), ['0 bytes', '1023 bytes', '1.5 KiB', '10 GiB']);
  assert.deepEqual([0.04, 45, -600, 7200, 5 * 86_400].map(spanText), ['0 s', '45 s', '10 min', '2 h', '5 days']);
});
