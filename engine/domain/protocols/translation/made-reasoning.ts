import { createHash } from 'node:crypto';
import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';
import type { RequestBody } from '../../../base/contract/stage.ts';
import { percentDecoded } from '../../../base/kit/text/percent.ts';
import { isObject, present } from '../read-json.ts';
import type { Json, Maker, ReasoningProof } from './conversation.ts';

/** How every proof begins that a translation has made; no provider's own does, as they have no colons. */
const MARK = 'gw:';

const KINDS = ['signature', 'encrypted', 'state', 'none'] as const;

/** A state boundary in short: upstreams with the same one believe each other's proofs. It tells nothing of address or credential. */
export function boundaryMark(state_boundary: string): string {
  return createHash('sha256').update(state_boundary).digest('base64url').slice(0, 12);
}

/** Whether an upstream believes a proof that was made where this says. */
export function isMadeBy(proof: Pick<ReasoningProof, 'upstream' | 'boundary'>, maker: Maker): boolean {
  if (proof.boundary !== undefined && maker.boundary !== undefined) return proof.boundary === maker.boundary;
  return proof.upstream === maker.upstream;
}

/**
 * What a client keeps where its own protocol has a signature or encrypted content: the proof of another protocol's
 * upstream, or that there is none, as `gw:<protocol>@<upstream>/<boundary>:<kind>:<id>:<value>`. Never an empty text, so that
 * reasoning a translation has made can always be told from a provider's own.
 */
export function proofToText(proof: ReasoningProof | undefined, made_by: Maker): string {
  const { protocol = made_by.protocol, kind = 'none', id = '', value = '' } = proof ?? {};
  const boundary = made_by.boundary === undefined ? '' : `/${made_by.boundary}`;
  return `${MARK}${protocol}@${encode(made_by.upstream)}${boundary}:${kind}:${encode(id)}:${value}`;
}

/** Whether a translation has made this proof. */
export function isMade(proof: unknown): boolean {
  return typeof proof === 'string' && proof.startsWith(MARK);
}

/**
 * Whether a proof is a signature, which fits no other words than those it was made of: a provider's own, or what a translation made
 * of one. State counts as one, as it may repeat the words.
 */
export function isSignature(proof: string): boolean {
  return !isMade(proof) || /^gw:[a-z]+(?:@[^:]*)?:(?:signature|state):/.test(proof);
}

/** Reasoning that its upstream has not proven: `made` by a translation, or `unsigned`, with an empty signature. */
export type Unproven = 'made' | 'unsigned';

/** Whether and how a block of the Messages protocol is a thought that nobody has proven. */
export function unprovenBlock({ type, signature, data }: Json): Unproven | undefined {
  if (type === 'redacted_thinking') return isMade(data) ? 'made' : undefined;
  if (type !== 'thinking') return undefined;
  if (signature === '') return 'unsigned';
  return isMade(signature) ? 'made' : undefined;
}

/** Whether an item of the Responses protocol is reasoning that a translation has made. */
export function isMadeItem({ type, encrypted_content }: Json): boolean {
  return type === 'reasoning' && isMade(encrypted_content);
}

/**
 * The proof in what a client kept: what `proofToText` made, or else the client's own protocol's, of this kind. `undefined`
 * for an empty text and for a mark that says nothing.
 */
