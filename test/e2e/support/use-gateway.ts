import { after, before, beforeEach } from 'node:test';
import type { Clock } from '../../../engine/api.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';

/** A gateway and the upstream it forwards to. */
export interface Surroundings {
  readonly upstream: ScriptedUpstream;
  readonly gateway: TestGateway;
}

/**
 * Boots a gateway for the tests of a file; `take` is given it before the first of them. Before each test the upstream has
 * seen nothing and answers a complete message.
 */
export function useGateway(take: (opened: Surroundings) => void, config: ConfigSections = {}, clock?: Clock): void {
  let upstream: ScriptedUpstream | undefined;
  let gateway: TestGateway | undefined;
  before(async () => {
    upstream = await startUpstream();
    gateway = await bootGateway({ upstream_url: upstream.url, config, ...(clock && { clock }) });
    take({ upstream, gateway });
  });
  after(async () => {
    await gateway?.close();
    await upstream?.close();
  });
  beforeEach(() => {
    upstream!.requests.length = 0;
    upstream!.script = answerJson(message());
  });
}
