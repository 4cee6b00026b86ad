import type { CodingCliNames } from '../config.ts';
import { inFile, type Values } from './broken-file.ts';
import type { ClientPlan, ClientWish, Draft, ReadText } from './draft.ts';
import { mergeJson, parseObject } from './json-text.ts';
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
  const config_draft: Draft = {
    path: config,
    before,
    after: inFile(config, () => mergeToml(before ?? '', configValues(wish, names), unwanted(wish))),
    secret: false,
  };
  const warnings = configWarnings(before);
  if ('variable' in wish.credential) return { drafts: [config_draft], warnings };
  const kept = read(auth);
  const { token } = wish.credential;
  const after = inFile(auth, () => mergeJson(kept ?? '', { [names.key_name]: token }));
  return {
    drafts: [{ path: auth, before: kept, after, secret: true }, config_draft],
    warnings: [...warnings, ...authWarnings(kept, auth)],
  };
}

function configValues({ model, context_window, ...wish }: CodingCliWish, { auth_flag }: CodingCliNames): Values {
  const { credential } = wish;
  // Of the two ways to a credential the one in auth.json is a sign-in to the client, the other one is not.
  const from = 'variable' in credential ? { env_key: credential.variable, [auth_flag]: false } : { [auth_flag]: true };
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
        ...from,
        supports_websockets: false,
      },
    },
  };
}

/** A variable that is named and not set keeps the client from starting, whatever auth.json holds. */
function unwanted({ credential }: CodingCliWish): string[][] {
  return 'token' in credential ? [['model_providers', PROVIDER, 'env_key']] : [];
}

function configWarnings(before: string | undefined): string[] {
  const found = parseToml((before ?? '').replace(/^\uFEFF/, ''));
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
  const { tokens } = parseObject(before.replace(/^\uFEFF/, ''));
  if (tokens === undefined || tokens === null) return [];
  return [`${path} also holds a sign-in of the vendor, which the coding CLI may prefer: sign out there first`];
}
