import type { MessagesClientNames } from '../config.ts';
import { inFile, isTable } from './broken-file.ts';
import type { ClientPlan, ClientWish, ReadText } from './draft.ts';
import { mergeJson, parseObject } from './json-text.ts';

/** Tiers of models that have a variable of their own. */
export const TIERS = ['opus', 'sonnet', 'haiku', 'fable'] as const;

/** What the Messages client is told. */
export interface MessagesWish extends ClientWish {
  readonly model?: string | undefined;
  /** Models by tier. */
  readonly tiers: Readonly<Partial<Record<(typeof TIERS)[number], string>>>;
  /** Whether it asks the gateway which models there are. */
  readonly discovery: boolean;
  /** Whether it asks for prompts to be kept for an hour. */
  readonly cache_1h: boolean;
}

/** Variables that keep a client from asking for an hour. */
const AGAINST_1H = ['FORCE_PROMPT_CACHING_5M', 'DISABLE_PROMPT_CACHING'];

/** The variables of the Messages client but for its credential, in the order they are shown. */
export function messagesVariables(wish: MessagesWish, names: MessagesClientNames): Record<string, string> {
  const { variable_prefix: prefix, feature_prefix: feature } = names;
  const tiers = TIERS.flatMap((tier) => {
    const model = wish.tiers[tier];
    return model === undefined ? [] : [[`${prefix}_DEFAULT_${tier.toUpperCase()}_MODEL`, model] as const];
  });
  return {
    [`${prefix}_BASE_URL`]: wish.root_url,
    ...(wish.model === undefined ? {} : { [`${prefix}_MODEL`]: wish.model }),
    ...Object.fromEntries(tiers),
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
  { path, read }: { readonly path: string; readonly read: ReadText },
): ClientPlan {
  const { credential } = wish;
  const before = read(path);
  const token = 'token' in credential ? { [credentialVariable(names)]: credential.token } : {};
  const values = { env: { ...messagesVariables(wish, names), ...token } };
  const after = inFile(path, () => mergeJson(before ?? '', values));
  const { env } = parseObject(after.replace(/^\uFEFF/, ''));
  return {
    drafts: [{ path, before, after, secret: 'token' in credential }],
    warnings: variableWarnings(wish, names, isTable(env) ? env : {}, path),
  };
}

/** What variables that are set, in the environment or in a file, would do to the ones of the gateway. */
export function variableWarnings(
  { cache_1h }: MessagesWish,
  { variable_prefix }: MessagesClientNames,
  set: Readonly<Record<string, unknown>>,
  where: string,
): string[] {
  const isSet = (name: string) => Object.hasOwn(set, name) && set[name] !== undefined && set[name] !== '';
  const legacy = `${variable_prefix}_API_KEY`;
  return [
    ...(isSet(legacy) ? [`${legacy} is set in ${where}: remove it, so that it is not sent beside the token`] : []),
    ...AGAINST_1H.filter((name) => cache_1h && isSet(name)).map(
      (name) => `${name} is set in ${where}: with it prompts are not kept for an hour`,
    ),
  ];
}
