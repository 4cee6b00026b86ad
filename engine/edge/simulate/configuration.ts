/** The configuration under test: the operator's own or a default, overlaid with the sections of the test. */
import { dirname, join } from 'node:path';
import type { StageDefinition } from '../../base/contract/stage.ts';
import type { Findings } from '../../base/source/findings.ts';
import { childOf, type MapNode, type Node, nodeAt } from '../../base/source/node.ts';
import { parseSource, readSource } from '../../base/source/source.ts';
import type { Loaded } from '../../base/source/spec.ts';
import { load } from '../../pipeline/load/index.ts';
import type { TestFile } from '../../pipeline/load/tests/test-file.ts';

/** The gateway.yaml of tests without one: small, but complete for the shipped pipelines. */
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

const OTHER_FORM: Readonly<Record<string, string>> = {
  default_upstream: 'default_upstreams',
  default_upstreams: 'default_upstream',
};

/** Overlays a mapping on another: mappings merge, other values are replaced. Nodes keep their positions. */
function overlay(base: MapNode, over: MapNode): MapNode {
  const kept = base.entries.filter(({ key }) => ![key, OTHER_FORM[key]].some((form) => form && childOf(over, form)));
  const laid = over.entries.map((entry) => ({ ...entry, value: merged(childOf(base, entry.key), entry.value) }));
  return { ...base, entries: [...kept, ...laid] };
}

function merged(base: Node | undefined, over: Node): Node {
  return base?.kind === 'map' && over.kind === 'map' ? overlay(base, over) : over;
}

function readBase(file: string, test: TestFile, gateway_file: string | undefined, findings: Findings) {
  // Positions of overlaid sections are in the test file.
  readSource(test.file, findings);
  return gateway_file === undefined ? parseSource(file, DEFAULT_GATEWAY, findings) : readSource(file, findings);
}

/** Whether a test file, or one of its cases, overlays the configuration. */
export function changesConfiguration(test: TestFile, case_index?: number): boolean {
  return childOf(ownerOf(test, case_index), 'gateway') !== undefined;
}

function ownerOf({ root }: TestFile, case_index: number | undefined): Node {
  return case_index === undefined ? root : nodeAt(root, `/cases/${case_index}`);
}

/** The configuration as a test file, or one of its cases, overlays it. Errors are in `diagnostics`; needs no environment. */
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
