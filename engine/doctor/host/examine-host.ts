import type { CheckResult } from '../../contract/checks.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { examineClock } from './clock.ts';
import { examineConfiguration, examineVariables } from './configuration.ts';
import { examineDatabase } from './database.ts';
import type { Host, HostOptions } from './host.ts';
import { examineListening, examineRunning } from './listening.ts';
import { examinePublicUrl } from './public/public-url.ts';
import { examineServices } from './services.ts';

export type { HostOptions } from './host.ts';
export { type Machine, thisMachine } from './machine.ts';

/**
 * What is wrong on the machine where a gateway runs, one by one as it is known. Changes nothing, starts nothing and binds
 * nothing; what is asked costs nothing.
 */
export async function* examineHost(given: HostOptions): AsyncGenerator<CheckResult> {
  const since = stopwatch();
  const { loaded, diagnosis } = await examineConfiguration(given);
  yield since(diagnosis);
  const { config } = loaded;
  if (config === undefined) return;
  const { diagnoses, running, direct } = await examineListening({ ...given, loaded, config });
  const host: Host = { ...given, loaded, config, running, direct };
  // All that is asked is asked at once; it is told in the order in which one would look.
  const database = examineDatabase(host);
  const services = examineServices(host);
  // Nobody waits for these while others are told.
  for (const asked of [database, ...services]) asked.catch(() => {});
  for (const found of diagnoses) yield since(found);
  for (const found of examineRunning(host)) yield since(found);
  yield since(examineVariables(given, loaded, running !== undefined));
  const { diagnoses: of_database, ahead_ms } = await database;
  for (const found of of_database) yield since(found);
  const clocks = ahead_ms === undefined ? [] : [{ of: 'the database', ahead_ms }];
  for (const service of services) {
    const { diagnoses: of_service, clock } = await service;
    for (const found of of_service) yield since(found);
    if (clock !== undefined) clocks.push(clock);
  }
  yield since(examineClock(clocks, config.auth?.oidc?.clock_skew_seconds));
  for await (const found of examinePublicUrl(host)) yield since(found);
}

/** Each result takes what passed since the one before. */
function stopwatch(): (found: Diagnosis) => CheckResult {
  let last = performance.now();
  return ({ fixes: _, ...found }) => {
    const now = performance.now();
    const duration_ms = Math.round(now - last);
    last = now;
    return { ...found, duration_ms };
  };
}
