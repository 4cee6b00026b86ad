import { DECISIVE_FIELDS, type DecisiveField } from './decisive-fields.ts';

/** What is to be done about a field. */
export type FieldRule = Pick<DecisiveField, 'name' | 'decides' | 'rule' | 'harmless' | 'meaning'>;

/** Names of fields that hold models though no table names them, such as `fallbackModel` and `judge-model-id`. */
const MODEL_NAME =
  /(?:^|_)(?:(?:models?|llms?)(?:_?(?:id|name|slug|override|alias|ref|choice|preference|candidate|chain|order|group|pool|version)(?:s|es)?)?|fallbacks?(?:_(?:dict|map|list))?)$/;

/** Names of fields that choose an account though no table names them. */
const ACCOUNT_NAME =
  /(?:^|_)(?:organi[sz]ations?|org|workspaces?|projects?|tenants?|accounts?|user_profile|billing|bill_to|subscription|cost_cent(?:er|re))(?:_(?:ids?|slug|name|key|code))?$|^(?:billing|aws|azure|vertex|watsonx|sagemaker)_/;

/** Names of fields that hold credentials though no table names them. */
const CREDENTIAL_NAME =
  /(?:^|_)(?:api_?keys?|(?:virtual|provider|secret|access)_keys?(?:_ids?)?|(?:auth|access)_tokens?|credentials?(?:_(?:names?|ids?))?|auth|authorization|authentication)$/;

/** Names of fields that choose who serves though no table names them. */
const ROUTE_NAME =
  /^(?:providers?|routes?|routers?|routing)(?:_(?:order|options?|preferences?|names?|ids?|only|ignore|config|settings|strategy))?$/;

/** Longest name of a field that is looked at: no parser knows longer ones. */
const NAME_LENGTH_MAX = 100;

/** Most names whose rules are remembered. */
const REMEMBERED_MAX = 2000;

/** A key as lenient parsers read it: what stands for a plain letter is one, all are lower case, nothing is unseen. */
function foldCase(key: string): string {
  return key
    .normalize('NFKC')
    .replace(/[\p{C}\p{Z}]/gu, '')
    .toUpperCase()
    .toLowerCase();
}

/** A key in snake case, however its words are joined. */
function snakeCase(key: string): string {
  const words = key
    .normalize('NFKC')
    .replace(/([a-z\d])([A-Z])/g, '$1_$2')
    .replace(/\p{Z}+/gu, '_');
  return foldCase(words).replace(/[^a-z\d]+/g, '_');
}

const OF_TABLE = new Map(DECISIVE_FIELDS.filter(({ rule }) => rule !== 'pass').map((field) => [field.name, field]));

function ruleOf(folded: string): (FieldRule & { readonly level: 'top' | 'any' }) | undefined {
  const named = OF_TABLE.get(folded);
  if (named !== undefined) return named;
  // Folding can make a name longer; its end is what counts.
  const name = folded.slice(-NAME_LENGTH_MAX);
  if (MODEL_NAME.test(name)) return { name, level: 'any', decides: 'model', rule: 'check', meaning: 'a model' };
  if (ROUTE_NAME.test(name))
    return { name, level: 'top', decides: 'route', rule: 'refuse', meaning: 'who serves the model' };
  const account = ACCOUNT_NAME.test(name);
  if (!account && !CREDENTIAL_NAME.test(name)) return undefined;
  const meaning = account ? 'which account pays' : 'with which credential the next provider is asked';
  return { name, level: 'any', decides: 'account', rule: 'refuse', meaning };
}

type LevelRule = NonNullable<ReturnType<typeof ruleOf>>;

/** `null` for keys that decide nothing. */
const remembered = new Map<string, LevelRule | null>();

/** How many keys of one body had to be looked at closely: clients send the same few, and looking takes time. */
export interface KeyCount {
  unknown_keys: number;
}

/** What is to be done about a field of this key; `undefined` where it decides nothing. */
export function fieldRule(key: string, is_top_level: boolean, count?: KeyCount): FieldRule | undefined {
  let rule = remembered.get(key);
  if (rule === undefined) {
    if (count !== undefined) count.unknown_keys++;
    if (key.length > NAME_LENGTH_MAX) return undefined;
    rule = ruleOf(foldCase(key)) ?? ruleOf(snakeCase(key)) ?? null;
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(key, rule);
  }
  return rule === null || (rule.level === 'top' && !is_top_level) ? undefined : rule;
}

/** The names of all fields that are known to decide something. */
export const DECISIVE_NAMES: readonly string[] = DECISIVE_FIELDS.map(({ name }) => name);
