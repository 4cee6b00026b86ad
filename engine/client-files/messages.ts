import type { MessagesClientNames } from '../contract/config.ts';
import { inFile, isTable, type Values } from './broken-file.ts';
import type { ClientPlan, ClientWish, Credential, ReadText } from './draft.ts';
import { mergeJson, parseObject } from './json-text.ts';
import { type ClientPlatform, callsHelper, HELPER_KEEP_MS, headersHelper, helperLine } from './key-helper.ts';
import { messagesTelemetry, renewsTelemetry, telemetryWarnings, unwantedTelemetry } from './telemetry.ts';

/** Tiers of models that have a variable of their own. */
export const TIERS = ['opus', 'sonnet', 'haiku', 'fable'] as const;

/** What the Messages client is told. */
export interface MessagesWish extends ClientWish {
  readonly model?: string | undefined;
  /** Models by tier. */
  readonly tiers: Readonly<Partial<Record<(typeof TIERS)[number], string>>>;
  /** Of `model`, in tokens: the client guesses it of models it does not know. */
  readonly context_window?: number | undefined;
  /** Whether it asks the gateway which models there are. */
  readonly discovery: boolean;
  /** Whether it asks for prompts to be kept for an hour. */
  readonly cache_1h: boolean;
}

/** Variables that keep a client from asking for an hour. */
const AGAINST_1H = ['FORCE_PROMPT_CACHING_5M', 'DISABLE_PROMPT_CACHING'];

/** The variables of the Messages client but for its credential, in the order they are shown; telemetry is apart. */
export function messagesVariables(wish: MessagesWish, names: MessagesClientNames): Record<string, string> {
  const { variable_prefix: prefix, feature_prefix: feature } = names;
  const tiers = TIERS.flatMap((tier) => {
    const model = wish.tiers[tier];
    return model === undefined ? [] : [[`${prefix}_DEFAULT_${tier.toUpperCase()}_MODEL`, model] as const];
  });
  return {
    [addressVariable(names)]: wish.root_url,
    ...(wish.model === undefined ? {} : { [`${prefix}_MODEL`]: wish.model }),
    ...Object.fromEntries(tiers),
    ...(wish.context_window === undefined ? {} : { [`${feature}_MAX_CONTEXT_TOKENS`]: String(wish.context_window) }),
    ...(wish.discovery ? { [`${feature}_ENABLE_GATEWAY_MODEL_DISCOVERY`]: '1' } : {}),
    ...(wish.cache_1h ? { ENABLE_PROMPT_CACHING_1H: '1' } : {}),
  };
}

/** Name of the variable that holds the client's credential. */
export function credentialVariable({ variable_prefix }: MessagesClientNames): string {
  return `${variable_prefix}_AUTH_TOKEN`;
}

/** The settings of the Messages client with the variables in their section `env`. Raises BrokenFile. */
export function planMessages(
  wish: MessagesWish,
  names: MessagesClientNames,
  { path, platform, read }: { readonly path: string; readonly platform: ClientPlatform; readonly read: ReadText },
): ClientPlan {
  const { credential } = wish;
  const before = read(path);
  const after = inFile(path, () => {
    const found = before === undefined || before.trim() === '' ? {} : parseObject(before);
    const drops = [...unwanted(credential, names), ...unwantedTelemetry(wish, names, found)];
    const renews = renewsTelemetry(wish, names, found);
    return mergeJson(before ?? '', settingsOf(wish, names, { platform, renews }), drops);
  });
  const { env } = parseObject(after);
  return {
    drafts: [{ path, before, after, secret: 'token' in credential }],
    warnings: variableWarnings(wish, names, isTable(env) ? env : {}, path),
  };
}

/** Settings that say how people sign in, and at which gateway. */
const SIGN_IN = { method: 'forceLoginMethod', address: 'forceLoginGatewayUrl' };
/** The setting that names the command of a key helper. */
const HELPER = 'apiKeyHelper';