export function proofFromText(
  text: string,
  own: Pick<ReasoningProof, 'protocol' | 'kind' | 'id'>,
): ReasoningProof | undefined {
  if (text === '') return undefined;
  if (!isMade(text)) return { ...own, value: text };
  // Before upstreams were named, there was no "@", and before their boundaries were, no "/".
  const match = /^gw:([a-z]+)(?:@([^:/]*)(?:\/([^:/]*))?)?:([a-z]+):([^:]*):/.exec(text);
  const protocol = PROTOCOLS.find((name) => name === match?.[1]);
  const kind = KINDS.find((name) => name === match?.[4]);
  if (match === null || protocol === undefined || kind === undefined) return undefined;
  const [all, , upstream, boundary, , id] = match;
  return present({
    ...{ protocol, kind, boundary, value: text.slice(all.length) },
    id: id === '' ? undefined : percentDecoded(id!),
    upstream: upstream && percentDecoded(upstream),
  });
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/**
 * Reasoning that a translation has made, on its way to a provider that no translation stands before: after a change of the
 * model it is still in the conversation that the client sends, and a provider refuses what it has not proven itself.
 */

type Path = readonly (string | number)[];

/** Where made reasoning stands, and whether the model may not think without it. */
interface Found {
  readonly paths: readonly Path[];
  readonly thinking_off?: boolean;
}

/** What finds it in a body of one protocol; chat completions knows no proofs. */
const FINDERS: Readonly<Partial<Record<Protocol, (body: Json, keeps_unsigned: boolean) => Found>>> = {
  messages: findBlocks,
  responses: findItems,
};

/**
 * Takes reasoning out of a body that stays as it is otherwise: what a translation has marked as its own, and in the Messages
 * protocol what has an empty signature, unless `keeps_unsigned` says that the upstream signs nothing. The rewrite is recorded. Where the model was to go on thinking after a call before which
 * nothing it proved is left, it is told not to, as the protocol refuses that.
 */
export async function removeMadeReasoning(
  body: RequestBody,
  protocol: Protocol,
  keeps_unsigned = false,
): Promise<void> {
  const find = FINDERS[protocol];
  const parsed = find && (await body.json());
  if (!isObject(parsed)) return;
  const { paths, thinking_off } = find!(parsed, keeps_unsigned);
  if (paths.length > 0) await body.remove(paths);
  if (thinking_off !== true) return;
  body.rewrite('thinking', { type: 'disabled' });
  await body.remove(clearings(parsed));
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Blocks, and messages that are nothing else, as the protocol takes no empty ones. */
function findBlocks({ messages, thinking }: Json, keeps_unsigned: boolean): Found {
  const all = listOf(messages);
  const made = all.map((message) => madeBlocks(message, keeps_unsigned));
  const paths = made.flatMap((blocks, at): Path[] => {
    if (blocks.length === 0) return [];
    if (blocks.length === contentOf(all[at]).length) return [['messages', at]];
    return blocks.map((index) => ['messages', at, 'content', index]);
  });
  const may_think = paths.length > 0 && isObject(thinking) && thinking.type === 'enabled';
  return { paths, thinking_off: may_think && !mayGoOn(all, made) };
}

const contentOf = (message: unknown): readonly unknown[] => (isObject(message) ? listOf(message.content) : []);

function madeBlocks(message: unknown, keeps_unsigned: boolean): readonly number[] {
  if (!isObject(message) || message.role !== 'assistant') return [];
  return contentOf(message).flatMap((block, index) => {
    const unproven = isObject(block) ? unprovenBlock(block) : undefined;
    return unproven === 'made' || (unproven === 'unsigned' && !keeps_unsigned) ? [index] : [];
  });
}

function hasResults(message: unknown): boolean {
  return contentOf(message).some((block) => isObject(block) && block.type === 'tool_result');
}

/** The first block that stays; `made` counts up. */
function firstKept(blocks: readonly unknown[], made: readonly number[]): unknown {
  let index = 0;
  while (made[index] === index) index++;
  return blocks[index];
}

const isAssistant = (message: unknown): boolean => isObject(message) && message.role === 'assistant';

/**
 * Whether the model may think: after a question it may. After results of tools it may go on where the answer that called them
 * begins with a thought still, or nothing is lost since the last question. In an answer to a request that was kept from
 * thinking there is none, though the client knows nothing of that.
 */
function mayGoOn(messages: readonly unknown[], made: readonly (readonly number[])[]): boolean {
  let lost = false;
  let first: unknown;
  let at = messages.length;
  for (let answers = 0; at > 0; answers++) {
    // What the client says in a row is one message to providers, and may have instructions in it.
    let has_results = false;
    for (; at > 0 && !isAssistant(messages[at - 1]); at--) has_results ||= hasResults(messages[at - 1]);
    if (!has_results) break;
    for (; at > 0 && isAssistant(messages[at - 1]); at--) {
      lost ||= made[at - 1]!.length > 0;
      if (answers === 0) first = firstKept(contentOf(messages[at - 1]), made[at - 1]!) ?? first;
    }
  }
  return !lost || (isObject(first) && (first.type === 'thinking' || first.type === 'redacted_thinking'));
}

/** Edits of the context that leave out thoughts are refused where the model does not think. */
function clearings({ context_management }: Json): Path[] {
  const edits = isObject(context_management) ? listOf(context_management.edits) : [];
  return edits.flatMap((edit, index): Path[] => {
    const clears = isObject(edit) && typeof edit.type === 'string' && edit.type.startsWith('clear_thinking_');
    return clears ? [['context_management', 'edits', index]] : [];
  });
}

function findItems({ input }: Json): Found {
  const paths = listOf(input).flatMap((item, index): Path[] => {
    return isObject(item) && isMadeItem(item) ? [['input', index]] : [];
  });
  return { paths };
}
