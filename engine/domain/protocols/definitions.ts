/** The protocols of model requests. To add one, see README.md. @module */

import type { GatewayConfig } from '../../base/contract/config.ts';
import { MAIN_PROTOCOL, type Protocol, protocolOf } from '../../base/contract/protocol.ts';
import type { ProtocolDefinition } from './definition.ts';
import { DEFINITIONS } from './list.ts';
import { errorOfEvent } from './read-error.ts';
import { isObject, jsonIn } from './read-json.ts';
import { type AnswerTexts, unknownTexts } from './rewriting.ts';

export { DEFINITIONS } from './list.ts';

const ALL = Object.values(DEFINITIONS);
const MAIN = DEFINITIONS[MAIN_PROTOCOL];

/** The protocol with this name; `undefined` for other protocols of pipelines. */
export function definitionNamed(protocol: string | undefined): ProtocolDefinition | undefined {
  return protocol !== undefined && Object.hasOwn(DEFINITIONS, protocol) ? DEFINITIONS[protocol as Protocol] : undefined;
}

/** The protocol with this name; the main one for other protocols of pipelines. */
export function definitionOf(protocol: string | undefined): ProtocolDefinition {
  return definitionNamed(protocol) ?? MAIN;
}

/** Whether an upstream of a configuration expects state of tool calls back. */
export function wantsCallState({ upstreams }: Pick<GatewayConfig, 'upstreams'>): boolean {
  return upstreams.some(({ protocols }) => protocols.some((protocol) => DEFINITIONS[protocol].kept.call_state));
}

/** The protocol of a path that no model pipeline serves. */
export function definitionOfPath(
  path: string,
  headers: Readonly<Record<string, string | string[] | undefined>> = {},
): ProtocolDefinition {
  const placeOf = ({ other_paths: { own } }: ProtocolDefinition) => path.search(own);
  const [owner] = ALL.filter((one) => placeOf(one) >= 0).toSorted((a, b) => placeOf(a) - placeOf(b));
  if (owner !== undefined) return owner;
  const sharing = ALL.find(({ other_paths: { shared } }) => shared?.test(path));
  if (sharing === undefined) return MAIN;
  return ALL.find(({ other_paths }) => other_paths.headers?.some((name) => headers[name] !== undefined)) ?? sharing;
}

/** The protocol for errors of a request. */
export function definitionFor(
  protocol: string,
  { url, headers }: { readonly url: string; readonly headers: Parameters<typeof definitionOfPath>[1] },
): ProtocolDefinition {
  return protocol === 'none' ? definitionOfPath(url.split('?', 1)[0]!, headers) : definitionOf(protocol);
}

/** The places of texts in responses of a pipeline's protocol. */
export function textsOf(protocol: string | undefined): AnswerTexts {
  const served = protocolOf(protocol ?? '');
  return served === undefined ? unknownTexts : DEFINITIONS[served].texts;
}

const STREAMS = ALL.map(({ stream }) => stream);

const PREAMBLE: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ preamble }) => preamble));
const OPENINGS: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ openings }) => openings));
const EMPTY_PARTS: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ empty_parts }) => empty_parts));

const isNothing = (value: unknown) =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

/** Whether an event has no content yet; one known by name is not parsed, as some repeat the whole request. */
export function isPreamble(name: string, data: string): boolean {
  return PREAMBLE.has(name) || (saysNothingYet(data) && errorOfEvent(name, data) === undefined);
}

function saysNothingYet(data: string): boolean {
  const chunk = jsonIn(data);
  if (!isObject(chunk)) return false;
  const { type, choices } = chunk;
  if (PREAMBLE.has(type)) return true;
  if (OPENINGS.has(type)) return isEmptyPart(chunk.content_block ?? chunk.item ?? chunk.part);
  return Array.isArray(choices) && choices.every(isEmptyChoice);
}

function isEmptyChoice(choice: unknown): boolean {
  if (!isObject(choice)) return false;
  const delta = Object.entries(choice.delta ?? {});
  return isNothing(choice.finish_reason) && delta.every(([key, value]) => key === 'role' || isNothing(value));
}

function isEmptyPart(part: unknown): boolean {
  if (!isObject(part) || !EMPTY_PARTS.has(part.type)) return false;
  return isNothing(part.text) && isNothing(part.thinking) && isNothing(part.content);
}
