import type { Scalar } from '../../../client-files/broken-file.ts';
import { printableWord } from '../../../kit/text/printable.ts';
import { closest, listed } from '../../../kit/text/suggest.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { shownText } from '../credential-text.ts';
import { fixToml, valuesAt, whereIs } from '../toml-layers.ts';
import { judgeV1Address } from '../v1-address.ts';
import { type CodingCli, flatSection } from './file.ts';

/** The provider that the client asks, or would if its name were right. */
export interface Provider {
  readonly name: string;
  readonly values: Readonly<Record<string, unknown>>;
  pathOf(key: string): readonly string[];
}

const CHOICE = ['model_provider'];

/** Which provider the client asks, and what is wrong with that. */
export function examineChoice(client: CodingCli): {
  readonly provider: Provider | undefined;
  readonly diagnoses: Diagnosis[];
} {
  const { layers, sections, names } = client;
  const given = layers.values.model_provider;
  const named = { id: 'coding_cli.provider', title: 'provider that is asked', where: whereIs(layers, CHOICE) };
  const chosen = sections.find(([name]) => name === given);
  if (chosen !== undefined) {
    const reserved = names.built_in_providers.includes(chosen[0]) ? [reservedName(client, chosen[0], chosen[1])] : [];
    const ok: Diagnosis = { ...named, verdict: 'ok', found: `it is ${printableWord(chosen[0])}` };
    return { provider: providerOf(chosen), diagnoses: reserved.length > 0 ? reserved : [ok] };
  }
  const is_built_in = typeof given === 'string' && names.built_in_providers.includes(given);
  const own_address = layers.values[names.base_url_key];
  if (own_address !== undefined && (given === undefined || is_built_in)) {
    return { provider: builtIn(client, given), diagnoses: [withoutSection(client)] };
  }
  const of_gateway = sections.filter(([, { base_url }]) => base_url !== undefined);
  const alike =
    typeof given === 'string'
      ? closest(
          given,
          sections.map(([name]) => name),
        )
      : undefined;
  const meant = sections.find(([name]) => name === alike) ?? (of_gateway.length === 1 ? of_gateway[0] : undefined);
  const choices = listed(sections.map(([name]) => printableWord(name)));
  const remedy = `set model_provider, at the top of the file, to the name of a section: ${choices}`;
  if (given === undefined || is_built_in) {
    const found = `${given === undefined ? 'no model_provider is named' : 'model_provider is one the client knows itself'}: it asks its vendor, whatever sections there are`;
    // Whoever is signed in may want just that.
    const is_meant = given === undefined && !isSignedIn(client);
    const fix = is_meant && meant ? fixToml(layers, CHOICE, { set: { model_provider: meant[0] } }) : {};
    const diagnosis: Diagnosis = { ...named, verdict: is_meant ? 'failed' : 'warning', found, remedy, ...fix };
    return { provider: is_meant && meant ? providerOf(meant) : undefined, diagnoses: [diagnosis] };
  }
  const shown = typeof given === 'string' ? shownText(given) : 'no text';
  const found = `model_provider is ${shown}, and there is no such section: the client does not start`;
  const fix = meant ? fixToml(layers, CHOICE, { set: { model_provider: meant[0] } }) : {};
  return { provider: meant && providerOf(meant), diagnoses: [{ ...named, verdict: 'failed', found, remedy, ...fix }] };
}

function providerOf([name, values]: CodingCli['sections'][number]): Provider {
  return { name, values, pathOf: (key) => ['model_providers', name, key] };
}

/** The client's own provider at another address; it takes the key of the file with keys. */
function builtIn({ layers, names }: CodingCli, given: unknown): Provider {
  const values = {
    name: 'built in',
    base_url: layers.values[names.base_url_key],
    wire_api: 'responses',
    [names.auth_flag]: true,
  };
  return { name: String(given ?? ''), values, pathOf: () => [names.base_url_key] };
}

function withoutSection({ layers, names }: CodingCli): Diagnosis {
  return {
    id: 'coding_cli.provider',
    title: 'provider that is asked',
    verdict: 'warning',
    where: whereIs(layers, [names.base_url_key]),
    found: `${names.base_url_key} sends the client's own provider elsewhere: it tries WebSockets there, several times, before it asks in the usual way`,
    remedy:
      'a section of its own in model_providers can say supports_websockets = false; appscli client coding-cli writes one',
  };
}

