import type { CodingCliNames } from '../contract/config.ts';
import { inFile, isTable, type Values } from './broken-file.ts';
import type { ClientPlan, ClientWish, Credential, Draft, ReadText } from './draft.ts';
import { mergeJson, parseObject } from './json-text.ts';
import { HELPER_KEEP_MS, HELPER_WAIT_SECONDS } from './key-helper.ts';
import { codingTelemetry, unwantedExporters } from './telemetry.ts';
import { mergeToml, parseToml } from './toml-text.ts';

/** Name of the provider's section, which the client does not know as one of its own. */
const PROVIDER = 'custom';

/** Part of the context window at which the client shortens its conversation: it must do so before the window is full. */
const COMPACT_AT = 0.95;

/** What the coding CLI is told. */
export interface CodingCliWish extends ClientWish {
  /** Identifier of the model at the gateway. */
  readonly model: string;
  readonly provider_name: string;
  /** In tokens. */
  readonly context_window: number;
}

/** The two files of the coding CLI with the gateway as its provider. Raises BrokenFile. */
export function planCodingCli(
  wish: CodingCliWish,
  names: CodingCliNames,
  { config, auth, read }: { readonly config: string; readonly auth: string; readonly read: ReadText },
): ClientPlan {
  const before = read(config);
  const found = inFile(config, () => parseToml(before ?? ''));
  const telemetry = codingTelemetry(wish, found);
  const after_config = inFile(config, () => {
    const drops = [...unwanted(wish, names), ...unwantedExporters(wish, found)];
    return mergeToml(before ?? '', { ...configValues(wish, names), ...telemetry }, drops);
  });
  // The headers of telemetry can only stand in the file itself.
  const secret = 'token' in wish.credential && Object.keys(telemetry).length > 0;
  const config_draft: Draft = { path: config, before, after: after_config, secret };
  const warnings = configWarnings(before);
  if (!('token' in wish.credential)) return { drafts: [config_draft], warnings };
  const kept = read(auth);
  const { token } = wish.credential;
  const after = inFile(auth, () => mergeJson(kept ?? '', { [names.key_name]: token }));
  return {
    drafts: [{ path: auth, before: kept, after, secret: true }, config_draft],
    warnings: [...warnings, ...authWarnings(kept, auth)],
  };
}

function configValues({ model, context_window, ...wish }: CodingCliWish, { auth_flag }: CodingCliNames): Values {
  return {
    model_provider: PROVIDER,
    model,
    model_reasoning_effort: 'none',
    model_context_window: context_window,
    model_auto_compact_token_limit: Math.floor(context_window * COMPACT_AT),
    model_providers: {
      [PROVIDER]: {
        name: wish.provider_name,
        base_url: `${wish.root_url}/v1`,
        wire_api: 'responses',
        ...credentialValues(wish.credential, auth_flag),
        supports_websockets: false,
      },
    },
  };
}

/** Of all ways to a credential the one in auth.json is a sign-in to the client, the others are not. */
function credentialValues(credential: Credential, auth_flag: string): Values {
  if ('token' in credential) return { [auth_flag]: true };
  if ('variable' in credential) return { env_key: credential.variable, [auth_flag]: false };
  if (!('helper' in credential)) return {};
  const { program, args } = credential.helper;
  return {
    auth: {
      command: program,
      args,
      timeout_ms: HELPER_WAIT_SECONDS * 1000,
      refresh_interval_ms: HELPER_KEEP_MS,
    },
  };
}

/** The client refuses to start with two ways to a credential, and with a variable that is named and not set. */
function unwanted({ credential }: CodingCliWish, { auth_flag }: CodingCliNames): string[][] {
  const keys = {
    env_key: 'variable' in credential,
    auth: 'helper' in credential,
    [auth_flag]: !('helper' in credential),
  };
  return Object.entries(keys).flatMap(([key, wanted]) => (wanted ? [] : [['model_providers', PROVIDER, key]]));
}

/** The two files of the coding CLI without what belongs to a gateway. Raises BrokenFile. */
export function removeCodingCli(
  root_url: string,
  names: CodingCliNames,
  { config, auth, read }: { readonly config: string; readonly auth: string | undefined; readonly read: ReadText },
): ClientPlan {
  const before = read(config);
  if (before === undefined) return { drafts: [], warnings: [] };
  const found = inFile(config, () => parseToml(before));
  const exporters = unwantedExporters({ root_url, credential: { sign_in: true }, telemetry: [] }, found);
  const providers = isTable(found.model_providers) ? found.model_providers : {};
  const provider = isTable(providers[PROVIDER]) ? providers[PROVIDER] : {};
  const is_ours = provider.base_url === `${root_url}/v1`;
  if (!is_ours && exporters.length === 0) return { drafts: [], warnings: [] };
  const chosen = found.model_provider === PROVIDER ? OF_THE_PROVIDER.map((key) => [key]) : [];
  const drops = [...(is_ours ? [['model_providers', PROVIDER], ...chosen] : []), ...exporters];
  const after = inFile(config, () => mergeToml(before, {}, drops));
  const drafts = [{ path: config, before, after, secret: false }];
  const kept = auth === undefined || !is_ours || provider[names.auth_flag] !== true ? undefined : read(auth);
  if (auth === undefined || kept === undefined) return { drafts, warnings: [] };
  const without = inFile(auth, () => mergeJson(kept, {}, [[names.key_name]]));
  return { drafts: [{ path: auth, before: kept, after: without, secret: true }, ...drafts], warnings: [] };
}

/** What the client is told at the top of its file because of the provider. */
const OF_THE_PROVIDER = [
  'model_provider',
  'model',
  'model_reasoning_effort',
  'model_context_window',
  'model_auto_compact_token_limit',
];

function configWarnings(before: string | undefined): string[] {
  const found = parseToml(before ?? '');
  const meddling = {
    profile: 'a profile may set another model or provider than the one at the top of the file',
    model_catalog_json:
      'a catalogue of models may state another context window, and the conversation is not shortened in time',
  };
  return Object.entries(meddling).flatMap(([key, why]) =>
    Object.hasOwn(found, key) ? [`the file sets ${key}: ${why}`] : [],
  );
}

function authWarnings(before: string | undefined, path: string): string[] {
  if (before === undefined || before.trim() === '') return [];
  const { tokens } = parseObject(before);
  if (tokens === undefined || tokens === null) return [];
  return [`${path} also holds a sign-in of the vendor, which the coding CLI may prefer: sign out there first`];
}
