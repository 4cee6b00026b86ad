import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import { CLIENT_KINDS, CLIENTS, type ClientKind } from '../client-files/clients.ts';
import { callsHelper, isHelperCall, quoteForSh } from '../client-files/key-helper.ts';
import { isKeyAnywhere } from './clients/credential-text.ts';
import { examineClient } from './clients/examine-client.ts';
import { examineSignIn, tryHelper } from './clients/sign-in.ts';
import type { Connection, Desk, Diagnosis, Examination } from './desk.ts';
import { examineGateway } from './gateway/examine-gateway.ts';

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

/** Looks at all clients of a desk, then at their gateways; each diagnosis comes as soon as it is known, and shows no key. */
export async function* examineDesk(
  question: DeskQuestion,
  onStep: (title: string) => void = () => {},
): AsyncGenerator<Diagnosis> {
  for await (const diagnosis of examineAll(question, onStep)) yield withoutKeys(diagnosis);
}

async function* examineAll(question: DeskQuestion, onStep: (title: string) => void): AsyncGenerator<Diagnosis> {
  const { desks, only, root_url, is_offline } = question;
  const connections: Connection[] = [];
  let is_any_there = false;
  for (const kind of CLIENT_KINDS) {
    if (only !== undefined && only !== kind) continue;
    const found = desks.flatMap((desk) => {
      const examination = examined(desk, kind);
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
      onStep(`running the key helper of the ${CLIENTS[kind].title}`);
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

function examined(desk: Desk, client: ClientKind): Examination {
  try {
    return examineClient(desk, client);
  } catch (error) {
    const diagnosis = broken(`${idOf(client)}.files`, CLIENTS[client].title, error);
    return { client, is_there: true, diagnoses: [diagnosis], connection: undefined };
  }
}

/** A look that broke says nothing about what it looked at, and keeps no other from being made. */
function broken(id: string, title: string, error: unknown): Diagnosis {
  const what = error instanceof Error ? error.name : 'unknown error';
  return warning(
    `this look broke (${what}), which says nothing about what was looked at`,
    'please report it, with the version of appscli and of the client',
    { id, title },
  );
}

const idOf = (client: ClientKind) => client.replaceAll('-', '_');

const programOf = ({ names }: Desk, client: ClientKind) => CLIENTS[client].files(names).program;

/** A client that is told everything by names that are not its own. */
function misnamed(
  { desks: [neutral, ...others] }: DeskQuestion,
  desk: Desk,
  {
    examination: { client, connection },
    found,
  }: { readonly examination: Examination; readonly found: readonly Examination[] },
): Diagnosis[] {
  const other = others.find((each) => each.find(programOf(each, client)) !== undefined);
  const is_set_up = found.some((each) => each.connection !== undefined && each.connection !== connection);
  if (desk !== neutral || connection === undefined) return [];
  if (other === undefined || is_set_up || neutral.find(programOf(neutral, client)) !== undefined) return [];
  const program = programOf(other, client);
  return [
    warning(
      `files and variables have neutral names, which ${program} does not read`,
      withWholeCommand('appscli client', { ...connection, profile: other.profile }),
      { id: `${idOf(client)}.names`, title: `names of the ${CLIENTS[client].title}` },
    ),
  ];
}

/** What a client is told, in a line. */
function overview(desk: Desk, { client, connection }: Examination): Diagnosis {
  const program = programOf(desk, client);
  const found_at = desk.find(program);
  const title = CLIENTS[client].title;
  const goes = connection === undefined ? 'it is told of no gateway' : `it goes to ${connection.root_url}`;
  const asks = connection?.model === undefined ? '' : ` and asks for ${connection.model}`;
  const there = found_at === undefined ? `there is no ${program} on the PATH` : `its program is ${found_at}`;
  return ok(`${goes}${asks}; ${there}`, { id: idOf(client), title });
}

function notThere(client: ClientKind, { desks, root_url }: DeskQuestion): Diagnosis {
  const programs = [...new Set(desks.map((desk) => programOf(desk, client)))].join(' or ');
  return failed(
    `it is not here: no file of it, no variable, and no ${programs} on the PATH`,
    `install it, then: ${setUp(client, desks, root_url)}`,
    { id: idOf(client), title: CLIENTS[client].title },
  );
}

function nothingThere({ desks, root_url }: DeskQuestion): Diagnosis {
  const programs = CLIENT_KINDS.flatMap((kind) => desks.map((desk) => programOf(desk, kind)));
  return skipped(`none is set up here, and none of ${[...new Set(programs)].join(', ')} is on the PATH`, {
    ...{ id: 'clients', title: 'coding clients' },
    remedy: `set one up, or tell what yours are called with --profile: ${setUp('messages', desks, root_url)}; appscli client --help names the other clients`,
  });
}

/** The command for a client that is not there yet: it will most likely have the names that ship with the program. */
function setUp(client: ClientKind, desks: readonly Desk[], root_url = 'https://gateway.example.com'): string {
  const { profile } = desks.at(-1)!;
  return withWholeCommand('appscli client', { client, root_url, model: 'MODEL', profile });
}

function elsewhere({ client, root_url: goes_to }: Connection, root_url: string): Diagnosis {
  return warning(`it goes to ${goes_to} and not to ${root_url}`, `appscli client ${client} --base-url ${root_url}`, {
    id: `${idOf(client)}.other_gateway`,
    title: `gateway of the ${CLIENTS[client].title}`,
  });
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

/** What a command that sets a client up has to be told. */
interface CommandFacts {
  readonly client: ClientKind;
  readonly root_url: string | undefined;
  readonly model: string | undefined;
  /** The file with the names of the client; without it files would be written that the client does not read. */
  readonly profile: string | undefined;
}

/** The command as remedies name it, up to its first option. */
const COMMAND = /appscli client(?: (?:messages|coding-cli|build-cli))?(?=$|[ :;,])/;

/** Values that stand for what is not known. */
const EXAMPLE = /(--base-url) https:\/\/gateway\.example\.com|(--model) MODEL/g;

/** A remedy that names the command to set a client up, with all that makes the command work as it stands; others stay as they are. */
export function withWholeCommand(remedy: string, { client, root_url, model, profile }: CommandFacts): string {
  const options = {
    '--base-url': root_url,
    '--model': client === 'messages' ? undefined : model,
    '--profile': profile,
  };
  const known = Object.entries(options).flatMap(([option, value]) =>
    value === undefined ? [] : [{ option, value: quoteForSh(value) }],
  );
  // Where a remedy has an option, it has an example for its value, or one that is meant.
  const told = remedy.replace(EXAMPLE, (whole, base_url, model) => {
    const value = known.find((each) => each.option === (base_url ?? model))?.value;
    return value === undefined ? whole : `${base_url ?? model} ${value}`;
  });
  const missing = known.flatMap(({ option, value }) => (remedy.includes(option) ? [] : [` ${option} ${value}`]));
  return told.replace(COMMAND, () => `appscli client ${client}${missing.join('')}`);
}
