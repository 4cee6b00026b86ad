/** The configuration that a test file is about: the operator's own, or a small one, with the test's sections laid over. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { StageDefinition } from '../../base/contract/stage.ts';
import type { Findings } from '../../base/source/findings.ts';
import { childOf, type MapNode, type Node, nodeAt } from '../../base/source/node.ts';
import { parseSource, readSource } from '../../base/source/source.ts';
import type { Loaded } from '../../base/source/spec.ts';
import { load } from '../../pipeline/load/index.ts';
import type { TestFile } from '../../pipeline/load/tests/test-file.ts';

/**
 * The gateway.yaml of tests that stand beside none: small, and complete enough for the shipped pipelines. Prices are
 * 3000 nano-USD per input token, 15000 per output token, 300, 3750 and 6000 for what the cache reads and writes.
 */
const DEFAULT_GATEWAY = `
server: { listen: "127.0.0.1:0", public_url: "http://127.0.0.1", region_header: x-region }
upstreams:
  - name: main
    type: vendor
    base_url: http://main.example.com
    api_key_env: UPSTREAM_KEY
    supports: { prompt_cache_1h: true, count_tokens: true }
models:
  - id: coder-1
    family: coder
    context_window: 200000
    max_output_tokens: 64000
    pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 }
  - id: mapped-1
    family: mapped
    context_window: 200000
    max_output_tokens: 64000
    upstream_ids: { main: upstream-name@2026 }
    pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 }
token_groups:
  - { name: all, models: ["*"] }
  - { name: mapped-only, families: [mapped] }
routing: { default_upstream: main, rules: [] }
pipelines: .
`;

/** The gateway.yaml in a test file's directory or in the one above; `undefined` when there is none. */
export function gatewayFileFor(test_file: string): string | undefined {
  const directory = dirname(test_file);
  return [directory, dirname(directory)].map((place) => join(place, 'gateway.yaml')).find((file) => existsSync(file));
}

/** Keys that say the same in another form: one of them replaces the other. */
const OTHER_FORM: Readonly<Record<string, string>> = {
  default_upstream: 'default_upstreams',
  default_upstreams: 'default_upstream',
};

/** Lays a mapping over another: mappings are merged, everything else is replaced. Every node keeps its place. */
export function overlay(base: MapNode, over: MapNode): MapNode {
  const kept = base.entries.filter(({ key }) => ![key, OTHER_FORM[key]].some((form) => form && childOf(over, form)));
  const laid = over.entries.map((entry) => ({ ...entry, value: merged(childOf(base, entry.key), entry.value) }));
  return { ...base, entries: [...kept, ...laid] };
}

function merged(base: Node | undefined, over: Node): Node {
  return base?.kind === 'map' && over.kind === 'map' ? overlay(base, over) : over;
}

function readBase(file: string, test: TestFile, gateway_file: string | undefined, findings: Findings) {
  // The text of the test file is where its sections stand.
  readSource(test.file, findings);
  return gateway_file === undefined ? parseSource(file, DEFAULT_GATEWAY, findings) : readSource(file, findings);
}

/** Whether a test file, or one of its cases, lays sections over the configuration. */
export function changesConfiguration(test: TestFile, case_index?: number): boolean {
  return childOf(ownerOf(test, case_index), 'gateway') !== undefined;
}

function ownerOf({ root }: TestFile, case_index: number | undefined): Node {
  return case_index === undefined ? root : nodeAt(root, `/cases/${case_index}`);
}

/**
 * Loads the configuration under test: as it stands in its file, as the test file changes it, or as a case, given by its
 * index, changes that. What is wrong with it is in `diagnostics`; nothing needs to be set in the environment.
 */
export function loadUnderTest(
  test: TestFile,
  gateway_file: string | undefined,
  changed_by: 'nobody' | 'file' | number,
  stages: readonly StageDefinition[],
): Promise<Loaded> {
  const file = gateway_file ?? join(dirname(test.file), 'gateway.yaml');
  const owners = [
    ...(changed_by === 'nobody' ? [] : [test.root]),
    ...(typeof changed_by === 'number' ? [ownerOf(test, changed_by)] : []),
  ];
  return load(file, {
    stages,
    env: {},
    environment: 'ignored',
    read(_file, findings) {
      const base = readBase(file, test, gateway_file, findings);
      return owners.reduce<MapNode | undefined>((root, owner) => {
        const over = childOf(owner, 'gateway');
        return root !== undefined && over?.kind === 'map' ? overlay(root, over) : root;
      }, base);
    },
  });
}
