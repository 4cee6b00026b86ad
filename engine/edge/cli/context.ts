import type { Clock } from '../../base/contract/services.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import type { Terminal } from './terminal.ts';

/** Dependencies of every command. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** Loads the shipped stages; only for commands that need them. */
  stages(): Promise<readonly StageDefinition[]>;
  /** The system clock by default; tests replace it. */
  readonly clock?: Clock;
}