function settingsOf(
  wish: MessagesWish,
  names: MessagesClientNames,
  { platform, renews }: { readonly platform: ClientPlatform; readonly renews: boolean },
): Values {
  const { credential, root_url } = wish;
  const helper_line = 'helper' in credential ? helperLine(headersHelper(credential.helper), platform) : undefined;
  const telemetry = messagesTelemetry(wish, names, { helper_line, renews });
  const env = { ...messagesVariables(wish, names), ...telemetry.env };
  if ('sign_in' in credential) {
    // The address comes with the sign-in; set besides, it would stand for a gateway without one.
    const { [addressVariable(names)]: _, ...others } = env;
    const more = Object.keys(others).length === 0 ? {} : { env: others };
    return { [SIGN_IN.method]: 'gateway', [SIGN_IN.address]: root_url, ...more };
  }
  if ('token' in credential) return { env: { ...env, [credentialVariable(names)]: credential.token } };
  if ('variable' in credential) return { env };
  const keep = { [helperTimeVariable(names)]: String(HELPER_KEEP_MS) };
  return { [HELPER]: helperLine(credential.helper, platform), ...telemetry.settings, env: { ...env, ...keep } };
}

function addressVariable({ variable_prefix }: MessagesClientNames): string {
  return `${variable_prefix}_BASE_URL`;
}

function helperTimeVariable({ feature_prefix }: MessagesClientNames): string {
  return `${feature_prefix}_API_KEY_HELPER_TTL_MS`;
}

/** What would win over the way to a credential that is wanted, or be asked for beside it. */
function unwanted(credential: Credential, names: MessagesClientNames): string[][] {
  const sign_in = [[SIGN_IN.method], [SIGN_IN.address]];
  const helper = [[HELPER], ['env', helperTimeVariable(names)]];
  const token = ['env', credentialVariable(names)];
  if ('sign_in' in credential) return [['env', addressVariable(names)], token, ...helper];
  if ('helper' in credential) return [token, ...sign_in];
  return 'token' in credential ? [...sign_in, ...helper] : [];
}

/** The settings of the Messages client without what belongs to a gateway. Raises BrokenFile. */
export function removeMessages(
  root_url: string,
  names: MessagesClientNames,
  { path, read }: { readonly path: string; readonly read: ReadText },
): ClientPlan {
  const before = read(path);
  if (before === undefined) return { drafts: [], warnings: [] };
  return inFile(path, () => {
    const found = parseObject(before);
    const env = isTable(found.env) ? found.env : {};
    const signs_in = found[SIGN_IN.address] === root_url;
    const has_helper = callsHelper(found[HELPER], root_url);
    const has_address = env[addressVariable(names)] === root_url;
    const drops = [
      ...(signs_in ? [[SIGN_IN.method], [SIGN_IN.address]] : []),
      ...(has_helper ? [[HELPER]] : []),
      ...(signs_in || has_helper || has_address ? ourVariables(names).map((name) => ['env', name]) : []),
      ...unwantedTelemetry({ root_url, credential: { sign_in: true }, telemetry: [] }, names, found),
    ];
    const after = mergeJson(before, {}, drops);
    return { drafts: [{ path, before, after, secret: false }], warnings: [] };
  });
}

/** Every variable that may be in the settings because of a gateway. */
function ourVariables(names: MessagesClientNames): string[] {
  const tiers = Object.fromEntries(TIERS.map((tier) => [tier, tier]));
  const features = { discovery: true, cache_1h: true };
  const everything = { root_url: '', credential: { variable: '' }, model: '', context_window: 1, tiers, ...features };
  return [...Object.keys(messagesVariables(everything, names)), credentialVariable(names), helperTimeVariable(names)];
}

/** What variables that are set, in the environment or in a file, would do to the ones of the gateway. */
export function variableWarnings(
  { cache_1h, credential, telemetry }: MessagesWish,
  { variable_prefix }: MessagesClientNames,
  set: Readonly<Record<string, unknown>>,
  where: string,
): string[] {
  const isSet = (name: string) => Object.hasOwn(set, name) && set[name] !== undefined && set[name] !== '';
  const legacy = `${variable_prefix}_API_KEY`;
  const signs_in = 'sign_in' in credential;
  const before_ours = [
    ...(signs_in || 'helper' in credential ? [`${variable_prefix}_AUTH_TOKEN`] : []),
    ...(signs_in ? [`${variable_prefix}_BASE_URL`] : []),
  ];
  return [
    ...before_ours
      .filter(isSet)
      .map(
        (name) =>
          `${name} is set in ${where}: remove it, or the client ${signs_in ? 'does not sign in' : 'sends that token'}`,
      ),
    ...(isSet(legacy) ? [`${legacy} is set in ${where}: remove it, so that it is not sent beside the token`] : []),
    ...AGAINST_1H.filter((name) => cache_1h && isSet(name)).map(
      (name) => `${name} is set in ${where}: with it prompts are not kept for an hour`,
    ),
    ...telemetryWarnings('messages', { telemetry }, set, where),
  ];
}
