import { memoryBound } from '../../gateway/memory-bound.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type ControlGroup, readControlGroup } from './control-group.ts';
import type { Host } from './host.ts';
import { sizeText } from './sizes.ts';

const MIB = 1024 * 1024;
/** What a gateway without requests takes, with what its code and configuration make of the heap; measured, rounded up. */
const IDLE_BYTES = 256 * MIB;
/** For connections of its upstreams, the spool, telemetry and the log. */
const OTHER_FILES = 512;

type Surroundings = Pick<Host, 'config' | 'loaded' | 'machine' | 'running'>;

/** Whether the memory, processors and open files of the machine or container are enough for what the configuration may hold. */
export function examineResources(host: Surroundings): Diagnosis[] {
  const { machine, running } = host;
  const pid = running?.pid ?? 'self';
  const group = readControlGroup(machine, pid);
  const of = pid === 'self' ? 'here' : 'of the running gateway';
  return [judgeMemory(host, group, of), judgeProcessors(host, group, of), ...judgeOpenFiles(host, pid)];
}

function judgeMemory({ config, loaded, machine }: Surroundings, group: ControlGroup, of: string): Diagnosis {
  const base = { id: 'host.memory', title: 'memory' };
  const { total_bytes, connections } = memoryBound(config, loaded.pipelines);
  const most = IDLE_BYTES + total_bytes + connections.count * connections.each_bytes;
  const limit = Math.min(group.memory_bytes ?? machine.memory_bytes, group.memory_high_bytes ?? machine.memory_bytes);
  const is_limited = limit < machine.memory_bytes;
  const named = is_limited ? `the limit of the container or service ${of}` : 'the memory of this machine';
  const details = [
    `at most ${sizeText(IDLE_BYTES)} for itself, ${sizeText(total_bytes)} for bodies (server.limits.buffered_bytes and reading one), ${sizeText(connections.count * connections.each_bytes)} for ${connections.count} connections`,
    ...(group.used_bytes === undefined || !is_limited ? [] : [`in use now: ${sizeText(group.used_bytes)}`]),
  ];
  const remedy = `give it ${sizeText(most)}, or lower server.limits.buffered_bytes and server.limits.connections`;
  const found = `${named} is ${sizeText(limit)}, and the gateway may need ${sizeText(most)}`;
  if ((group.memory_kills ?? 0) > 0 && is_limited) {
    const kills = `processes in it were ended ${group.memory_kills} times for want of memory`;
    return { ...base, verdict: most > limit ? 'failed' : 'warning', found: `${found}; ${kills}`, remedy, details };
  }
  return most > limit
    ? { ...base, verdict: 'warning', found, remedy, details }
    : { ...base, verdict: 'ok', found, details };
}

const OFTEN = 0.1;

function judgeProcessors({ machine }: Surroundings, { processors, throttled }: ControlGroup, of: string): Diagnosis {
  const base = { id: 'host.processors', title: 'processors' };
  const remedy =
    'give it at least one whole processor: a gateway is one process, and streams stand still while its quota is used up';
  if (processors === undefined || processors >= machine.processors) {
    return { ...base, verdict: 'ok', found: `${machine.processors}, without a quota ${of}` };
  }
  const rounded = Number(processors.toFixed(2));
  const share = throttled === undefined ? '' : `; it was used up in ${Math.round(throttled * 100)} % of its periods`;
  const found = `a quota of ${rounded} ${of}${share}`;
  const is_short = processors < 1 || (throttled ?? 0) > OFTEN;
  return is_short ? { ...base, verdict: 'warning', found, remedy } : { ...base, verdict: 'ok', found };
}

function judgeOpenFiles({ config, machine }: Surroundings, pid: number | 'self'): Diagnosis[] {
  const limits = machine.read(`/proc/${pid}/limits`);
  const [, soft, hard] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(limits ?? '') ?? [];
  if (soft === undefined || hard === undefined) return [];
  const base = { id: 'host.open_files', title: 'open files' };
  // Node.js raises its own limit as far as it may.
  const limit = hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
  const { connections } = config.server.limits;
  const most = connections + connections + OTHER_FILES;
  const of = pid === 'self' ? 'a process started from here' : 'the running gateway';
  if (!(limit < most)) return [{ ...base, verdict: 'ok', found: `${of} may have ${hard}` }];
  return [
    {
      ...base,
      verdict: 'warning',
      found: `${of} may have ${hard}, and ${connections} connections (server.limits.connections) with one upstream each may take ${most}`,
      remedy: `raise it (LimitNOFILE=${most} of a service, ulimits of a container), or lower server.limits.connections`,
    },
  ];
}