function isSignedIn({ auth }: CodingCli): boolean {
  return auth?.values.tokens !== undefined && auth.values.tokens !== null;
}

function reservedName(client: CodingCli, name: string, values: Readonly<Record<string, unknown>>): Diagnosis {
  const { layers, sections } = client;
  const path = ['model_providers', name];
  const flat = flatSection(values);
  const is_free = !sections.some(([each]) => each === 'custom') && flat !== undefined;
  const set = { model_provider: 'custom', model_providers: { custom: flat ?? {} } };
  return {
    id: 'coding_cli.provider',
    title: 'provider that is asked',
    verdict: 'failed',
    where: whereIs(layers, path),
    found: `[model_providers.${name}] has the name of a provider that the client knows itself, and it does not start`,
    remedy: 'give the section another name, such as custom, in model_provider as well',
    ...(is_free && fixToml(layers, path, { set, drop: [path] })),
  };
}

/** What is wrong with the section of the provider, but for its key. */
export function examineProvider(client: CodingCli, provider: Provider): Diagnosis[] {
  const { layers, names } = client;
  const { name, wire_api, supports_websockets } = provider.values;
  const title = 'section of the provider';
  const fault = (key: string, told: Pick<Diagnosis, 'verdict' | 'found' | 'remedy'>, value?: Scalar): Diagnosis => ({
    id: `coding_cli.${key === names.auth_flag ? 'auth_flag' : key}`,
    title,
    where: whereIs(layers, provider.pathOf(key)),
    ...told,
    ...(value !== undefined && fixToml(layers, provider.pathOf(key), { set: valuesAt(provider.pathOf(key), value) })),
  });
  const flag = provider.values[names.auth_flag];
  const diagnoses: Diagnosis[] = [];
  if (typeof name !== 'string' || name === '') {
    const found = 'the section has no name, and the client does not start';
    diagnoses.push(fault('name', { verdict: 'failed', found, remedy: 'write name = "custom"' }, 'custom'));
  }
  if (wire_api === undefined) {
    const found = 'wire_api is missing; what the client speaks then depends on its version';
    diagnoses.push(
      fault('wire_api', { verdict: 'warning', found, remedy: 'write wire_api = "responses"' }, 'responses'),
    );
  } else if (wire_api !== 'responses') {
    const found = 'wire_api is not "responses", which is all that the client still speaks: it does not start';
    diagnoses.push(
      fault('wire_api', { verdict: 'failed', found, remedy: 'write wire_api = "responses"' }, 'responses'),
    );
  }
  if (supports_websockets === true) {
    const found =
      'supports_websockets is set: the client tries WebSockets several times before it asks in the usual way';
    diagnoses.push(fault('supports_websockets', { verdict: 'warning', found, remedy: 'set it to false' }, false));
  }
  if (flag !== undefined && typeof flag !== 'boolean') {
    const found = `${names.auth_flag} is neither true nor false, and the client does not start`;
    const value = flag === 'true' ? true : flag === 'false' ? false : undefined;
    diagnoses.push(
      fault(names.auth_flag, { verdict: 'failed', found, remedy: 'write true or false without quotes' }, value),
    );
  }
  return [...examineAddress(client, provider), ...diagnoses];
}

function examineAddress({ layers }: CodingCli, provider: Provider): Diagnosis[] {
  const path = provider.pathOf('base_url');
  const named = { id: 'coding_cli.base_url', title: 'address of the provider', where: whereIs(layers, path) };
  if (provider.values.base_url === undefined) {
    const found =
      'the section has no base_url: requests go to the vendor of the client, with the key that is meant for the gateway';
    return [
      { ...named, verdict: 'failed', found, remedy: 'write base_url = "https://gateway.example.com/v1" into it' },
    ];
  }
  const { better, root_url: _, ...outcome } = judgeV1Address(provider.values.base_url);
  return [
    { ...named, ...outcome, ...(better !== undefined && fixToml(layers, path, { set: valuesAt(path, better) })) },
  ];
}
