import { callsHelper, isHelperCall } from '../client-files/key-helper.ts';
import { StartError } from '../contract/start-error.ts';
import { examineBuildCli } from './clients/build-cli.ts';
import { examineCodingCli } from './clients/coding-cli.ts';
import { isKeyAnywhere } from './clients/credential-text.ts';
import { tryHelper } from './clients/key-helper.ts';
import { examineMessages } from './clients/messages.ts';
import { examineSignIn } from './clients/sign-in.ts';
import { CLIENT_TITLES, type ClientKind, type Desk } from './desk.ts';
import type { Connection, Diagnosis, Examination } from './diagnosis.ts';
import { examineGateway } from './gateway/examine-gateway.ts';
import { withWholeCommand } from './whole-command.ts';

const EXAMINATIONS: readonly (readonly [ClientKind, (desk: Desk) => Examination])[] = [
  ['messages', examineMessages],
  ['coding-cli', examineCodingCli],
  ['build-cli', examineBuildCli],
];

/** What to look at on a desk. */
export interface DeskQuestion {
  /** The same desk with each set of names that its clients may use, neutral ones first. */
  readonly desks: readonly [Desk, ...Desk[]];
  /** Only this kind of client. */
  readonly only?: ClientKind | undefined;
  /** The gateway that clients are meant to use, without `/v1`. */
  readonly root_url?: string | undefined;
  /** Ask no gateway, and run no key helper. */
  readonly is_offline: boolean;
}

/** What people may be told while they wait. */
export type OnStep = (title: string) => void;

/** Looks at all clients of a desk, then at their gateways; each diagnosis comes as soon as it is known, and shows no key. */
export async function* examineDesk(question: DeskQuestion, onStep: OnStep = () => {}): AsyncGenerator<Diagnosis> {
  for await (const diagnosis of examineAll(question, onStep)) yield withoutKeys(diagnosis);
}

async function* examineAll(question: DeskQuestion, onStep: OnStep): AsyncGenerator<Diagnosis> {
  const { desks, only, root_url, is_offline } = question;
  const connections: Connection[] = [];
  let is_any_there = false;
  for (const [kind, examine] of EXAMINATIONS) {
    if (only !== undefined && only !== kind) continue;
    const found = desks.flatMap((desk) => {
      const examination = examined(desk, kind, examine);
      return examination.is_there ? [{ desk, examination }] : [];
    });
    if (found.length > 0) is_any_there = true;
    if (only === kind && found.length === 0) yield notThere(kind, question);
    for (const { desk, examination } of found) {
      const whole = (diagnosis: Diagnosis) => withCommand(diagnosis, desk, examination, root_url);
      yield overview(desk, examination);
      yield* examination.diagnoses.map(whole);
      yield* misnamed(question, desk, { examination, found: found.map((each) => each.examination) });
      const { connection } = examination;
      if (connection === undefined) continue;
      if (root_url !== undefined && connection.root_url !== root_url) yield whole(elsewhere(connection, root_url));
      const { helper } = connection;
      if (helper !== undefined) yield* signInOf(desk, { ...connection, helper });
      if (helper === undefined || is_offline || connection.token !== undefined) {
        connections.push(connection);
        continue;
      }
      onStep(`running the key helper of the ${CLIENT_TITLES[kind]}`);
      const { diagnosis, token } = await tryHelper(desk, { ...connection, helper });
      yield whole(diagnosis);
      connections.push({ ...connection, token });
    }
  }
  if (!is_any_there && only === undefined) yield nothingThere(question);
  if (root_url !== undefined && connections.every((each) => each.root_url !== root_url))
    connections.push(ofSignIn(desks[0], root_url));
  if (is_offline || connections.length === 0) return;
  onStep('asking the gateway');
  try {
    yield* await examineGateway(desks[0], connections);
  } catch (error) {
    yield broken('gateway', 'gateways of the clients', error);
  }
}

/** What is wrong with the files and variables of clients, asking nobody and running nothing. */
export function examineFiles({ desks, only }: Pick<DeskQuestion, 'desks' | 'only'>): Diagnosis[] {
  return EXAMINATIONS.filter(([kind]) => only === undefined || only === kind).flatMap(([kind, examine]) =>
    desks.flatMap((desk) => examined(desk, kind, examine).diagnoses.map(withoutKeys)),
  );
}

function examined(desk: Desk, client: ClientKind, examine: (desk: Desk) => Examination): Examination {
  try {
    return examine(desk);
  } catch (error) {
    const id = `${idOf(client)}.files`;
    const diagnosis = error instanceof StartError ? unreadable(id, error) : broken(id, CLIENT_TITLES[client], error);
    return { client, is_there: true, diagnoses: [diagnosis], connection: undefined };
  }
}

function unreadable(id: string, { message }: StartError): Diagnosis {
  const remedy = 'put that right: the client cannot read it either';
  return { id, title: 'files', verdict: 'failed', found: message, remedy };
}

/** A look that broke says nothing about what it looked at, and keeps no other from being made. */
function broken(id: string, title: string, error: unknown): Diagnosis {
  const what = error instanceof Error ? error.name : 'unknown error';
  return {
    id,
    title,
    verdict: 'warning',
    found: `this look broke (${what}), which says nothing about what was looked at`,
    remedy: 'please report it, with the version of appscli and of the client',
  };
}

const idOf = (client: ClientKind) => client.replaceAll('-', '_');

