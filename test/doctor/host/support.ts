import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { diagnoseHost } from '../../../engine/edge/doctor/host/diagnose-host.ts';
import { type Machine, thisMachine } from '../../../engine/edge/doctor/host/host.ts';
import { stages } from '../../../stages/index.ts';

/** What `diagnoseHost` found, in its order; up to the result with the id `until`, where one is given. */
export async function diagnoseAll(
  config_file: string,
  env: NodeJS.ProcessEnv,
  {
    machine = thisMachine(),
    timeout_seconds = 5,
    until,
  }: { machine?: Machine; timeout_seconds?: number; until?: string } = {},
): Promise<CheckResult[]> {
  const results: CheckResult[] = [];
  for await (const result of diagnoseHost({ config_file, env, machine, timeout_seconds, stages })) {
    results.push(result);
    if (result.id === until) break;
  }
  return results;
}

export function only(results: readonly CheckResult[], id: string): CheckResult {
  const found = results.filter((result) => result.id === id);
  if (found.length !== 1)
    throw new Error(`${found.length} results for ${id} among ${results.map((one) => one.id).join(', ')}`);
  return found[0]!;
}
