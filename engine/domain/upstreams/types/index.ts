/** The types of upstreams. To add one: a file like these, a line here, and `npm run generate`. @module */
import type { UpstreamConfig } from '../../../base/contract/config.ts';
import { definitionOf } from '../../protocols/index.ts';
import { compat } from './compat.ts';
import type { UpstreamType } from './upstream-type.ts';
import { vendor } from './vendor.ts';

/** Name of a type in gateway.yaml. */
export type UpstreamTypeName = UpstreamConfig['type'];

/** Each type by its name; the first is the default. The schema of `upstreams[].type` is generated from it. */
export const UPSTREAM_TYPES: Readonly<Record<UpstreamTypeName, UpstreamType>> = { vendor, compat };

/** Their names. */
export const UPSTREAM_TYPE_NAMES = Object.keys(UPSTREAM_TYPES) as readonly UpstreamTypeName[];

/** The type of an upstream that names none. */
export const DEFAULT_UPSTREAM_TYPE = UPSTREAM_TYPE_NAMES[0]!;

/** What upstreams of a type speak, such as `chat completions or Responses`. */
export function spokenBy(name: UpstreamTypeName): string {
  return UPSTREAM_TYPES[name].protocols.map((protocol) => definitionOf(protocol).name).join(' or ');
}

/** Whether gateway.yaml has a type of this name. */
export function isUpstreamType(name: string): name is UpstreamTypeName {
  return Object.hasOwn(UPSTREAM_TYPES, name);
}
