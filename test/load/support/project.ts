import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { ownDirectory } from '../../support/own-directory.ts';

/** A gateway.yaml without mistakes and without warnings when UPSTREAM_KEY is set. */
export const GATEWAY = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
  - name: main
    type: vendor
    base_url: https://api.example.com
    api_key_env: UPSTREAM_KEY
models:
  - id: coder-1
    family: coder
    max_output_tokens: 64000
    pricing: { input: 3, output: 15 }
routing:
  default_upstream: main
`;

/** A pipeline without mistakes; `stages` replaces its list of stages. */
export function pipelineYaml(stages = '  - stage: list-models', name = 'mine'): string {
  return `pipeline: ${name}
version: 1
summary: A pipeline.
match: { methods: [GET], paths: [/mine], protocol: none }
stages:
${stages}
`;
}

/** A temporary directory of files, which is gone with the process at the latest. */
export interface Project {
  readonly directory: string;
  path(name: string): string;
  remove(): void;
}

export function createProject(files: Readonly<Record<string, string | Buffer>>): Project {
  const directory = ownDirectory();
  const path = (name: string) => join(directory, name);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(path(name)), { recursive: true });
    writeFileSync(path(name), content);
  }
  return { directory, path, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** The same, for as long as the test lasts that asks. */
export function projectOfTest(files: Readonly<Record<string, string | Buffer>>): Project {
  const project = createProject(files);
  after(() => project.remove());
  return project;
}

export const SHIPPED = join(import.meta.dirname, 'pipelines');
