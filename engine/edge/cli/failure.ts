import { inspect } from 'node:util';
import { StageError } from '../../base/contract/errors.ts';
import { EXIT_CONFIGURATION, EXIT_UNAVAILABLE, StageNotCreated, StartError } from '../../base/contract/start-error.ts';
import { printableLine } from '../../base/kit/text/printable.ts';
import { ConfigurationError } from '../../base/source/configuration-error.ts';
import { EXIT_FINDINGS } from './exit-codes.ts';
import { hint } from './program-name.ts';
import type { Terminal } from './terminal.ts';

function oneLine(text: string): string {
  return printableLine(text.replace(/\s*\n\s*/g, ' ')).trim();
}

/** A failure as one line, and its exit code. */
export function describeFailure(error: unknown): { readonly line: string; readonly exit_code: number } {
  if (error instanceof StartError) return { line: oneLine(error.message), exit_code: error.exit_code };
  if (error instanceof StageNotCreated) return { line: oneLine(error.message), exit_code: EXIT_CONFIGURATION };
  if (error instanceof StageError && error.code === 'store_unavailable') {
    return { line: `${oneLine(error.message)} Try again when the database is available.`, exit_code: EXIT_UNAVAILABLE };
  }
  const message = error instanceof Error ? error.message : String(error);
  return {
    line: `unexpected error: ${oneLine(message)}; please report it with the stack trace of APPSCLI_DEBUG=1`,
    exit_code: EXIT_FINDINGS,
  };
}

/**
 * Prints a failure: the findings of a configuration, then one line. APPSCLI_DEBUG=1 adds the stack trace.
 * @returns the exit code.
 */
export async function reportFailure(error: unknown, terminal: Terminal, env: NodeJS.ProcessEnv): Promise<number> {
  const { line, exit_code } = describeFailure(error);
  if (error instanceof ConfigurationError) {
    const { renderDiagnostics } = await import('../../base/source/diagnostics/render.ts');
    const { diagnostics, sources } = error.findings;
    terminal.info(`${renderDiagnostics(diagnostics, { format: 'text', color: terminal.info_color, sources })}\n`);
  }
  if (env.APPSCLI_DEBUG === '1') terminal.info(`${inspect(error)}\n`);
  terminal.info(`appscli: ${hint(terminal, line)}\n`);
  return exit_code;
}
