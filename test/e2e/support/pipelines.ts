import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownDirectory } from '../../support/own-directory.ts';

/** A pipeline that forwards requests for models past an entry of the test, by its name, path and protocol. */
interface Forwarding {
  readonly path: string;
  readonly entry: string;
  readonly protocol?: string;
}

/** A directory of such pipelines. */
export function forwardingPipelines(pipelines: Readonly<Record<string, Forwarding>>): string {
  const directory = ownDirectory();
  for (const [name, { path, entry, protocol = 'messages' }] of Object.entries(pipelines)) {
    const text = `
pipeline: ${name}
version: 2
summary: Forwards requests past a stage of the test.
match: { methods: [POST], paths: [${path}], protocol: ${protocol} }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: translate
  - ${entry}
  - stage: forward
finally:
  - stage: audit
`;
    writeFileSync(join(directory, `${name}.yaml`), text);
  }
  return directory;
}
