/** Two whole configurations, and the sentences about their difference. */
import assert from 'node:assert/strict';
import type { SpendingRow } from '../../../engine/domain/budget/reports/spending.ts';
import { describeChanges } from '../../../engine/edge/cli/diff.ts';
import type { Usable } from '../../../engine/edge/simulate/diff/change.ts';
import { diffConfigurations } from '../../../engine/edge/simulate/diff/index.ts';
import { load } from '../../../engine/pipeline/load/index.ts';
import { stages } from '../../../stages/index.ts';
import { createProject } from '../../load/support/project.ts';

/** A configuration to change. */
export const BASE = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY, region: us }
  - { name: spare, base_url: "https://eu.example.com", api_key_env: SPARE_KEY, region: eu }
models:
  - { id: coder-1, family: coder, pricing: { input: 3, output: 15 } }
  - { id: coder-2, family: coder, pricing: { input: 3, output: 15 } }
  - { id: mini-1, family: mini, pricing: { input: 1, output: 5 } }
token_groups:
  - { name: engineers, models: ["*"] }
  - { name: research, families: [coder] }
  - { name: interns, families: [mini] }
routing:
  default_upstream: main
  rules:
    - { name: research-to-spare, group: research, models: ["coder-*"], upstream: spare }
spend_limits:
  reserve: worst_case
  defaults: { user_daily_usd: 50, team_monthly_usd: 2000 }
`;

/** Loads a configuration without mistakes. */
export async function loadText(files: Readonly<Record<string, string>>): Promise<Usable> {
  const project = createProject(files);
  const { config, pipelines, policies, diagnostics } = await load(project.path('gateway.yaml'), {
    stages,
    env: {},
    environment: 'ignored',
  });
  project.remove();
  assert.ok(config, JSON.stringify(diagnostics));
  return { config, pipelines, policies, directory: project.directory };
}

/** The lines `appscli diff` prints for a change of the base configuration. */
export async function diffTo(
  change: (base: string) => string,
  more: {
    base?: string;
    base_files?: Record<string, string>;
    files?: Record<string, string>;
    spending?: readonly SpendingRow[];
  } = {},
): Promise<string[]> {
  const { base = BASE, base_files, files, spending } = more;
  const text = change(base);
  assert.notEqual(`${text}${JSON.stringify(files)}`, base, 'the change changes nothing');
  const before = await loadText({ 'gateway.yaml': base, ...base_files });
  const after = await loadText({ 'gateway.yaml': text, ...files });
  const changes = await diffConfigurations(before, after, spending && (async () => spending));
  return describeChanges(changes);
}

/** A change that puts a text in place of another. */
export const replace = (from: string | RegExp, to: string) => (text: string) => text.replace(from, to);
