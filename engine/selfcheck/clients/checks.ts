import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { ClientNames } from '../../client-files/names.ts';
import { findProgram } from '../../kit/process/find-program.ts';
import { APIS } from '../apis.ts';
import {
  askFor,
  type ClientSurroundings,
  refusedOutcome,
  type SelfCheck,
  type SelfCheckOutcome,
  type Subject,
} from '../check.ts';
import { requestOf } from '../requests.ts';
import { judgeRun } from './judge-run.ts';
import { RUNNABLE_CLIENTS, type RunnableClient } from './kinds.ts';
import { runOnce } from './run-once.ts';

/** A single run of each coding client that is installed. */
export const CLIENT_CHECKS: readonly SelfCheck[] = RUNNABLE_CLIENTS.map((client) => ({
  id: client.id,
  title: client.title,
  expected: 'the reply that was asked for, and no browser that opens to sign in',
  uses: client.uses,
  skipped: ({ clients }) => whyNot(client, clients),
  run: (subject) => runClient(client, subject),
}));

/** The word is not in the prompt, which some clients print as well. */
const PROMPT = 'Join "self" and "check" into one word, and reply with that one word only. Use no tools.';
const REPLY = /self-?check/i;

function whyNot(client: RunnableClient, clients: ClientSurroundings | undefined): string | undefined {
  if (clients === undefined) return 'no clients are looked for here';
  if (process.platform === 'win32')
    return 'clients are not run on Windows, where what they start can not be ended with them';
  const found = findClient(client, clients);
  if (found === undefined) {
    const programs = [...new Set(clients.names.map((names) => client.program(names)))];
    return `no ${programs.join(' or ')} is on the PATH`;
  }
  const managed = client.managedFile(found.names);
  if (managed === undefined || !existsSync(managed)) return undefined;
  return `${managed} decides on this machine where the client goes, and the token is for the gateway only`;
}

function findClient(
  client: RunnableClient,
  { names, env }: ClientSurroundings,
): { readonly program: string; readonly names: ClientNames } | undefined {
  for (const each of names) {
    const program = findProgram(client.program(each), env, process.platform);
    if (program !== undefined) return { program, names: each };
  }
  return undefined;
}

async function runClient(client: RunnableClient, subject: Subject): Promise<SelfCheckOutcome> {
  const { clients, echo, model, root_url, signal } = subject;
  const found = clients === undefined ? undefined : findClient(client, clients);
  if (clients === undefined || found === undefined || model === undefined) {
    return { verdict: 'skipped', found: 'there is no client or no model' };
  }
  const useless = await whyUseless(client, subject);
  if (useless !== undefined) return useless;
  const word = `echo-${randomBytes(4).toString('hex')}`;
  const expected = echo?.expect({ text: word });
  const run = await runOnce({
    client,
    ...found,
    root_url,
    model,
    token: clients.token,
    prompt: expected === undefined ? PROMPT : `${PROMPT} (${expected.text})`,
    env: clients.env,
    seconds: clients.seconds,
    signal,
  });
  signal?.throwIfAborted();
  const isExpected = (reply: string) => (expected?.received() === undefined ? REPLY.test(reply) : reply.includes(word));
  return judgeRun(run, { client, program: found.program, root_url, isExpected, seconds: clients.seconds });
}

/**
 * Why a run could not go well: by a short request of its API, because a client that is refused asks again and again, each
 * time with tens of thousands of tokens.
 */
async function whyUseless({ api }: RunnableClient, subject: Subject): Promise<SelfCheckOutcome | undefined> {
  const { path } = APIS[api];
  const asked = await askFor(subject, { path, json: requestOf(subject, api) }, 'a short request');
  const refused = refusedOutcome(asked);
  if (refused === undefined) return undefined;
  const { status, json } = asked.answer;
  if (json !== undefined && status >= 400 && status < 500 && status !== 401 && status !== 403) {
    const found = `not run: the gateway does not serve ${path}, or not with this model`;
    return { verdict: 'skipped', found, ...asked.travelled };
  }
  return { ...refused, found: `not run: the client would get the same: ${refused.found}` };
}
