/** Writes a large configuration: what an organisation of many teams ends up with. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

function gatewayYaml(rules: number, models: number): string {
  return `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
${numbers(8)
  .map(
    (n) => `  - name: region-${n}
    type: vendor
    base_url: https://region-${n}.example.com
    api_key_env: UPSTREAM_KEY`,
  )
  .join('\n')}
models:
${numbers(models)
  .map(
    (n) => `  - id: coder-${n}
    family: family-${n % 7}
    display_name: Coder ${n}
    pricing:
      input: 3
      output: 15`,
  )
  .join('\n')}
token_groups:
  - name: all
    models: ["*"]
routing:
  default_upstream: region-1
  rules:
${numbers(rules).map(routingRule).join('\n')}
pipelines: pipelines
`;
}

function routingRule(n: number): string {
  return `    - name: team-${n}
      when: { and: [{ "===": [{ var: principal.team }, team-${n}] }, { glob: [{ var: request.model }, "coder-*"] }, { in: [group-${n}, { var: principal.groups }] }] }
      upstream: region-${(n % 8) + 1}`;
}

/** A pipeline with named rules, each used by a guard. */
function pipelineYaml(rules: number): string {
  return `pipeline: messages
version: 1
summary: Refuses what each team's own rule refuses.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
rules:
${numbers(rules)
  .map(
    (n) =>
      `  rule-${n}: { and: [{ in: [group-${n}, { var: principal.groups }] }, { ">": [{ var: request.max_tokens }, ${n * 1000}] }] }`,
  )
  .join('\n')}
stages:
  - stage: authenticate
  - stage: read-body
${numbers(rules)
  .map(
    (n) =>
      `  - { stage: fail, id: refuse-${n}, when: { rule: rule-${n} }, options: { error: forbidden, message: Ask for less. } }`,
  )
  .join('\n')}
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
finally:
  - stage: audit
`;
}

/** Writes gateway.yaml and a pipeline below a directory: 500 rules in about 2000 lines. Returns the number of lines. */
export function writeLargeConfiguration(directory: string): number {
  const gateway = gatewayYaml(400, 100);
  const pipeline = pipelineYaml(100);
  mkdirSync(join(directory, 'pipelines'), { recursive: true });
  writeFileSync(join(directory, 'gateway.yaml'), gateway);
  writeFileSync(join(directory, 'pipelines', 'messages.yaml'), pipeline);
  return `${gateway}${pipeline}`.split('\n').length;
}
