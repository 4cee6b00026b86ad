import { dirname, join } from 'node:path';
import { BrokenFile } from '../../../client-files/broken-file.ts';
import { parseObject } from '../../../client-files/json-text.ts';
import { TIERS } from '../../../client-files/messages.ts';
import { StartError } from '../../../contract/start-error.ts';
import type { Desk } from '../../desk.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { LARGEST_WINDOW } from '../context-window.ts';
import { shownText } from '../credential-text.ts';
import { type Found, fixIn, howToChange, isOn, isSet, type Settings, userSettingsPath } from './settings.ts';

/** Variables that keep the client from asking for prompts to be kept for an hour, or at all. */
const AGAINST_CACHING = /^(?:FORCE_PROMPT_CACHING_5M|DISABLE_PROMPT_CACHING(?:_[A-Z]+)?)$/;

/** What keeps the client from asking for prompts to be kept for an hour though it is told to. */
export function examineCaching(settings: Settings): Diagnosis[] {
  const wanted = settings.variable('ENABLE_PROMPT_CACHING_1H');
  if (!isOn(wanted)) return [];
  const names = new Set(settings.sources.flatMap(({ env }) => Object.keys(env)));
  return [...names]
    .filter((name) => AGAINST_CACHING.test(name))
    .map((name) => settings.variable(name))
    .filter((found): found is Found => isOn(found))
    .map((found) => ({
      id: 'messages.cache_1h',
      title: 'prompts kept for an hour',
      verdict: 'warning',
      where: found.where,
      found: `${found.name} is set, so the client does not ask for an hour as ${wanted!.where} says`,
      remedy: howToChange(found),
      ...fixIn(found.source, { drops: [['env', found.name]] }),
    }));
}

/** What is wrong with asking the gateway which models there are, and with what the client remembers of that. */
export function examineDiscovery(desk: Desk, settings: Settings, address: Found | undefined): Diagnosis[] {
  const found = settings.variable(`${desk.names.messages.feature_prefix}_ENABLE_GATEWAY_MODEL_DISCOVERY`);
  if (!isOn(found)) return [];
  if (isSet(address)) return examineCache(desk, address.value);
  const base_url = `${desk.names.messages.variable_prefix}_BASE_URL`;
  // What is missing may be the address: nothing is taken out for somebody.
  return [
    {
      id: 'messages.discovery',
      title: 'model discovery',
      verdict: 'warning',
      where: found!.where,
      found: `${found!.name} has no effect: without ${base_url} there is no gateway to ask`,
      remedy: `set ${base_url}; or ${howToChange(found!)}`,
    },
  ];
}

function examineCache(desk: Desk, address: string): Diagnosis[] {
  const path = join(dirname(userSettingsPath(desk)), 'cache', 'gateway-models.json');
  const stale = (found: string): Diagnosis[] => [
    {
      id: 'messages.models_cache',
      title: 'remembered models',
      verdict: 'warning',
      where: path,
      found,
      remedy: `remove ${path} and start the client: it asks again, and shows none where the gateway does not answer within 3 seconds`,
      fixes: [{ path, change: () => undefined, secret: false }],
    },
  ];
  try {
    const text = desk.read(path);
    if (text === undefined) return [];
    const { baseUrl, models } = parseObject(text);
    if (typeof baseUrl !== 'string' || !Array.isArray(models)) return stale('it is no list of models');
    if (baseUrl !== address)
      return stale(`it is a list of models of ${baseUrl}, which the client does not use for ${address}`);
    return [];
  } catch (error) {
    if (error instanceof BrokenFile || error instanceof StartError) return stale('it cannot be read as JSON');
    throw error;
  }
}

/** What the client itself sends takes more. In tokens. */
const WINDOW_MIN = 10_000;

/** The model that the client asks for, and how long it may grow. */
export interface ExaminedModel {
  readonly model: string | undefined;
  /** Models of tiers, which it asks for besides. */
  readonly more_models: readonly string[];
  readonly context_window: number | undefined;
  readonly diagnoses: readonly Diagnosis[];
}

