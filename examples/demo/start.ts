/**
 * `npm start`: the demo upstream and identity provider, the gateway between them, an access token, and commands to paste.
 * `node examples/demo/start.ts other.yaml` does the same with another configuration.
 * @module
 */
import { randomBytes } from 'node:crypto';
import { dirname, join, relative } from 'node:path';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import { StartError } from '../../engine/base/contract/start-error.ts';
import { createLog } from '../../engine/base/kit/log.ts';
import { isLoopbackUrl } from '../../engine/base/kit/net/addresses.ts';
import { openDatabase } from '../../engine/base/store/database.ts';
import { CALLBACK_PATH, issuerOf } from '../../engine/domain/identity/provider/provider.ts';
import { reportFailure } from '../../engine/edge/cli/main.ts';
import { installedClients } from '../../engine/edge/cli/profiles.ts';
import { processTerminal } from '../../engine/edge/cli/terminal.ts';
import { loadToRead } from '../../engine/edge/gateway/reload.ts';
import { type Closable, runUntilSignal } from '../../engine/edge/gateway/signals.ts';
import { startGateway } from '../../engine/edge/gateway/start-gateway.ts';
import { stages } from '../../stages/index.ts';
import { type DemoIdentityProvider, startIdentityProvider } from './identity-provider.ts';
import { obtainSigningKey } from './signing-key.ts';
import { obtainToken } from './token.ts';
import { type Conduct, type DemoUpstream, startUpstream } from './upstream.ts';
import { canHaveWeek, playWeek, seeWeek, type WeekOptions } from './week/play.ts';
import { welcome } from './welcome.ts';

const config_file = process.argv[2] ?? join(import.meta.dirname, 'gateway.yaml');
const terminal = processTerminal(process.env);
// Ctrl-C must stop everything even without a reader of standard output.
terminal.outliveReader();
const { info, warn, error, hide } = createLog({
  write: (line) => terminal.info(line),
  format: 'readable',
  debug: process.env.APPSCLI_DEBUG === '1',
});
const log = {
  debug() {},
  // Of informational lines only configuration changes are printed.
  info(fields: object, message: string) {
    if ('changed' in fields) info({}, message);
  },
  warn,
  error,
  hide,
};

/** Starts a server at an address of gateway.yaml; raises StartError if the port is in use. */
async function openAt<T>(url: string, what: string, key: string, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause;
    const remedy = `stop the other program (a demo that is still running?), or change ${key} in`;
    const { host } = new URL(url);
    throw new StartError(`${host}, where the demo ${what} listens, is in use; ${remedy} ${shown(config_file)}`, {
      cause,
    });
  }
}

/** Returns a function that starts a demo upstream at its address in gateway.yaml. */
function upstreamOpener(api_key: string) {
  return (base_url: string, conduct?: Conduct): Promise<DemoUpstream> =>
    openAt(base_url, 'upstream', 'base_url', () => {
      const port = Number(new URL(base_url).port);
      return startUpstream({ api_key, port, ...(conduct !== undefined && { conduct }) });
    });
}

/**
 * Plays a week of traffic into an empty database. The database server keeps running until `close`, so that the gateway need
 * not start it again.
 */
async function openWeek(options: WeekOptions): Promise<Closable & { readonly is_there: boolean }> {
  const { config, env } = options;
  if (!canHaveWeek(config)) return { is_there: false, async close() {} };
  const database = await openDatabase({ config, env, log, wait: 'until-ready' });
  try {
    const before = await seeWeek(database);
    if (!before.is_new) return { is_there: before.is_there, close: () => database.close() };
    terminal.data('Playing a week of made-up traffic ...\n');
    await playWeek({ ...options, log: { ...log, info() {}, warn() {} } });
    return { is_there: true, close: () => database.close() };
  } catch (problem) {
    await database.close();
    throw problem;
  }
}

/** The demo's identity provider; `undefined` if the configuration names none on this machine. */
async function openIdentityProvider(
  config: GatewayConfig,
  client_secret: string,
  state_file: string,
): Promise<DemoIdentityProvider | undefined> {
  const { issuer_url, client_id } = config.auth?.oidc ?? {};
  if (issuer_url === undefined || client_id === undefined || !isLoopbackUrl(issuer_url)) return undefined;
  const client = { client_id, client_secret, redirect_uri: issuerOf(config) + CALLBACK_PATH };
  return openAt(issuer_url, 'identity provider', 'issuer_url', () =>
    startIdentityProvider(issuer_url, client, state_file),
  );
}

/** A path relative to the current directory. */
function shown(file: string): string {
  return relative(process.cwd(), file);
}

function randomSecret(): string {
  return randomBytes(24).toString('base64url');
}

async function startDemo(): Promise<Closable> {
  terminal.data('Starting the gateway and its PostgreSQL; the first time takes a few seconds.\n');
  const [api_key, client_secret] = [randomSecret(), randomSecret()];
  const secrets = { DEMO_UPSTREAM_KEY: api_key, DEMO_CLIENT_SECRET: client_secret };
  const config = await loadToRead(config_file, { stages, env: process.env, environment: 'ignored' });
  const state = (name: string) => join(dirname(config.database.embedded?.data_dir ?? config_file), name);
  const env = { ...process.env, ...secrets, DEMO_SIGNING_KEY: await obtainSigningKey(state('demo-signing-key')) };
  const opened: Closable[] = [];
  const close = async () => {
    for (const part of opened.splice(0).reverse()) await part.close();
  };
  try {
    const openUpstream = upstreamOpener(api_key);
    const week = await openWeek({ config_file, config, env, log, openUpstream });
    opened.push(week);
    for (const { base_url } of config.upstreams) opened.push(await openUpstream(base_url));
    const provider = await openIdentityProvider(config, client_secret, state('demo-identity.json'));
    if (provider !== undefined) opened.push(provider);
    const gateway = await startGateway({ config_file, stages, env, log, watch: true });
    opened.splice(opened.indexOf(week), 1, gateway);
    await week.close();
    const token = await obtainToken(gateway, state('demo-token'));
    const public_url = issuerOf(config);
    const sign_in = provider && { public_url, provider_url: provider.url, people: provider.people };
    const places = {
      url: gateway.url,
      upstream_url: config.upstreams[0]!.base_url,
      config_file: shown(config_file),
      has_week: week.is_there,
      clients: installedClients(process.env),
    };
    terminal.data(welcome({ ...places, token, ...(sign_in && { sign_in }) }));
  } catch (problem) {
    await close();
    throw problem;
  }
  return {
    async close() {
      terminal.data('\nStopping ...\n');
      await close();
      terminal.data('Stopped. The next start uses the same data.\n');
    },
  };
}

try {
  process.exitCode = await runUntilSignal(startDemo, log);
} catch (problem) {
  process.exitCode = await reportFailure(problem, terminal, process.env);
}
