/** A sign-in at a scripted gateway, with time that moves by itself. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { beforeEach } from 'node:test';
import { login } from '../../../engine/cli/sign-in/login.ts';
import { StartError } from '../../../engine/contract/start-error.ts';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import {
  type Backend,
  createBackend,
  drive,
  type ScriptedGateway,
  startScriptedGateway,
} from '../../client/scripted-gateway.ts';

const START = '2027-01-31T12:00:00Z';

/** What a test about signing in works with; new for each test. */
export interface SignInBench {
  gateway: ScriptedGateway;
  backend: Backend;
  clock: FrozenClock;
  /** Pages that were opened in the browser. */
  readonly opened: string[];
  signIn(
    given?: { json?: true; browser?: boolean; baseUrl?: string | undefined },
    env?: NodeJS.ProcessEnv,
  ): Promise<number>;
  /** The same; gives the error it must end with. */
  refused(given?: { baseUrl?: string | undefined }): Promise<StartError>;
  /** What the credentials file holds. */
  // biome-ignore lint/suspicious/noExplicitAny: parsed JSON
  kept(): any;
  passed_seconds(): number;
}

/** Sets up a bench before each test; what is returned is filled in then. */
export function signInBench(): SignInBench {
  const bench = { opened: [] as string[] } as unknown as SignInBench;
  beforeEach(async () => {
    bench.gateway = await startScriptedGateway();
    bench.backend = createBackend();
    bench.clock = frozenClock(START);
    bench.opened.length = 0;
  });
  bench.signIn = (given = {}, env = bench.backend.env) => {
    const options = { baseUrl: bench.gateway.url, browser: true, ...given };
    const { clock, backend, opened } = bench;
    return drive(clock, login({ ...backend.context, env }, options, { clock, open: (url) => void opened.push(url) }));
  };
  bench.refused = async (given = {}) => {
    const error = await bench.signIn(given).then(
      () => assert.fail('it succeeded'),
      (reason) => reason,
    );
    assert.ok(error instanceof StartError, String(error?.stack));
    return error;
  };
  bench.kept = () => JSON.parse(readFileSync(bench.backend.path, 'utf8'));
  bench.passed_seconds = () => (bench.clock.now() - Date.parse(START)) / 1000;
  return bench;
}
