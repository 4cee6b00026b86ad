import type { GatewayConfig } from '../../contract/config.ts';
import type { StageDefinition } from '../../contract/stage.ts';
import type { Loaded } from '../../source/spec.ts';
import type { Machine } from './machine.ts';
import type { DirectAsk, RunningGateway } from './running.ts';

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
