import { failed, skipped, warning } from '../../../base/contract/checks.ts';
import { isTable } from '../../client-files/broken-file.ts';
import { CLIENTS, type ClientKind, type ClientSpec, isRight } from '../../client-files/clients.ts';
import { platformOf } from '../../client-files/key-helper.ts';
import type { ClientDiagnosis, Diagnosis, Workstation } from '../workstation.ts';
import { folderFiles, readBuildCli, readCodingCli, readMessages } from './readers.ts';
import {
  checkFileMode,
  compare,
  fixFor,
  idOf,
  isKeyAnywhere,
  readKeyText,
  readSources,
  readVariableText,
  type Source,
  type Sources,
} from './sources.ts';

const READERS = { messages: readMessages, 'coding-cli': readCodingCli, 'build-cli': readBuildCli } as const;

const WINDOW = 'context_window';

/** Compares the files and variables of a client to what `appscli client` would write. Sends no requests. */
export function diagnoseClient(workstation: Workstation, client: ClientKind): ClientDiagnosis {
  const { title, files, rows: rowsFor } = CLIENTS[client];
  const sources = readSources(workstation, client, client === 'messages' ? folderFiles(workstation) : []);
  const { broken } = sources;
  const reading = READERS[client](workstation, sources);
  const { spec, findings = [], others = [] } = reading;
  const is_there =
    sources.all.length > 1 ||
    broken.length > 0 ||
    (client === 'messages' && spec !== undefined) ||
    workstation.find(files(workstation.names).program) !== undefined;
  const without = (diagnoses: readonly Diagnosis[]) => ({ client, is_there, diagnoses, connection: undefined });
  if (!is_there) return without([]);
  // The Messages client skips a broken file; the others do not start. A broken key file hides no other setting.
  const is_read = spec !== undefined || (findings.length > 0 && client !== 'messages');
  if (broken.length > 0 && !(is_read && (client === 'messages' || sources.is_auth_broken))) return without(broken);
  if (spec === undefined && findings.length === 0 && others.length === 0) {
    const found = 'no gateway configured; the client uses its vendor';
    const none = skipped(found, {
      ...{ id: idOf(client, 'gateway'), title: `gateway of the ${title}` },
      remedy: `appscli client ${client} --base-url https://gateway.example.com sets it up`,
    });
    return without([none]);
  }
  const hides = [...new Set(sources.all.flatMap(({ kind, values }) => (kind === 'shell' ? [] : secretsIn(values))))];
  const holding = sources.all.filter(({ kind, values }) => kind !== 'shell' && secretsIn(values).length > 0);
  const rights = { id: idOf(client, 'rights'), title: `who can read the key of the ${title}` };
  const allRows = (of: ClientSpec) => rowsFor(of, workstation.names, platformOf(workstation.platform));
  const rowsOf = (of: ClientSpec) => allRows(of).filter(({ file }) => file === undefined || !sources.is_auth_broken);
  const rows = spec === undefined ? [] : rowsOf(spec);
  const more = others.flatMap((other) => rowsOf(other).filter(({ path }) => path[0] === 'model'));
  const window = rows.find(({ id }) => id === WINDOW);
  const diagnoses = [
    ...broken,
    ...findings,
    ...compare(workstation, sources, [...rows, ...more], hides),
    ...holding.flatMap((source) => checkSharedSecret(client, source)),
    ...holding.flatMap(({ kind, path }) =>
      ['user', 'local', 'auth'].includes(kind) ? checkFileMode(workstation, path, rights) : [],
    ),
  ];
  const configured = window && Number(sources.find(window.path)?.value);
  // The Messages client knows its vendor's context windows.
  const has_window =
    window !== undefined && (client !== 'messages' || !Number.isNaN(configured) || !isRight(window, undefined, {}));
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
      context_window: Number.isSafeInteger(configured) ? configured : undefined,
      ...(has_window && {
        fixWindow(tokens: number) {
          const wanted = allRows({ ...spec, context_window: tokens });
          const fixes = wanted.filter(({ id }) => id === WINDOW || id === 'compact_limit');
          return { fixes: fixes.flatMap((row) => fixFor(sources, row, hides).fixes ?? []) };
        },
      }),
    },
  };
}

/** CA files of a client: the Messages client reads both variables, the others the second. Project files are untrusted. */
function authoritiesOf(client: ClientKind, sources: Sources): string[] {
  return ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'].slice(client === 'messages' ? 0 : 1).flatMap((name) => {
    const found = sources.find(['env', name]);
    if (found === undefined || ['project', 'local'].includes(found.source.kind)) return [];
    return typeof found.value === 'string' && found.value !== '' ? [found.value] : [];
  });
}

const OF_CREDENTIALS = /(?:_?key|token|secret|password|_headers|authorization)$/i;

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

function checkSharedSecret(client: ClientKind, { kind, path }: Source): Diagnosis[] {
  if (kind !== 'project' && kind !== 'managed') return [];
  const whose =
    kind === 'project' ? 'is usually committed with the project' : 'is readable by every user of this machine';
  return [
    (kind === 'project' ? failed : warning)(
      `this file contains a credential, and ${whose}`,
      `revoke it, remove it, and give each user their own: appscli client ${client} --key-helper`,
      { id: idOf(client, 'secret'), title: 'credential in a shared file', where: path! },
    ),
  ];
}