function namesOf(desk: Desk, client: ClientKind) {
  return { messages: desk.names.messages, 'coding-cli': desk.names.coding_cli, 'build-cli': desk.names.build_cli }[
    client
  ];
}

/** A client that is told everything by names that are not its own. */
function misnamed(
  { desks: [neutral, ...others] }: DeskQuestion,
  desk: Desk,
  {
    examination: { client, connection },
    found,
  }: { readonly examination: Examination; readonly found: readonly Examination[] },
): Diagnosis[] {
  const other = others.find((each) => each.find(namesOf(each, client).program) !== undefined);
  const is_set_up = found.some((each) => each.connection !== undefined && each.connection !== connection);
  if (desk !== neutral || connection === undefined) return [];
  if (other === undefined || is_set_up || neutral.find(namesOf(neutral, client).program) !== undefined) return [];
  const { program } = namesOf(other, client);
  return [
    {
      id: `${idOf(client)}.names`,
      title: `names of the ${CLIENT_TITLES[client]}`,
      verdict: 'warning',
      found: `files and variables have neutral names, which ${program} does not read`,
      remedy: withWholeCommand('appscli client', { ...connection, profile: other.profile }),
    },
  ];
}

/** What a client is told, in a line. */
function overview(desk: Desk, { client, connection }: Examination): Diagnosis {
  const { program } = namesOf(desk, client);
  const found_at = desk.find(program);
  const title = CLIENT_TITLES[client];
  const goes = connection === undefined ? 'it is told of no gateway' : `it goes to ${connection.root_url}`;
  const asks = connection?.model === undefined ? '' : ` and asks for ${connection.model}`;
  const there = found_at === undefined ? `there is no ${program} on the PATH` : `its program is ${found_at}`;
  return { id: idOf(client), title, verdict: 'ok', found: `${goes}${asks}; ${there}` };
}

function notThere(client: ClientKind, { desks, root_url }: DeskQuestion): Diagnosis {
  const programs = [...new Set(desks.map((desk) => namesOf(desk, client).program))].join(' or ');
  return {
    id: idOf(client),
    title: CLIENT_TITLES[client],
    verdict: 'failed',
    found: `it is not here: no file of it, no variable, and no ${programs} on the PATH`,
    remedy: `install it, then: ${setUp(client, desks, root_url)}`,
  };
}

function nothingThere({ desks, root_url }: DeskQuestion): Diagnosis {
  const programs = EXAMINATIONS.flatMap(([kind]) => desks.map((desk) => namesOf(desk, kind).program));
  return {
    id: 'clients',
    title: 'coding clients',
    verdict: 'skipped',
    found: `none is set up here, and none of ${[...new Set(programs)].join(', ')} is on the PATH`,
    remedy: `set one up, or tell what yours are called with --profile: ${setUp('messages', desks, root_url)}; appscli client --help names the other clients`,
  };
}

/** The command for a client that is not there yet: it will most likely have the names that ship with the program. */
function setUp(client: ClientKind, desks: readonly Desk[], root_url = 'https://gateway.example.com'): string {
  const { profile } = desks.at(-1)!;
  return withWholeCommand('appscli client', { client, root_url, model: 'MODEL', profile });
}

function elsewhere({ client, root_url: goes_to }: Connection, root_url: string): Diagnosis {
  return {
    id: `${idOf(client)}.other_gateway`,
    title: `gateway of the ${CLIENT_TITLES[client]}`,
    verdict: 'warning',
    found: `it goes to ${goes_to} and not to ${root_url}`,
    remedy: `appscli client ${client} --base-url ${root_url}`,
  };
}

/** A diagnosis whose remedy can be pasted: it names this client, the gateway and the model it has now, and where its names are from. */
function withCommand(
  diagnosis: Diagnosis,
  { profile }: Desk,
  { client, connection }: Examination,
  meant_url: string | undefined,
): Diagnosis {
  const { remedy } = diagnosis;
  if (remedy === undefined) return diagnosis;
  const { model, is_of_folder = false } = connection ?? {};
  const root_url = is_of_folder ? meant_url : (connection?.root_url ?? meant_url);
  return { ...diagnosis, remedy: withWholeCommand(remedy, { client, root_url, model, profile }) };
}

/** What is known of the sign-in that a key helper of ours stands on. */
function signInOf(
  desk: Desk,
  { root_url, helper }: Connection & Required<Pick<Connection, 'helper'>>,
): readonly Diagnosis[] {
  const { command } = helper;
  const is_ours = 'line' in command ? callsHelper(command.line, root_url) : isHelperCall(command.args, root_url);
  return is_ours ? examineSignIn(desk, root_url).diagnoses : [];
}

/** A gateway that no client goes to, with the token of whoever signed in. */
function ofSignIn(desk: Desk, root_url: string): Connection {
  const { token } = examineSignIn(desk, root_url);
  return { client: 'messages', root_url, token, model: undefined, context_window: undefined };
}

const WORD = /[A-Za-z0-9_=+-]{12,}/g;

/** A diagnosis without what can be nothing but a key, wherever somebody put it: into a model, an address, a number. */
function withoutKeys(diagnosis: Diagnosis): Diagnosis {
  const clean = (text: string) => text.replace(WORD, (word) => (isKeyAnywhere(word) ? '***' : word));
  const { found, remedy, where, details } = diagnosis;
  return {
    ...diagnosis,
    found: clean(found),
    ...(remedy !== undefined && { remedy: clean(remedy) }),
    ...(where !== undefined && { where: clean(where) }),
    ...(details !== undefined && { details: details.map(clean) }),
  };
}
