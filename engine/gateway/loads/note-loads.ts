import { dirname, resolve } from 'node:path';
import type { LoadCause } from '../../audit/config-loads.ts';
import type { GatewayConfig } from '../../contract/config.ts';
import { StartError } from '../../contract/start-error.ts';
import { effectiveRules } from '../../explain/rules.ts';
import { ConfigurationError } from '../../source/configuration-error.ts';
import type { Loaded } from '../../source/spec.ts';
import { configHash } from '../../telemetry/config-hash.ts';
import { fileNamer, type KeptConfiguration, keepVersion } from './keep-version.ts';
import type { LoadRecord } from './load-record.ts';

/** How a load ended: what is in force now, or what kept it from that. */
export type LoadEnd =
  | { readonly config: GatewayConfig; readonly loaded: Loaded; readonly needs_restart: readonly string[] }
  | { readonly error: unknown };

/** Notes the end of a load, with the paths of files that differ from what was in force before it. Never throws. */
export type NoteLoad = (cause: LoadCause, end: LoadEnd, changed: readonly string[]) => void;

/** Makes the function that notes loads of a gateway.yaml. */
export function createNoteLoad(config_file: string, record: Pick<LoadRecord, 'note'>): NoteLoad {
  const nameOf = fileNamer(config_file);
  const directory = dirname(resolve(config_file));
  return (cause, end, changed_paths) => {
    const changed = changed_paths.map(nameOf);
    if ('error' in end) {
      const kept = end.error instanceof ConfigurationError ? keepFailed(config_file, end.error) : undefined;
      record.note({ cause, kept, changed, ...(kept === undefined && { problem: describeProblem(end.error) }) });
      return;
    }
    const { config, loaded, needs_restart } = end;
    const rules = effectiveRules(loaded, config, directory);
    const kept = keepVersion(config_file, loaded, rules);
    record.note({ cause, kept, changed, in_force: { config_hash: configHash(config), needs_restart } });
  };
}

function keepFailed(config_file: string, { findings }: ConfigurationError): KeptConfiguration {
  return keepVersion(config_file, findings, null);
}

/** Only what was written by us: other messages may quote anything, a secret among it, and the log blanks those out. */
function describeProblem(error: unknown): string {
  if (error instanceof StartError) return error.message;
  return 'what passed the checks could not be put to work; the log of this gateway says why';
}
