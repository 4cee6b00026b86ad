import { BUILD_CLI_ROLES } from '../../../client-files/build-cli.ts';
import type { CheckOutcome } from '../../../contract/checks.ts';
import { printableLine, printableWord } from '../../../kit/text/printable.ts';
import { closest, listed } from '../../../kit/text/suggest.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { shownText } from '../credential-text.ts';
import { fixToml, valueAt, whereIs } from '../toml-layers.ts';
import type { BuildCli, Entry } from './file.ts';

const DEFAULT = ['models', 'default'];

interface Judged extends CheckOutcome {
  /** The entry that is used, or that must have been meant. */
  readonly entry?: Entry | undefined;
}

/** The entry that the client uses, or would if its default were right; and what is wrong with that. */
export function examineDefault(client: BuildCli): { readonly entry: Entry | undefined; readonly diagnosis: Diagnosis } {
  const { desk, names, layers, entries } = client;
  const by_variable = desk.env[names.model_variable] ?? '';
  const is_variable = by_variable !== '';
  const { entry, ...outcome } = judge(client, is_variable ? by_variable : valueAt(layers.values, DEFAULT));
  const diagnosis: Diagnosis = {
    id: 'build_cli.default_model',
    title: 'model that is used where none is asked for',
    where: is_variable ? names.model_variable : whereIs(layers, DEFAULT),
    ...outcome,
  };
  if (outcome.verdict === 'ok') return { entry, diagnosis };
  const aliases = entries.length === 0 ? 'there is none yet' : listed(entries.map(({ alias }) => printableWord(alias)));
  const remedy = is_variable
    ? `unset ${names.model_variable}, or give it the alias of an entry: ${aliases}`
    : `set default in [models] to the alias of an entry: ${aliases}`;
  const fix =
    entry === undefined || is_variable ? {} : fixToml(layers, DEFAULT, { set: { models: { default: entry.alias } } });
  return { entry, diagnosis: { ...diagnosis, remedy, ...fix } };
}

function judge(client: BuildCli, value: unknown): Judged {
  const { entries, has_session, has_list } = client;
  // With one entry, and no other way to a model, nothing else can be meant.
  const only = entries.length === 1 && !has_session && !has_list ? entries[0] : undefined;
  if (value !== undefined && typeof value !== 'string') {
    return { verdict: 'failed', found: 'default in [models] is no text, and the client does not start', entry: only };
  }
  if (value === undefined || value === '') {
    if (has_list) return { verdict: 'ok', found: 'none is named; the client takes one of the list it gets' };
    const found = 'no default is named: the client asks its vendor for a model, and wants a sign-in in a browser';
    return { verdict: 'failed', found, entry: only };
  }
  const named = entries.find(({ alias }) => alias === value);
  if (named !== undefined) return { verdict: 'ok', found: `it is ${printableWord(value)}`, entry: named };
  const shown = shownText(value);
  const of_model = entries.filter(({ values }) => values.model === value);
  if (of_model.length > 0) {
    const found = `the default is ${shown}, the id of a model and not the alias of an entry; not every version of the client finds an entry by it, and then it wants a sign-in in a browser`;
    return { verdict: 'warning', found, entry: of_model.length === 1 ? of_model[0] : undefined };
  }
  if (has_list) return { verdict: 'ok', found: `it is ${shown}, no entry; whether the list has it is not known here` };
  const alike = closest(
    value,
    entries.map(({ alias }) => alias),
  );
  const entry = entries.find(({ alias }) => alias === alike) ?? only;
  if (has_session && alike === undefined) {
    return {
      verdict: 'warning',
      found: `the default is ${shown}, which is no entry: the client asks its vendor, with the sign-in it has there`,
    };
  }
  const found = `the default is ${shown}, and there is no such entry: the client asks its vendor for it, and wants a sign-in in a browser`;
  return { verdict: 'failed', found, entry };
}

/** What the client has a model do besides: where no model is named for it, it asks for one of its vendor. */
export function examineRoles(client: BuildCli, entry: Entry): Diagnosis[] {
  const { layers, entries, has_session } = client;
  const named = { id: 'build_cli.side_models', title: 'models for titles, summaries and pictures' };
  const wrong = BUILD_CLI_ROLES.filter((role) => {
    const value = valueAt(layers.values, ['models', role]);
    return role !== 'default' && !entries.some(({ alias, values }) => alias === value || values.model === value);
  });
  if (wrong.length === 0) return [{ ...named, verdict: 'ok', found: 'all of them are entries' }];
  const path = ['models', wrong[0]!];
  const told = wrong.join(' and ');
  const found = has_session
    ? `${told} of [models] names no entry: with the sign-in to its vendor the client sends texts there, past the gateway`
    : `${told} of [models] names no entry: the client asks the gateway for a model of its vendor, which it need not have`;
  const set = { models: Object.fromEntries(wrong.map((role) => [role, entry.alias])) };
  return [
    {
      ...named,
      verdict: 'warning',
      where: whereIs(layers, path),
      found,
      remedy: `set ${told} in [models] to "${printableLine(entry.alias)}"`,
      ...fixToml(layers, path, { set }),
    },
  ];
}
