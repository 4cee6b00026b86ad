import type { Diagnosis } from '../diagnosis.ts';

/** What is wrong on the machine where a gateway runs. Changes nothing. */
export async function examineHost(_given: {
  readonly config_file: string;
  readonly env: NodeJS.ProcessEnv;
  /** A token of the gateway, for what only callers see of the proxies in front of it. */
  readonly token: string | undefined;
  readonly timeout_seconds: number;
}): Promise<Diagnosis[]> {
  return [];
}
