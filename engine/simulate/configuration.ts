/** The configuration that a test file is about: the operator's own, or a small one, with the test's sections laid over. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { StageDefinition } from '../contract/stage.ts';
import { load } from '../load/index.ts';
import type { TestFile } from '../load/tests/test-file.ts';
import type { Findings } from '../source/findings.ts';
import { childOf, type MapNode, type Node, nodeAt } from '../source/node.ts';
import { readSource } from '../source/read-source.ts';
import { parseSource } from '../source/source.ts';
import type { Loaded } from '../source/spec.ts';
import { DEFAULT_GATEWAY } from './default-gateway.ts';

/** The gateway.yaml in a test file's directory or in the one above; `undefined` when there is none. */
export function gatewayFileFor(test_file: string): string | undefined {
  const directory = dirname(test_file);
  return [directory, dirname(directory)].map((place) => join(place, 'gateway.yaml')).find((file) => existsSync(file));
}

/** Lays a mapping over another: mappings are merged, everything else is replaced. Every node keeps its place. */
export function overlay(base: MapNode, over: MapNode): MapNode {
  const kept = base.entries.filter(({ key }) => childOf(over, key) === undefined);
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
