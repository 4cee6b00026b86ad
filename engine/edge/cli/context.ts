import type { Clock } from '../../base/contract/services.ts';
import type { StageDefinition } from '../../base/contract/stage.ts';
import type { Terminal } from './terminal.ts';

/** What every command is given. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** The stages that ship with the program; loaded only by commands that need them. */
  stages(): Promise<readonly StageDefinition[]>;
  /** That of the system where absent; tests put theirs in its place. */
  readonly clock?: Clock;
}
