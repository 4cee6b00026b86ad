import { printableLine } from '../../../kit/text/printable.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { judgeWindow, USUAL_WINDOW } from '../context-window.ts';
import { fixToml, valuesAt, whereIs } from '../toml-layers.ts';
import { judgeV1Address } from '../v1-address.ts';
import type { BuildCli, Entry } from './file.ts';

const BACKENDS = ['chat_completions', 'responses', 'messages'];

/** What is wrong with an entry, but for its key; less weighs that of one that is not the default. */
export function examineEntry(client: BuildCli, entry: Entry, is_default: boolean): Diagnosis[] {
  return [
    ...examineAddress(client, entry, is_default),
    ...examineWindow(client, entry, is_default),
    ...examineBackend(client, entry),
    ...examineCompaction(client, entry),
  ];
}

function examineAddress({ layers, has_list }: BuildCli, entry: Entry, is_default: boolean): Diagnosis[] {
  const path = entry.pathOf('base_url');
  const named = { id: 'build_cli.base_url', title: `address of ${nameOf(entry)}`, where: whereIs(layers, path) };
  if (entry.values.base_url === undefined) {
    if (!is_default || has_list) return [];
    const found = 'the entry has no base_url: requests go to the vendor of the client, with the key of the entry';
    return [
      {
        ...named,
        verdict: 'warning',
        found,
        remedy: 'give it base_url = "https://gateway.example.com/v1" where it is meant for a gateway',
      },
    ];
  }
  const { better, root_url: _, ...outcome } = judgeV1Address(entry.values.base_url);
  if (outcome.verdict === 'ok' && !is_default) return [];
  return [
    { ...named, ...outcome, ...(better !== undefined && fixToml(layers, path, { set: valuesAt(path, better) })) },
  ];
}

function examineWindow({ layers, entries }: BuildCli, entry: Entry, is_default: boolean): Diagnosis[] {
  // Without an address of its own the entry is a model that the client knows.
  if (entry.values.base_url === undefined) return [];
  const path = ['model', entry.alias, 'context_window'];
  const alike = entries.find(
    ({ values }) => values.model === entry.values.model && judgeWindow(values.context_window, '', 0) === undefined,
  );
  const usual = (alike?.values.context_window as number | undefined) ?? USUAL_WINDOW;
  const judged = judgeWindow(entry.values.context_window, 'context_window', usual);
  const named = {
    id: 'build_cli.context_window',
    title: `context window of ${nameOf(entry)}`,
    where: whereIs(layers, path),
  };
  if (judged === undefined) {
    if (!is_default) return [];
    return [{ ...named, verdict: 'ok', found: `the client goes by ${entry.values.context_window} tokens` }];
  }
  const takes =
    typeof entry.values.context_window === 'number'
      ? ''
      : '; the client goes by 200000 tokens, whatever the model takes';
  return [
    {
      ...named,
      verdict: is_default ? 'failed' : 'warning',
      found: `${judged.found}${takes}`,
      remedy: `set context_window = ${judged.better}, or what the model takes, and start a new session`,
      ...fixToml(layers, path, { set: valuesAt(path, judged.better) }),
    },
  ];
}

function examineBackend({ layers }: BuildCli, entry: Entry): Diagnosis[] {
  const { api_backend } = entry.values;
  if (api_backend === undefined || BACKENDS.includes(String(api_backend))) return [];
  const path = entry.pathOf('api_backend');
  return [
    {
      id: 'build_cli.api_backend',
      title: `protocol of ${nameOf(entry)}`,
      verdict: 'warning',
      where: whereIs(layers, path),
      found: 'api_backend is none that the client knows, and it speaks chat completions',
      remedy: `write one of ${BACKENDS.join(', ')}, or leave it away`,
      ...fixToml(layers, path, { drop: [path] }),
    },
  ];
}

/** The client shortens a conversation at 85 % of the window, unless it is told otherwise. */
function examineCompaction({ layers }: BuildCli, entry: Entry): Diagnosis[] {
  const { auto_compact_threshold_percent: percent } = entry.values;
  if (typeof percent !== 'number' || percent <= 95) return [];
  const path = ['model', entry.alias, 'auto_compact_threshold_percent'];
  return [
    {
      id: 'build_cli.compaction',
      title: `when conversations with ${nameOf(entry)} are shortened`,
      verdict: 'warning',
      where: whereIs(layers, path),
      found: `they are shortened at ${percent} % of the context window, which leaves no room for an answer`,
      remedy: 'leave auto_compact_threshold_percent away, or set it to 85',
      ...fixToml(layers, path, { drop: [path] }),
    },
  ];
}

/** An entry, as messages call it. */
export function nameOf({ alias }: Entry): string {
  return `[model.${printableLine(alias)}]`;
}
