import { dirname } from 'node:path';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { createModelCatalog } from '../../../engine/domain/upstreams/models.ts';
import { programCaller } from '../../../engine/edge/admin/calls.ts';
import { operationOf } from '../../../engine/edge/admin/description.ts';
import { createRunOperation } from '../../../engine/edge/admin/operations.ts';
import { loadToRun } from '../../../engine/edge/gateway/reload.ts';
import { stages } from '../../../stages/index.ts';
import type { TestGateway } from '../../support/gateway.ts';

/** The admin API's response for an administrator, or a developer by their address. */
export async function operation(gateway: TestGateway, name: string, input: object, as?: string) {
  const { database, config_file, env } = gateway;
  const { config, loaded } = await loadToRun(config_file, { stages, env, environment: 'required' });
  const run = createRunOperation({
    ...{ config, database, clock: systemClock, sessions: undefined, models: createModelCatalog(config) },
    explained: { loaded, directory: dirname(config_file) },
  });
  const root = programCaller('command', 'root', { kind: 'command', name: 'root@host' });
  const caller = as === undefined ? root : { ...root, email: as, is_admin: false };
  // biome-ignore lint/suspicious/noExplicitAny: the description defines it.
  return (await run(operationOf(name as never), caller, { path: {}, query: {}, body: undefined, ...input })) as any;
}
