/** Projects for tests of `engine/edge/simulate/`: a gateway.yaml, a pipeline of its own, and tests of it. */
import assert from 'node:assert/strict';
import type { StageDefinition } from '../../engine/api.ts';
import { type CaseResult, openSuite, type Suite } from '../../engine/edge/simulate/suite/suite.ts';
import { stages } from '../../stages/index.ts';
import { createProject, type Project } from '../load/support/project.ts';
import { atFileEnd } from '../support/file-end.ts';

export const GATEWAY = `
server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com", region_header: x-region }
upstreams:
  - { name: main, type: vendor, base_url: https://api.example.com/base, api_key_env: UPSTREAM_KEY }
  - { name: spare, type: vendor, base_url: https://spare.example.com }
models:
  - { id: coder-1, context_window: 200000, max_output_tokens: 64000, pricing: { input: 3, output: 15 } }
routing:
  default_upstream: main
  rules:
    - { name: night, when: { time_window: [{ var: request.received_at }, "22:00-06:00"] }, upstream: spare }
    - { name: eu, region: eu, upstream: spare, mode: shadow }
    - { name: office, when: { cidr: [{ var: request.client.address }, 10.0.0.0/8] }, upstream: spare }
spend_limits:
  defaults: { user_daily_usd: 50 }
  rules:
    - name: contractors
      when: { in: [contractors, { var: principal.groups }] }
      scope: user
      window: day
      limit_usd: 20
token_groups:
  - { name: all, models: ["*"] }
  - { name: contractors, models: ["*"] }
pipelines: pipelines
`;

export const PIPELINE = `
pipeline: messages
version: 2
summary: Forwards Messages requests of up to a kilobyte.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - id: refuse-large
    stage: reject
    when: { ">": [{ var: request.body_bytes }, 1000] }
    options: { error: invalid_request, message: Requests above one kilobyte are not served here. }
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
on_error:
  - id: ask-bob
    errors: [spend_limit_exceeded]
    stage: reject
    options: { error: spend_limit_exceeded, message: Ask Bob. }
finally:
  - stage: audit
`;

/** A request of 49 bytes that costs 18000 nano-USD with the response below. */
export const REQUEST = 'request: { json: { model: coder-1, max_tokens: 10, messages: [] } }';
export const UPSTREAM = 'upstream: { json: { type: message, usage: { input_tokens: 1, output_tokens: 1 } } }';

const opened: { close(): unknown }[] = [];
atFileEnd(async () => {
  for (const each of opened.splice(0)) await each.close();
});

/** Writes a project; `cases` are the lines of its one test file. */
export function testProject(cases: string, files: Readonly<Record<string, string>> = {}): Project {
  const project = createProject({
    'gateway.yaml': GATEWAY,
    'pipelines/messages.yaml': PIPELINE,
    'pipelines/messages.test.yaml': `pipeline: messages\ncases:\n${cases}`,
    ...files,
  });
  opened.push({ close: () => project.remove() });
  return project;
}

export async function suiteOf(project: Project, more: readonly StageDefinition[] = []): Promise<Suite> {
  const suite = await openSuite({ paths: [project.directory], stages: [...stages, ...more] });
  opened.push(suite);
  return suite;
}

/** Runs all cases of a project. Throws when something is wrong with its files. */
export async function runCases(
  cases: string,
  files: Readonly<Record<string, string>> = {},
  more: readonly StageDefinition[] = [],
): Promise<{ results: readonly CaseResult[]; suite: Suite }> {
  const suite = await suiteOf(testProject(cases, files), more);
  if (suite.diagnostics.length > 0) throw new Error(suite.diagnostics.map(({ message }) => message).join('\n'));
  const results: CaseResult[] = [];
  for (const file of suite.files) for (const one of file.cases) results.push(await one.run());
  return { results, suite };
}

export async function holds(cases: string, files: Readonly<Record<string, string>> = {}): Promise<void> {
  const { results } = await runCases(cases, files);
  assert.deepEqual(results.flatMap(problemsOf), []);
}

/** The unmet expectations, one line each: place and value. */
export function problemsOf({ problems }: CaseResult): string[] {
  return problems.map(
    ({ position, pointer, expected, found }) => `${position.line} ${pointer}: expected ${expected}, found ${found}`,
  );
}
