import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import { CLIENT_KINDS, CLIENTS, type ClientKind } from '../client-files/clients.ts';
import { callsHelper, isHelperCall, quoteForSh } from '../client-files/key-helper.ts';
import { withTexts } from '../selfcheck/without-secrets.ts';
import { diagnoseClient } from './clients/diagnose-client.ts';
import { checkSignIn, tryHelper } from './clients/sign-in.ts';
import { idOf, isKeyAnywhere } from './clients/sources.ts';
import { diagnoseGateway } from './gateway/diagnose-gateway.ts';
import type { ClientDiagnosis, Connection, Diagnosis, Workstation } from './workstation.ts';

/** What to diagnose on a workstation. */
export interface DiagnosisScope {
  /** The same workstation with each set of names that its clients may use, the default ones first. */
  readonly workstations: readonly [Workstation, ...Workstation[]];
  readonly only?: ClientKind | undefined;
  readonly root_url?: string | undefined;
  /** Send no requests, and run no key helper. */
  readonly is_offline: boolean;
}

/** Diagnoses all clients of a workstation, then their gateways. Yields each diagnosis as soon as it is known, keys masked. */
export async function* diagnoseWorkstation(
  question: DiagnosisScope,
  onStep: (title: string) => void = () => {},
): AsyncGenerator<Diagnosis> {
  for await (const diagnosis of diagnoseAll(question, onStep)) {
    // In a model, an address or a number too.
    yield withTexts(diagnosis, (text) => text.replace(WORD, (word) => (isKeyAnywhere(word) ? '***' : word)));
  }
}

async function* diagnoseAll(question: DiagnosisScope, onStep: (title: string) => void): AsyncGenerator<Diagnosis> {
  const { workstations, only, root_url, is_offline } = question;
  const connections: Connection[] = [];
  let is_any_there = false;
  for (const kind of CLIENT_KINDS) {
    if (only !== undefined && only !== kind) continue;
    const found = workstations.flatMap((workstation) => {
      const diagnosed = diagnoseSafely(workstation, kind);
      return diagnosed.is_there ? [{ workstation, diagnosed }] : [];
    });
    if (found.length > 0) is_any_there = true;
    if (only === kind && found.length === 0) yield notThere(kind, question);
    for (const { workstation, diagnosed } of found) {
      const whole = (diagnosis: Diagnosis) => withCommand(diagnosis, workstation, diagnosed, root_url);
      yield overview(workstation, diagnosed);
      yield* diagnosed.diagnoses.map(whole);
      const { connection } = diagnosed;
      if (connection === undefined) continue;
      if (root_url !== undefined && connection.root_url !== root_url) yield whole(elsewhere(connection, root_url));
      const { helper } = connection;
      if (helper !== undefined) yield* signInOf(workstation, { ...connection, helper });
      if (helper === undefined || is_offline || connection.token !== undefined) {
        connections.push(connection);
        continue;
      }
      onStep(`running the key helper of the ${CLIENTS[kind].title}`);
      const { diagnosis, token } = await tryHelper(workstation, { ...connection, helper });
      yield whole(diagnosis);
      connections.push({ ...connection, token });
    }
  }
  if (!is_any_there && only === undefined) yield nothingThere(question);
  if (root_url !== undefined && connections.every((each) => each.root_url !== root_url)) {
    const { token } = checkSignIn(workstations[0], root_url);
    connections.push({ client: 'messages', root_url, token, model: undefined, context_window: undefined });
  }
  if (is_offline || connections.length === 0) return;
  onStep('querying the gateway');
  try {
    yield* await diagnoseGateway(workstations[0], connections);
  } catch (error) {
    yield broken('gateway', 'gateways of the clients', error);
  }
}

function diagnoseSafely(workstation: Workstation, client: ClientKind): ClientDiagnosis {
  try {
    return diagnoseClient(workstation, client);
  } catch (error) {
    const diagnosis = broken(idOf(client, 'files'), CLIENTS[client].title, error);
    return { client, is_there: true, diagnoses: [diagnosis], connection: undefined };
  }
}

function broken(id: string, title: string, error: unknown): Diagnosis {
  const what = error instanceof Error ? error.name : 'unknown error';
  return warning(
    `check crashed (${what}); result unknown`,
    'please report it, with the version of appscli and of the client',
    { id, title },
  );
}

const programOf = ({ names }: Workstation, client: ClientKind) => CLIENTS[client].files(names).program;

