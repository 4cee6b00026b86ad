import { failed, skipped, warning } from '../../../base/contract/checks.ts';
import { isTable } from '../../client-files/broken-file.ts';
import { CLIENTS, type ClientKind, type ClientSpec, isRight } from '../../client-files/clients.ts';
import { platformOf } from '../../client-files/key-helper.ts';
import type { Desk, Diagnosis, Examination } from '../desk.ts';
import { readBuildCli } from './build-cli.ts';
import { readCodingCli } from './coding-cli.ts';
import { isKeyAnywhere, readKeyText, readVariableText } from './credential-text.ts';
import { folderFiles, readMessages } from './messages.ts';
import { compare, examineRights, fixFor, idOf, readSources, type Source, type Sources } from './sources.ts';

const READERS = { messages: readMessages, 'coding-cli': readCodingCli, 'build-cli': readBuildCli } as const;

/** The row of each client that tells it how large the window of its model is. */
const WINDOW = 'context_window';

/** What is wrong with the files and variables of a client: how they differ from what `appscli client` would write. Asks nobody. */
export function examineClient(desk: Desk, client: ClientKind): Examination {
  const { title, files, rows: rowsFor } = CLIENTS[client];
  const sources = readSources(desk, client, client === 'messages' ? folderFiles(desk) : []);
  const { broken } = sources;
  const reading = READERS[client](desk, sources);
  const { spec, findings = [], others = [] } = reading;
  const is_there =
    sources.all.length > 1 ||
    broken.length > 0 ||
    (client === 'messages' && spec !== undefined) ||
    desk.find(files(desk.names).program) !== undefined;
  if (!is_there) return { client, is_there, diagnoses: [], connection: undefined };
  // The Messages client passes a broken file over, the others do not start; a file with nothing but the key hides no other.
  const is_read = spec !== undefined || (findings.length > 0 && client !== 'messages');
  if (broken.length > 0 && !(is_read && (client === 'messages' || sources.is_auth_broken)))
    return { client, is_there, diagnoses: broken, connection: undefined };
  if (spec === undefined && findings.length === 0 && others.length === 0) {
    const found = 'no gateway is named where appscli client names it; without one the client asks its vendor';
    const none = skipped(found, {
      ...{ id: idOf(client, 'gateway'), title: `gateway of the ${title}` },
      remedy: `appscli client ${client} --base-url https://gateway.example.com sets it up`,
    });
    return { client, is_there, diagnoses: [none], connection: undefined };
  }
  const hides = [...new Set(sources.all.flatMap(({ kind, values }) => (kind === 'shell' ? [] : secretsIn(values))))];
  const holding = sources.all.filter(({ kind, values }) => kind !== 'shell' && secretsIn(values).length > 0);
  const rights = { id: idOf(client, 'rights'), title: `who can read the key of the ${title}` };
  const rowsOf = (of: ClientSpec) =>
    rowsFor(of, desk.names, platformOf(desk.platform)).filter(
      ({ file }) => file === undefined || !sources.is_auth_broken,
    );
  const rows = spec === undefined ? [] : rowsOf(spec);
  const more = others.flatMap((other) => rowsOf(other).filter(({ path }) => path[0] === 'model'));
  const window = rows.find(({ id }) => id === WINDOW);
  const diagnoses = [
    ...broken,
    ...findings,
    ...compare(desk, sources, [...rows, ...more], hides),
    ...holding.flatMap((source) => examineSecret(client, source)),
    ...holding.flatMap(({ kind, path }) =>
      ['user', 'local', 'auth'].includes(kind) ? examineRights(desk, path, rights) : [],
    ),
  ];
  const told = window && Number(sources.find(window.path)?.value);
  // The Messages client knows the windows of its vendor's models.
  const has_window =
    window !== undefined && (client !== 'messages' || !Number.isNaN(told) || !isRight(window, undefined, {}));
  const { token, helper, more_models, is_of_folder } = reading;
  return {
    client,
    is_there,
    diagnoses,
    connection: spec && {
      client,
      root_url: spec.root_url,
      ...(is_of_folder && { is_of_folder }),
      token,
      authorities: authoritiesOf(client, sources),
      ...(helper && { helper }),
      model: spec.model,
      ...(more_models && { more_models }),
      context_window: Number.isSafeInteger(told) ? told : undefined,
      ...(has_window && {
        fixWindow: (tokens: number) => {
          const told_so = rowsFor({ ...spec, context_window: tokens }, desk.names, platformOf(desk.platform));
          const fixes = told_so.filter(({ id }) => id === WINDOW || id === 'compact_limit');
          return { fixes: fixes.flatMap((row) => fixFor(sources, row, hides).fixes ?? []) };
        },
      }),
    },
  };
}

/** Where clients are told of authorities: the Messages client in both, the others in the second. A file of the folder may come from anybody. */
function authoritiesOf(client: ClientKind, sources: Sources): string[] {
  return ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'].slice(client === 'messages' ? 0 : 1).flatMap((name) => {
    const found = sources.find(['env', name]);
    if (found === undefined || ['project', 'local'].includes(found.source.kind)) return [];
    return typeof found.value === 'string' && found.value !== '' ? [found.value] : [];
  });
}

const OF_CREDENTIALS = /(?:_?key|token|secret|password|_headers|authorization)$/i;

/** Texts of a file that are credentials, by the key they stand at or because they can be nothing else. */
function secretsIn(value: unknown, key = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => secretsIn(each, key));
  if (isTable(value)) return Object.entries(value).flatMap(([name, inner]) => secretsIn(inner, name));
  if (typeof value !== 'string' || value.trim() === '') return [];
  const is_secret =
    key === 'env_key'
      ? readVariableText(value, {}).kind === 'key'
      : OF_CREDENTIALS.test(key) && ['key', 'padded'].includes(readKeyText(value).kind);
  return is_secret || isKeyAnywhere(value) ? [value, value.trim().replace(/^bearer\s+/i, '')] : [];
}

/** Credentials in files that others read. */
function examineSecret(client: ClientKind, { kind, path }: Source): Diagnosis[] {
  if (kind !== 'project' && kind !== 'managed') return [];
  const whose =
    kind === 'project'
      ? 'is made to be committed with the project, for everybody to read'
      : 'can be read by everybody who works at this machine';
  return [
    (kind === 'project' ? failed : warning)(
      `this file holds a credential, and ${whose}`,
      `revoke it, take it out, and give each person one: appscli client ${client} --key-helper`,
      { id: idOf(client, 'secret'), title: 'credential in a shared file', where: path! },
    ),
  ];
}
