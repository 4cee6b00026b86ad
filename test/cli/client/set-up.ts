import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach } from 'node:test';
import { type ClientDependencies, type SetUpOptions, setUpClient } from '../../../engine/edge/cli/client/client.ts';
import type { Input } from '../../../engine/edge/cli/client/client-options.ts';
import type { CommandContext } from '../../../engine/edge/cli/commands.ts';
import type { ClientKind } from '../../../engine/edge/client-files/clients.ts';
import { type Backend, createBackend } from '../../client/scripted-gateway.ts';

const setUp =
  (client: ClientKind) => (context: CommandContext, input: SetUpOptions, dependencies: ClientDependencies) =>
    setUpClient(context, client, input, dependencies);

/** `appscli client` for each kind of client. */
export const [messages, codingCli, buildCli] = [setUp('messages'), setUp('coding-cli'), setUp('build-cli')];

/** The machine of a user, another one for each test of a file that uses it. */
export let backend: Backend;

/** Gives each test of a file a backend of its own. */
export function useBackend(): void {
  beforeEach(() => {
    backend = createBackend();
  });
}

/** A user who types these lines; no terminal, without any. */
export function typing(...lines: string[]): Input & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    answers: lines.length > 0,
    line: async (question, hidden) => {
      assert.notEqual(lines.length, 0, 'prompted the user');
      asked.push(`${hidden ? 'hidden ' : ''}${question}`);
      return lines.shift()!;
    },
    all: async () => assert.fail('standard input was read'),
  };
}

/** A pipe with this text. */
export const piped = (text: string): Input => ({ ...typing(), all: async () => text });

/** A path in the home of the user; the text of the file there; puts one there. */
export const home = (...parts: string[]) => join(backend.home, ...parts);
export const read = (...parts: string[]) => readFileSync(home(...parts), 'utf8');
export function put(text: string, ...parts: string[]): void {
  mkdirSync(dirname(home(...parts)), { recursive: true });
  writeFileSync(home(...parts), text);
}