function overview(workstation: Workstation, { client, connection }: ClientDiagnosis): Diagnosis {
  const program = programOf(workstation, client);
  const found_at = workstation.find(program);
  const title = CLIENTS[client].title;
  const goes = connection === undefined ? 'no gateway configured' : `uses ${connection.root_url}`;
  const asks = connection?.model === undefined ? '' : ` with model ${connection.model}`;
  const there = found_at === undefined ? `no ${program} on the PATH` : `program ${found_at}`;
  return ok(`${goes}${asks}; ${there}`, { id: idOf(client), title });
}

function notThere(client: ClientKind, { workstations, root_url }: DiagnosisScope): Diagnosis {
  const programs = [...new Set(workstations.map((workstation) => programOf(workstation, client)))].join(' or ');
  return failed(
    `not found: no files, no variables, and no ${programs} on the PATH`,
    `install it, then: ${setUp(client, workstations, root_url)}`,
    { id: idOf(client), title: CLIENTS[client].title },
  );
}

function nothingThere({ workstations, root_url }: DiagnosisScope): Diagnosis {
  const programs = CLIENT_KINDS.flatMap((kind) => workstations.map((workstation) => programOf(workstation, kind)));
  return skipped(`none configured, and none of ${[...new Set(programs)].join(', ')} is on the PATH`, {
    ...{ id: 'clients', title: 'coding clients' },
    remedy: `set one up, or name yours with --profile: ${setUp('messages', workstations, root_url)}; appscli client --help lists the other clients`,
  });
}

/** The command that sets up a missing client, which most likely uses the shipped names. */
function setUp(
  client: ClientKind,
  workstations: readonly Workstation[],
  root_url = 'https://gateway.example.com',
): string {
  const { profile } = workstations.at(-1)!;
  return withWholeCommand('appscli client', { client, root_url, model: 'MODEL', profile });
}

function elsewhere({ client, root_url: goes_to }: Connection, root_url: string): Diagnosis {
  return warning(`uses ${goes_to} instead of ${root_url}`, `appscli client ${client} --base-url ${root_url}`, {
    id: idOf(client, 'other_gateway'),
    title: `gateway of the ${CLIENTS[client].title}`,
  });
}

function withCommand(
  diagnosis: Diagnosis,
  { profile }: Workstation,
  { client, connection }: ClientDiagnosis,
  meant_url: string | undefined,
): Diagnosis {
  const { remedy } = diagnosis;
  if (remedy === undefined) return diagnosis;
  const { model, is_of_folder = false } = connection ?? {};
  const root_url = is_of_folder ? meant_url : (connection?.root_url ?? meant_url);
  return { ...diagnosis, remedy: withWholeCommand(remedy, { client, root_url, model, profile }) };
}

function signInOf(
  workstation: Workstation,
  { root_url, helper }: Connection & Required<Pick<Connection, 'helper'>>,
): readonly Diagnosis[] {
  const { command } = helper;
  const is_ours = 'line' in command ? callsHelper(command.line, root_url) : isHelperCall(command.args, root_url);
  return is_ours ? checkSignIn(workstation, root_url).diagnoses : [];
}

const WORD = /[A-Za-z0-9_=+-]{12,}/g;

interface CommandFacts {
  readonly client: ClientKind;
  readonly root_url: string | undefined;
  readonly model: string | undefined;
  /** The client's profile file; without it the command writes files that the client does not read. */
  readonly profile: string | undefined;
}

const COMMAND = /appscli client(?: (?:messages|coding-cli|build-cli))?(?=$|[ :;,])/;

const EXAMPLE = /(--base-url) https:\/\/gateway\.example\.com|(--model) MODEL/g;

/** Completes the `appscli client` command in a remedy so that it runs as pasted. Other remedies stay unchanged. */
export function withWholeCommand(remedy: string, { client, root_url, model, profile }: CommandFacts): string {
  const options = {
    '--base-url': root_url,
    '--model': client === 'messages' ? undefined : model,
    '--profile': profile,
  };
  const known = Object.entries(options).flatMap(([option, value]) =>
    value === undefined ? [] : [{ option, value: quoteForSh(value) }],
  );
  // An option in a remedy has a placeholder, or a deliberate value.
  const filled = remedy.replace(EXAMPLE, (whole, base_url, model) => {
    const value = known.find((each) => each.option === (base_url ?? model))?.value;
    return value === undefined ? whole : `${base_url ?? model} ${value}`;
  });
  const missing = known.flatMap(({ option, value }) => (remedy.includes(option) ? [] : [` ${option} ${value}`]));
  return filled.replace(COMMAND, () => `appscli client ${client}${missing.join('')}`);
}
