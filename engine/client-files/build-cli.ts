import type { BuildCliNames } from '../config.ts';
import { inFile } from './broken-file.ts';
import type { ClientPlan, ClientWish, ReadText } from './draft.ts';
import { mergeToml } from './toml-text.ts';

/** What the build CLI is told. */
export interface BuildCliWish extends ClientWish {
  /** Identifier of the model at the gateway. */
  readonly model: string;
  /** Name of the entry in its file. */
  readonly alias: string;
  readonly display_name: string;
  /** In tokens. */
  readonly context_window: number;
}

/** The file of the build CLI with an entry for the gateway, which becomes its default. Raises BrokenFile. */
export function planBuildCli(
  wish: BuildCliWish,
  names: BuildCliNames,
  { path, read }: { readonly path: string; readonly read: ReadText },
): ClientPlan {
  const { alias, credential } = wish;
  const before = read(path);
  const key = 'token' in credential ? { api_key: credential.token } : { env_key: credential.variable };
  const entry = {
    model: wish.model,
    base_url: `${wish.root_url}/v1`,
    name: wish.display_name,
    context_window: wish.context_window,
    ...key,
  };
  // Of the two it prefers the literal key, also to the variable it has just been told.
  const drops = 'token' in credential ? [] : [['model', alias, 'api_key']];
  const values = { models: { default: alias }, model: { [alias]: entry } };
  const after = inFile(path, () => mergeToml(before ?? '', values, drops));
  const drafts = [{ path, before, after, secret: 'token' in credential }];
  return { drafts, warnings: variableWarnings(wish, names) };
}

function variableWarnings({ credential }: BuildCliWish, { key_variable }: BuildCliNames): string[] {
  if ('token' in credential || credential.variable !== key_variable) return [];
  return [`${key_variable} is also what the build CLI uses for its vendor; a variable of its own keeps the two apart`];
}
