import type { IncomingHttpHeaders } from 'node:http';
import { networkInterfaces } from 'node:os';
import { failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { StageDefinition } from '../../../base/contract/stage.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Diagnosis } from '../workstation.ts';
import type { DirectAsk, RunningGateway } from './listening.ts';

/** A gateway host, as checks see it. Tests provide a fake. */
export interface Machine {
  readonly addresses: readonly string[];
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The machine that this process runs on. */
export function thisMachine(): Machine {
  return {
    addresses: Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []),
    now: () => Date.now(),
  };
}

/** Input of the checks of a gateway host. */
export interface HostOptions {
  readonly config_file: string;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  readonly timeout_seconds: number;
  readonly machine: Machine;
}

/** A gateway host with a loaded configuration. */
export interface Host extends HostOptions {
  readonly config: GatewayConfig;
  readonly loaded: Loaded;
  /** The gateway that runs at the configured listen address. */
  readonly running: RunningGateway | undefined;
  readonly direct: DirectAsk | undefined;
}

/** The position of a part of gateway.yaml, by JSON pointer, as `file:line`. */
export function placeOf({ loaded, config_file }: Pick<Host, 'loaded' | 'config_file'>, pointer: string): string {
  const position = loaded.positionOf(pointer);
  return position === undefined ? config_file : `${position.file}:${position.line}`;
}

/** Offset of another machine's clock from this one. */
export interface ClockReading {
  readonly of: string;
  readonly ahead_ms: number;
}

/** The offset of a server's clock by its Date header, in milliseconds; `undefined` for a cached response. */
export function clockIn({ date, age }: IncomingHttpHeaders, now: number): number | undefined {
  const at = date === undefined || age !== undefined ? Number.NaN : Date.parse(date);
  // The header has whole seconds: the middle of the second is the best estimate.
  return Number.isNaN(at) ? undefined : at + 500 - now;
}

/** Largest plausible offset: clocks with NTP agree within milliseconds. */
const APART_MS = 5000;
const FAR_MS = 60_000;

/** Compares this machine's clock to those of the services that other checks queried. */
export function checkClock(readings: readonly ClockReading[], clock_skew_seconds: number | undefined): Diagnosis {
  const base = { id: 'host.clock', title: 'clock of this machine' };
  if (readings.length === 0) return skipped('no service responded whose clock could be compared', base);
  const details = readings.map(({ of, ahead_ms }) => `${of}: ${offsetText(ahead_ms)}`);
  const off = readings.filter(({ ahead_ms }) => Math.abs(ahead_ms) > APART_MS);
  if (off.length === 0) return ok(`agrees with ${readings.map(({ of }) => of).join(', ')}`, { ...base, details });
  const all_far = readings.length > 1 && readings.every(({ ahead_ms }) => Math.abs(ahead_ms) > FAR_MS);
  const skew =
    clock_skew_seconds === undefined
      ? ''
      : `; sign-in fails beyond ${clock_skew_seconds} s (auth.oidc.clock_skew_seconds)`;
  return (all_far ? failed : warning)(
    `differs from ${off.map(({ of, ahead_ms }) => `${of} (${offsetText(ahead_ms)})`).join(', ')}${skew}`,
    'synchronise the clocks over the network (timedatectl set-ntp true; chronyc tracking)',
    { ...base, details },
  );
}

function offsetText(ahead_ms: number): string {
  const seconds = Math.abs(ahead_ms) / 1000;
  if (seconds < 1) return 'the same';
  const span = seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
  return `${span} ${ahead_ms > 0 ? 'ahead' : 'behind'}`;
}

/** A count with its noun: `1 file`, `2 files`. */
export function counted(many: number, one: string): string {
  return `${many} ${one}${many === 1 ? '' : 's'}`;
}