/** Looks at the model, and at when the client shortens a conversation. */
export function examineModel(desk: Desk, settings: Settings): ExaminedModel {
  const { variable_prefix: prefix, feature_prefix: feature } = desk.names.messages;
  const fixed = settings.variable(`${prefix}_MODEL`);
  const chosen = settings.setting('model');
  const asked = isSet(fixed) ? fixed : isSet(chosen) ? chosen : undefined;
  const tierOf = (tier: string) => {
    const found = settings.variable(`${prefix}_DEFAULT_${tier.toUpperCase()}_MODEL`);
    return isSet(found) ? plainModel(found.value) : undefined;
  };
  const named = asked === undefined ? undefined : plainModel(asked.value);
  const is_tier = TIERS.some((tier) => tier === named);
  const is_word = is_tier || ['default', 'best', 'opusplan'].includes(named ?? '');
  const model = named === undefined || !is_word ? named : is_tier ? tierOf(named) : undefined;
  const window = settings.variable(`${feature}_MAX_CONTEXT_TOKENS`);
  const { context_window, diagnoses } = examineWindow(window);
  const guessed =
    isSet(window) || model === undefined || asked === undefined ? [] : guessedWindow(asked, model, feature);
  return {
    model,
    more_models: [...new Set(TIERS.flatMap((tier) => tierOf(tier) ?? []))].filter((each) => each !== model),
    context_window,
    diagnoses: [
      ...diagnoses,
      ...guessed,
      ...examineCompaction(settings),
      ...(isSet(fixed) && isSet(chosen) && plainModel(fixed.value) !== plainModel(chosen.value)
        ? [overruled(fixed, chosen)]
        : []),
    ],
  };
}

/** Without the mark by which the client is told of a longer window. */
const plainModel = (text: string) => text.trim().replace(/\[1m\]$/i, '');

const WINDOW = { id: 'messages.context_window', title: 'context window' };

function examineWindow(window: Found | undefined): Pick<ExaminedModel, 'context_window' | 'diagnoses'> {
  if (!isSet(window)) return { context_window: undefined, diagnoses: [] };
  const given = window.value.trim();
  const meant = tokensIn(given);
  const failed = (found: string, fixed?: string): Diagnosis => ({
    ...WINDOW,
    verdict: 'failed',
    where: window.where,
    found,
    remedy: howToChange(window, fixed ?? 'the window of the model, in tokens, such as 200000'),
    ...(fixed !== undefined && fixIn(window.source, { values: { env: { [window.name]: fixed } } })),
  });
  if (!/^\d+$/.test(given)) {
    const found = `${shownText(given)} is no whole number of tokens, and the client reads something else from it`;
    return { context_window: meant, diagnoses: [failed(found, meant === undefined ? undefined : String(meant))] };
  }
  const tokens = Number(given);
  if (tokens < WINDOW_MIN)
    return { context_window: tokens, diagnoses: [failed(`${tokens} tokens are less than the client itself sends`)] };
  if (tokens <= LARGEST_WINDOW) return { context_window: tokens, diagnoses: [] };
  const found = `${tokens} tokens are more than any model takes: the client shortens conversations too late, and long sessions fail`;
  return { context_window: tokens, diagnoses: [failed(found)] };
}

/** `200k`, `1m`, `200_000` and `200,000` as people write them. */
function tokensIn(text: string): number | undefined {
  const [, digits, unit = ''] = /^(\d{1,3}(?:[_,. ']?\d{3})*|\d+)\s*([km])?$/i.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const factor = { '': 1, k: 1000, m: 1_000_000 }[unit.toLowerCase()]!;
  const tokens = Number(digits.replace(/\D/g, '')) * factor;
  return tokens >= WINDOW_MIN && tokens <= LARGEST_WINDOW ? tokens : undefined;
}

/** The client knows the windows of its vendor's models, which are called after tiers, and takes a million tokens for all others. */
function guessedWindow(asked: Found, model: string, feature: string): Diagnosis[] {
  if (TIERS.some((tier) => model.toLowerCase().includes(tier))) return [];
  const variable = `${feature}_MAX_CONTEXT_TOKENS`;
  return [
    {
      ...WINDOW,
      verdict: 'warning',
      where: asked.where,
      found: `${variable} is not set: of a model it does not know, such as ${model}, the client guesses the window, and may shorten conversations too late`,
      remedy: `set it; appscli client messages --model ${model} --check asks the gateway for the window and does that`,
    },
  ];
}

/** What keeps the client from shortening conversations at all. */
function examineCompaction(settings: Settings): Diagnosis[] {
  const found = ['DISABLE_AUTO_COMPACT', 'DISABLE_COMPACT'].map((name) => settings.variable(name)).find(isOn);
  if (found === undefined) return [];
  return [
    {
      id: 'messages.compaction',
      title: 'shortening of conversations',
      verdict: 'warning',
      where: found.where,
      found: `${found.name} is set: long sessions end at the limit of the model`,
      remedy: howToChange(found),
    },
  ];
}

function overruled(fixed: Found, chosen: Found): Diagnosis {
  return {
    id: 'messages.model',
    title: 'model',
    verdict: 'warning',
    where: chosen.where,
    found: `it is not used: ${fixed.name} says another model, and wins`,
    remedy: `keep one of the two: ${howToChange(fixed)}, or take model out of ${chosen.source.path}`,
  };
}
