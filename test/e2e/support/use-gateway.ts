import { beforeEach } from 'node:test';
import type { StageDefinition } from '../../../engine/api.ts';
import type { Clock } from '../../../engine/base/contract/services.ts';
import { atProcessEnd } from '../../support/file-end.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type Script,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { standIn, use } from '../../support/use.ts';
import { nothingReserved } from './state.ts';

/** A gateway and the upstream it forwards to. */
export interface Surroundings {
  readonly upstream: ScriptedUpstream;
  readonly gateway: TestGateway;
}

type Sections = ConfigSections | ((upstream_url: string) => ConfigSections);

/** Something with a gateway that the tests of a file work with. */
export interface Opened {
  readonly gateway: TestGateway;
  close(): Promise<void>;
}

/** Gives the tests of a file an upstream; before each of them it has seen nothing and has this script. */
export function useUpstream(script: Script = answerJson(message())): ScriptedUpstream {
  const upstream = use(startUpstream);
  beforeEach(() => {
    upstream.requests.length = 0;
    upstream.script = script;
  });
  return upstream;
}

/**
 * Gives the tests of a file a gateway. Before each test the upstream has seen nothing and returns a complete message. A file
 * without a configuration has a gateway that files before it used, and with it their rows; `{}` requests one of its own.
 * @param config sections of gateway.yaml, or a function of the URL of the upstream
 * @param stages beside the shipped ones
 */
export function useGateway(config?: Sections, clock?: Clock, stages?: readonly StageDefinition[]): Surroundings {
  const opened = use(() => (config === undefined ? lendGateway() : openGateway(config, clock, stages)));
  const upstream = standIn(() => opened.upstream);
  beforeEach(() => {
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  });
  return { upstream, gateway: standIn(() => opened.gateway) };
}

async function openGateway(
  config: Sections = {},
  clock?: Clock,
  stages: readonly StageDefinition[] = [],
): Promise<Surroundings & Opened> {
  const upstream = await startUpstream();
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: typeof config === 'function' ? config(upstream.url) : config,
    ...(clock !== undefined && { clock }),
    stages,
  }).catch(async (error) => {
    await upstream.close();
    throw error;
  });
  const close = async () => {
    await gateway.close();
    await upstream.close();
  };
  return { upstream, gateway, close };
}

const lendGateway = lend(() => openGateway());

/**
 * Lends something to one file of this process after the other, each with a user of its own. What a file closes is to have
 * nothing under way, and stays open for the next.
 */
export function lend<T extends Opened>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  let is_closed = false;
  let files = 0;
  const closeAll = async () => {
    is_closed = true;
    await (await opened!).close();
  };
  return async () => {
    if (opened === undefined) {
      opened = open();
      opened.then(
        () => atProcessEnd(closeAll),
        () => {
          // It fails this file, and the next may have more luck.
          opened = undefined;
        },
      );
    }
    const lent = await opened;
    const { gateway } = lent;
    const close = async () => {
      // A file that is run by hand is the last one before it begins to close.
      if (!is_closed) await nothingReserved(gateway.database);
    };
    return { ...lent, gateway: await gatewayFor(`file-${++files}@example.com`, gateway), close };
  };
}

/** A gateway as its new users see it. */
async function gatewayFor(user: string, gateway: TestGateway): Promise<TestGateway> {
  const logged_before = gateway.logs.length;
  const newToken: TestGateway['newToken'] = (input) => gateway.newToken({ user, ...input });
  const refuse = async () => {
    throw new Error('other files use this gateway; useGateway(…, {}) gives one of its own');
  };
  return {
    ...gateway,
    user,
    token: await newToken(),
    get logs() {
      return gateway.logs.slice(logged_before);
    },
    newToken,
    reload: refuse,
    close: refuse,
  };
}
