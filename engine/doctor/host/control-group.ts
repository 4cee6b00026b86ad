import { join } from 'node:path';
import type { Machine } from './machine.ts';

/** What the control groups of a process allow it, as containers and services are limited (cgroups(7), versions 1 and 2). */
export interface ControlGroup {
  /** The smallest limit of its group and those above; `undefined` where none is set. */
  readonly memory_bytes: number | undefined;
  /** The same of a limit beyond which it is slowed down. */
  readonly memory_high_bytes: number | undefined;
  readonly used_bytes: number | undefined;
  /** How often processes of the group were ended for want of memory. */
  readonly memory_kills: number | undefined;
  /** How many processors its quota amounts to; `undefined` where none is set. */
  readonly processors: number | undefined;
  /** Share of the periods in which its quota was used up, 0 to 1. */
  readonly throttled: number | undefined;
}

const ROOT = '/sys/fs/cgroup';
/** Version 1 writes the largest multiple of a page for "no limit". */
const NO_LIMIT = 2 ** 60;

/** Reads the limits of a process; nothing where there are no control groups, or they can't be looked at. */
export function readControlGroup(machine: Machine, pid: number | 'self'): ControlGroup {
  const groups = machine.read(`/proc/${pid}/cgroup`) ?? '';
  const unified = /^0::(.*)$/m.exec(groups)?.[1];
  const is_unified = machine.read(join(ROOT, 'cgroup.controllers')) !== undefined;
  return is_unified ? readUnified(machine, unified ?? '/') : readLegacy(machine, groups);
}

/** The folders of a group and those above it. Inside a container the path may be that outside of it: then the root is its own. */
function foldersOf(machine: Machine, root: string, path: string, file: string): string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  const all = parts.map((_, index) => join(root, ...parts.slice(0, index + 1)));
  return [root, ...all].filter((folder) => machine.read(join(folder, file)) !== undefined).toReversed();
}

function readUnified(machine: Machine, path: string): ControlGroup {
  const folders = foldersOf(machine, ROOT, path, 'cgroup.events').concat(ROOT);
  const limits = (file: string) =>
    folders.flatMap((folder) => numberIn(machine.read(join(folder, file))) ?? []).filter((limit) => limit < NO_LIMIT);
  const own = folders[0]!;
  const quotas = folders.flatMap((folder) => {
    const [quota, period] = (machine.read(join(folder, 'cpu.max')) ?? '').trim().split(' ').map(Number);
    return quota! > 0 && period! > 0 ? [quota! / period!] : [];
  });
  return {
    memory_bytes: least(limits('memory.max')),
    memory_high_bytes: least(limits('memory.high')),
    used_bytes: numberIn(machine.read(join(own, 'memory.current'))),
    memory_kills: fieldIn(machine.read(join(own, 'memory.events')), 'oom_kill'),
    processors: least(quotas),
    throttled: shareThrottled(machine.read(join(own, 'cpu.stat'))),
  };
}

function readLegacy(machine: Machine, groups: string): ControlGroup {
  const pathOf = (controller: string) =>
    groups
      .split('\n')
      .map((line) => line.split(':'))
      .find(([, controllers = '']) => controllers.split(',').includes(controller))?.[2] ?? '/';
  const limit = 'memory.limit_in_bytes';
  const memory = foldersOf(machine, join(ROOT, 'memory'), pathOf('memory'), limit);
  const limits = memory.flatMap((folder) => numberIn(machine.read(join(folder, limit))) ?? []);
  const cpu = foldersOf(machine, join(ROOT, 'cpu'), pathOf('cpu'), 'cpu.cfs_quota_us');
  const quotas = cpu.flatMap((folder) => {
    const quota = Number(machine.read(join(folder, 'cpu.cfs_quota_us')) ?? -1);
    const period = Number(machine.read(join(folder, 'cpu.cfs_period_us')) ?? 0);
    return quota > 0 && period > 0 ? [quota / period] : [];
  });
  const inOwn = (folders: readonly string[], file: string) =>
    folders[0] === undefined ? undefined : machine.read(join(folders[0], file));
  return {
    memory_bytes: least(limits.filter((bytes) => bytes < NO_LIMIT)),
    memory_high_bytes: undefined,
    used_bytes: numberIn(inOwn(memory, 'memory.usage_in_bytes')),
    memory_kills: fieldIn(inOwn(memory, 'memory.oom_control'), 'oom_kill'),
    processors: least(quotas),
    throttled: shareThrottled(inOwn(cpu, 'cpu.stat')),
  };
}

function least(numbers: readonly number[]): number | undefined {
  return numbers.length === 0 ? undefined : Math.min(...numbers);
}

/** `undefined` for `max` and for what is no number. */
function numberIn(text: string | undefined): number | undefined {
  return text !== undefined && /^\d+$/.test(text.trim()) ? Number(text) : undefined;
}

function fieldIn(text: string | undefined, name: string): number | undefined {
  return numberIn(new RegExp(`^${name} (\\d+)$`, 'm').exec(text ?? '')?.[1]);
}

function shareThrottled(text: string | undefined): number | undefined {
  const periods = fieldIn(text, 'nr_periods');
  const throttled = fieldIn(text, 'nr_throttled');
  return periods === undefined || throttled === undefined || periods === 0 ? undefined : throttled / periods;
}
