import type { ClientKind, Desk } from '../desk.ts';
import type { Connection, Diagnosis, Examination } from '../diagnosis.ts';
import { examineRights } from './client-file.ts';
import { examineAddress } from './messages/address.ts';
import { examineCredential, examineSignInSettings, isOfFolder } from './messages/credential.ts';
import { examineCaching, examineDiscovery, examineModel } from './messages/features.ts';
import { networkVariables } from './messages/network-variables.ts';
import { credentialsIn, isSet, readSettings, type Settings } from './messages/settings.ts';
import { examineProviders, examineSecrets, examineVariables, isToldByShell } from './messages/variables.ts';

const CLIENT: ClientKind = 'messages';

/** What is wrong with the files and variables of the Messages client. Asks nobody. */
export function examineMessages(desk: Desk): Examination {
  const { settings, diagnoses: broken } = readSettings(desk);
  const { variable_prefix: prefix, program } = desk.names.messages;
  const has_file = settings.sources.length > 1 || broken.length > 0;
  const is_there = has_file || isToldByShell(desk) || desk.find(program) !== undefined;
  if (!is_there) return { client: CLIENT, is_there, diagnoses: [], connection: undefined };

  const address = examineAddress(settings, `${prefix}_BASE_URL`);
  const token = settings.variable(`${prefix}_AUTH_TOKEN`);
  const sign_in = examineSignInSettings(settings, { address: address.found, token });
  const is_told_to = sign_in.root_url !== undefined;
  const credential = examineCredential(desk, settings, {
    root_url: address.root_url,
    address: address.found,
    signs_in: is_told_to,
  });
  const signs_in = is_told_to && !isSet(address.found) && !credential.is_set;
  const root_url = signs_in ? sign_in.root_url : address.root_url;
  const model = examineModel(desk, settings);
  const goes_anywhere = isSet(address.found) || sign_in.root_url !== undefined;
  const connection: Connection | undefined =
    root_url === undefined
      ? undefined
      : {
          client: CLIENT,
          root_url,
          ...(address.found !== undefined && isOfFolder(address.found) && { is_of_folder: true }),
          token: credential.token,
          model: model.model,
          more_models: model.more_models,
          context_window: model.context_window,
          network_variables: networkVariables(settings),
          ...(credential.helper !== undefined && !signs_in && { helper: credential.helper }),
        };
  const diagnoses = [
    ...broken,
    ...address.diagnoses,
    ...sign_in.diagnoses,
    // A file that counts for nothing may be where all of it is.
    ...(broken.length > 0 || address.diagnoses.length > 0 ? [] : lost(desk, { goes_anywhere, token })),
    ...credential.diagnoses.filter(({ id }) => id !== 'messages.key' || broken.length === 0 || credential.is_set),
    ...examineProviders(desk, settings, address.found),
    ...examineVariables(desk, settings),
    ...(goes_anywhere ? [...model.diagnoses, ...examineCaching(settings)] : []),
    ...examineDiscovery(desk, settings, address.found),
    ...examineSecrets(settings),
    ...rights(desk, settings),
  ];
  return { client: CLIENT, is_there, diagnoses, connection };
}

/** No address of a gateway at all. */
function lost(
  desk: Desk,
  { goes_anywhere, token }: { readonly goes_anywhere: boolean; readonly token: ReturnType<Settings['variable']> },
): Diagnosis[] {
  if (goes_anywhere) return [];
  const named = { id: 'messages.address', title: 'address of the gateway' };
  const variable = `${desk.names.messages.variable_prefix}_BASE_URL`;
  const remedy = 'appscli client messages --base-url https://gateway.example.com';
  if (!isSet(token)) {
    const found = `${variable} is set nowhere: the client is not set up for a gateway`;
    return [{ ...named, verdict: 'skipped', found, remedy }];
  }
  const found = `${variable} is set nowhere, so the client sends the token to its vendor`;
  return [{ ...named, verdict: 'failed', where: token.where, found, remedy }];
}

/** Files of a person that hold a credential and are open to others. */
function rights(desk: Desk, settings: Settings): Diagnosis[] {
  return settings.sources.flatMap((source) =>
    source.path === undefined || !['user', 'local'].includes(source.kind) || credentialsIn(source).length === 0
      ? []
      : examineRights(desk, source.path, { id: 'messages.rights', title: 'rights of the settings' }),
  );
}
