import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeEach } from 'node:test';
import {
  type ClientDependencies,
  removeClient,
  type SetUpOptions,
  setUpClient,
} from '../../../engine/edge/cli/client.ts';
import type { Input } from '../../../engine/edge/cli/terminal.ts';
import type { ClientKind } from '../../../engine/edge/client-files/clients.ts';
import { type Backend, createBackend } from '../../client/scripted-gateway.ts';

export let backend: Backend;

let defaults: Partial<ClientDependencies> = {};

/** Gives each test of a file a backend of its own, and `appscli client` this input and program by default. */
export function useBackend(dependencies: Partial<ClientDependencies> = {}): void {
  defaults = dependencies;
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

export const piped = (text: string): Input => ({ ...typing(), all: async () => text });

const setUp =
  (client: ClientKind) =>
  (options: SetUpOptions, dependencies: Partial<ClientDependencies> = {}): Promise<number> =>
    setUpClient(backend.context, client, options, { input: typing(), ...defaults, ...dependencies });
export const [messages, codingCli, buildCli] = [setUp('messages'), setUp('coding-cli'), setUp('build-cli')];

export const remove = (client: ClientKind, baseUrl: string): Promise<number> =>
  removeClient(backend.context, client, { baseUrl, write: true }, { input: typing() });

/** A path in the home of the user; the text of the file there; puts one there. */
export const home = (...parts: string[]) => join(backend.home, ...parts);
export const read = (...parts: string[]) => readFileSync(home(...parts), 'utf8');
export function put(text: string, ...parts: string[]): void {
  mkdirSync(dirname(home(...parts)), { recursive: true });
  writeFileSync(home(...parts), text);
}
