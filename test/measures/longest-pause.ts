/**
 * Loaded into a gateway before anything else (`--import`): watches how long its event loop stands still. SIGUSR2 has it say
 * the longest pause since the last query and the memory it uses. A pause is given in milliseconds by the clock on the
 * wall, and of the processor, which does not count what other processes on the machine took.
 */
const EVERY_MS = 2;
const MIB = 1024 * 1024;

const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

let last = { wall: performance.now(), cpu: cpu() };
let longest = { wall: 0, cpu: 0 };

setInterval(() => {
  const now = { wall: performance.now(), cpu: cpu() };
  longest = {
    wall: Math.max(longest.wall, now.wall - last.wall - EVERY_MS),
    cpu: Math.max(longest.cpu, now.cpu - last.cpu),
  };
  last = now;
}, EVERY_MS).unref();

process.on('SIGUSR2', () => {
  const { rss, heapUsed } = process.memoryUsage();
  const [wall, busy, heap, reserved] = [longest.wall, longest.cpu, heapUsed / MIB, rss / MIB].map(Math.round);
  process.stdout.write(`longest pause: ${busy} ms of ${wall} ms; heap ${heap} MiB, rss ${reserved} MiB\n`);
  longest = { wall: 0, cpu: 0 };
});
