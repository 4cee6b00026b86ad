import { after, before, beforeEach } from 'node:test';
import type { Clock } from '../../../engine/base/contract/services.ts';
import { atProcessEnd } from '../../support/file-end.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
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

/**
 * Gives the tests of a file a gateway; `take` gets it before the first of them. Before each test the upstream has seen
 * nothing and returns a complete message. A file without a configuration has a gateway that files before it
 * used, and with it their rows; `{}` requests one of its own.
 * @param config sections of gateway.yaml, or a function of the URL of the upstream
 */
export function useGateway(take: (opened: Surroundings) => void, config?: Sections, clock?: Clock): void {
  let upstream: ScriptedUpstream;
  openForFile(config === undefined ? lendGateway : () => openGateway(config, clock), (opened) => {
    upstream = opened.upstream;
    upstream.early = false;
    take(opened);
  });
  beforeEach(() => {
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  });
}

async function openGateway(config: Sections = {}, clock?: Clock): Promise<Surroundings & Opened> {
  const upstream = await startUpstream();
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: typeof config === 'function' ? config(upstream.url) : config,
    ...(clock !== undefined && { clock }),
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

/** Opens something before the tests of a file, and closes it after them. */
export function openForFile<T extends Opened>(open: () => Promise<T>, take: (opened: T) => void): void {
  let opened: T | undefined;
  before(async () => {
    opened = await open();
    take(opened);
  });
  after(() => opened?.close());
}

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
