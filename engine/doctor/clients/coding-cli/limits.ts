import { dirname, isAbsolute, join } from 'node:path';
import { isTable } from '../../../client-files/broken-file.ts';
import { parseObject } from '../../../client-files/json-text.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { readClientFile } from '../client-file.ts';
import { COMPACT_AT, judgeWindow, LARGEST_WINDOW, USUAL_WINDOW } from '../context-window.ts';
import { fixToml, valuesAt, whereIs } from '../toml-layers.ts';
import type { CodingCli } from './file.ts';

const WINDOW = 'model_context_window';
const LIMIT = 'model_auto_compact_token_limit';

/** When the client shortens a conversation: the context window it believes in, and what it is told of it. */
export function examineLimits(client: CodingCli): Diagnosis[] {
  const { layers } = client;
  const { [WINDOW]: given, [LIMIT]: limit } = layers.values;
  const window_wrong = judgeWindow(given, WINDOW, usualWindow(limit));
  const window = window_wrong?.better ?? (given as number);
  const limit_wrong = judgeLimit(limit, window);
  const told = (key: string) => ({ title: 'when conversations are shortened', where: whereIs(layers, [key]) });
  const late = 'long conversations fail at the limit of the model';
  const diagnoses: Diagnosis[] = [];
  if (window_wrong !== undefined) {
    const remedy = `set ${WINDOW} = ${window_wrong.better}, or what the model takes`;
    const fix = fixToml(layers, [WINDOW], { set: valuesAt([WINDOW], window_wrong.better) });
    diagnoses.push({
      id: 'coding_cli.context_window',
      ...told(WINDOW),
      verdict: 'failed',
      found: `${window_wrong.found}: ${late}`,
      remedy,
      ...fix,
    });
  }
  if (limit_wrong !== undefined) {
    const { better, verdict, found } = limit_wrong;
    const remedy = `set ${LIMIT} = ${better}, which is 95 % of the window`;
    const fix = fixToml(layers, [LIMIT], { set: valuesAt([LIMIT], better) });
    diagnoses.push({ id: 'coding_cli.compact_limit', ...told(LIMIT), verdict, found, remedy, ...fix });
  }
  if (diagnoses.length > 0) return diagnoses;
  return [
    { id: 'coding_cli.context_window', ...told(WINDOW), verdict: 'ok', found: `at ${limit} of ${window} tokens` },
  ];
}

/** Tells the client another window, and when to shorten a conversation by it. */
export function fixWindow(layers: CodingCli['layers'], tokens: number): Pick<Diagnosis, 'fixes'> {
  return fixToml(layers, [WINDOW], { set: { [WINDOW]: tokens, [LIMIT]: Math.floor(tokens * COMPACT_AT) } });
}

/** A window for which a limit is right: somebody who wrote one knew the model. */
function usualWindow(limit: unknown): number {
  const is_limit = typeof limit === 'number' && Number.isSafeInteger(limit) && limit > 0;
  const window = is_limit ? Math.round(limit / COMPACT_AT) : USUAL_WINDOW;
  return window > LARGEST_WINDOW ? USUAL_WINDOW : window;
}

function judgeLimit(
  limit: unknown,
  window: number,
): { readonly verdict: 'failed' | 'warning'; readonly found: string; readonly better: number } | undefined {
  const better = Math.floor(window * COMPACT_AT);
  const wrong = judgeWindow(limit, LIMIT, better);
  if (wrong !== undefined) {
    const is_late = wrong.better > better;
    return {
      verdict: 'failed',
      found: `${wrong.found}: conversations may not be shortened in time`,
      better: is_late ? better : wrong.better,
    };
  }
  if ((limit as number) >= window) {
    return {
      verdict: 'failed',
      found: `${LIMIT} is not below the window of ${window}: conversations are not shortened in time`,
      better,
    };
  }
  if ((limit as number) <= better) return undefined;
  return {
    verdict: 'warning',
    found: `${LIMIT} is more than 95 % of the window of ${window}, which leaves little room for an answer`,
    better,
  };
}

/** What a local catalogue of models says, which the client believes instead of its own. */
export function examineCatalogue(client: CodingCli): Diagnosis[] {
  const { desk, layers } = client;
  const key = 'model_catalog_json';
  const given = layers.values[key];
  if (given === undefined) return [];
  const named = { id: 'coding_cli.catalogue', title: 'local catalogue of models', where: whereIs(layers, [key]) };
  const remedy = `take ${key} away: the window and the limit at the top of the file say all that is needed`;
  const fix = fixToml(layers, [key], { drop: [[key]] });
  const path = String(given);
  const absolute = isAbsolute(path) ? path : join(dirname(layers.user_path), path);
  const file = readClientFile(desk, absolute, { ...named, parse: parseObject });
  if (file === undefined) {
    return [
      {
        ...named,
        verdict: 'failed',
        found: `${key} names a file that is not there, and the client does not start`,
        remedy,
        ...fix,
      },
    ];
  }
  if ('broken' in file) {
    // What is too large for us may be fine for the client.
    return [
      { ...named, verdict: 'warning', found: `what ${key} names cannot be read here: ${file.broken.found}`, remedy },
    ];
  }
  const models = (Array.isArray(file.values.models) ? file.values.models : []).filter(isTable);
  if (models.length === 0) {
    return [
      {
        ...named,
        verdict: 'failed',
        found: `${key} names a catalogue without models, and the client does not start`,
        remedy,
        ...fix,
      },
    ];
  }
  const model = models.find(({ slug }) => slug === layers.values.model);
  const windows = [model?.context_window, model?.max_context_window].filter((each) => typeof each === 'number');
  const largest = Math.max(0, ...windows);
  if (largest > LARGEST_WINDOW) {
    const found = `the catalogue gives the model a window of ${largest} tokens, more than any model takes: conversations are not shortened in time`;
    return [{ ...named, verdict: 'failed', found, remedy, ...fix }];
  }
  const says =
    model === undefined
      ? 'does not have the model that is used'
      : 'says what the model can do, in place of the gateway';
  return [{ ...named, verdict: 'warning', found: `a catalogue of models is on this machine, and it ${says}`, remedy }];
}
