import { statSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { networkInterfaces } from 'node:os';
import { failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { StageDefinition } from '../../../base/contract/stage.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Diagnosis } from '../desk.ts';
import type { DirectAsk, RunningGateway } from './listening.ts';

/** The machine of a gateway, as far as checks look at it; nothing of it is changed. Tests put another in its place. */
export interface Machine {
  /** Of its network interfaces. */
  readonly addresses: readonly string[];
  /** When a file was changed, in milliseconds since the epoch; `undefined` where there is none. */
  changedAt(path: string): number | undefined;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** The machine this runs on. */
export function thisMachine(): Machine {
  return {
    addresses: Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []),
    changedAt: (path) => statSync(path, { throwIfNoEntry: false })?.mtimeMs,
    now: () => Date.now(),
  };
}

/** What the checks of a gateway's machine are given. */
export interface HostOptions {
  readonly config_file: string;
  /** The shipped stages. */
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  /** For each thing that is asked. */
  readonly timeout_seconds: number;
  readonly machine: Machine;
}

/** The machine of a gateway whose configuration could be read. */
export interface Host extends HostOptions {
  readonly config: GatewayConfig;
  readonly loaded: Loaded;
  /** The gateway that answers where the configuration says one listens. */
  readonly running: RunningGateway | undefined;
  /** Asks it there. */
  readonly direct: DirectAsk | undefined;
}

/** Where a part of gateway.yaml stands, by JSON pointer, as `file:line`. */
export function placeOf({ loaded, config_file }: Pick<Host, 'loaded' | 'config_file'>, pointer: string): string {
  const position = loaded.positionOf(pointer);
  return position === undefined ? config_file : `${position.file}:${position.line}`;
}

/** How far the clock of somebody else is ahead of the one here. */
export interface ClockReading {
  readonly of: string;
  readonly ahead_ms: number;
}

/** What an answer over HTTP says of the clock of whoever made it; nothing where it was kept somewhere on the way. */
export function clockIn({ date, age }: IncomingHttpHeaders, now: number): number | undefined {
  const at = date === undefined || age !== undefined ? Number.NaN : Date.parse(date);
  // The header has whole seconds, so the middle of that second is the best guess.
  return Number.isNaN(at) ? undefined : at + 500 - now;
}

/** Clocks that are further apart than this are wrong: those that are set over the network are within milliseconds. */
const APART_MS = 5000;
const FAR_MS = 60_000;

/** Whether the clock here agrees with those of everybody who was asked anyway. */
export function examineClock(readings: readonly ClockReading[], clock_skew_seconds: number | undefined): Diagnosis {
  const base = { id: 'host.clock', title: 'clock of this machine' };
  if (readings.length === 0) return skipped('nobody answered whose clock it could be compared with', base);
  const details = readings.map(({ of, ahead_ms }) => `${of}: ${tell(ahead_ms)}`);
  const off = readings.filter(({ ahead_ms }) => Math.abs(ahead_ms) > APART_MS);
  if (off.length === 0) return ok(`agrees with ${readings.map(({ of }) => of).join(', ')}`, { ...base, details });
  const all_far = readings.length > 1 && readings.every(({ ahead_ms }) => Math.abs(ahead_ms) > FAR_MS);
  const skew =
    clock_skew_seconds === undefined
      ? ''
      : `; beyond ${clock_skew_seconds} s (auth.oidc.clock_skew_seconds) nobody can sign in`;
  return (all_far ? failed : warning)(
    `it differs from that of ${off.map(({ of, ahead_ms }) => `${of} (${tell(ahead_ms)})`).join(', ')}${skew}`,
    'have the clocks set over the network (timedatectl set-ntp true; chronyc tracking)',
    { ...base, details },
  );
}

function tell(ahead_ms: number): string {
  if (Math.abs(ahead_ms) < 1000) return 'the same';
  return `${spanText(ahead_ms / 1000)} ${ahead_ms > 0 ? 'ahead' : 'behind'}`;
}

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
const STEP = 1024;

/** A size for people: `512 MiB`, `1.5 GiB`. */
export function sizeText(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= STEP && unit < UNITS.length - 1) {
    value /= STEP;
    unit++;
  }
  const shown = value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1);
  return `${shown} ${UNITS[unit]}`;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A span of time for people: `45 s`, `12 min`, `5 h`, `3 days`. */
export function spanText(seconds: number): string {
  const span = Math.abs(seconds);
  if (span < 2 * MINUTE) return `${span < 10 ? Number(span.toFixed(1)) : Math.round(span)} s`;
  if (span < 2 * HOUR) return `${Math.round(span / MINUTE)} min`;
  return span < 2 * DAY ? `${Math.round(span / HOUR)} h` : `${Math.round(span / DAY)} days`;
}

/** How many of something: `1 file`, `2 files`. */
export function counted(many: number, one: string): string {
  return `${many} ${one}${many === 1 ? '' : 's'}`;
}
