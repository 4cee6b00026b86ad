import { createHash } from 'node:crypto';
import type { SelfCheckOutcome } from '../check.ts';
import { outcomeOfFaults } from '../compat-request.ts';
import type { Echo } from '../echo/echo.ts';
import { fieldsOf } from '../read-answer.ts';
import type { Subject } from '../subject.ts';
import { type BodyComparison, compareBodies, type Difference } from './compare-bodies.ts';
import { type Forwarded, forward, isExplicitRefusal, notForwarded } from './forward.ts';
import { probeBody } from './probe-body.ts';

/** A request with all its bytes, and what arrived of them. */
interface Compared {
  readonly forwarded: Forwarded;
  readonly sent: string;
  /** `undefined` where nothing arrived. */
  readonly comparison: BodyComparison | undefined;
}

const compared = new WeakMap<Subject, Promise<Compared>>();

/** The one request that three checks look at. */
function compare(subject: Subject, echo: Echo): Promise<Compared> {
  let known = compared.get(subject);
  if (known === undefined) {
    known = sendBody(subject, echo);
    compared.set(subject, known);
  }
  return known;
}

async function sendBody(subject: Subject, echo: Echo): Promise<Compared> {
  let sent = '';
  const prefix = subject.header_prefixes.at(-1) ?? 'vendor';
  const body = (text: string) => {
    sent = probeBody({ model: subject.model ?? '', text, prefix });
    return sent;
  };
  const forwarded = await forward(subject, echo, { body, note: 'with fields nobody knows' });
  const { received } = forwarded;
  return { forwarded, sent, comparison: received && compareBodies(sent, received.body) };
}

const isOfSystem = ({ path }: Difference) => /^system(?:[.[]|$)/.test(path);
/** A gateway may call a model otherwise at its upstream. */
const isOfModel = ({ path }: Difference) => path === 'model';
const isOfMetadata = ({ path }: Difference) => /^metadata(?:\.|$)/.test(path);
/** What clients and caches notice at most. */
const isLesser = (each: Difference) => isOfMetadata(each) || each.lost_digits === true || each.put_in_on_top === true;
const tell = ({ path, is }: Difference) => `${path} ${is}`;

/** Whether fields arrive, known or not, or unknown ones are refused by name. */
export async function checkFields(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const { forwarded, comparison } = await compare(subject, echo);
  if (isExplicitRefusal(forwarded) && forwarded.answer.text.includes('selfcheck_unknown')) {
    return { verdict: 'ok', found: 'fields that are not known are refused by name', ...forwarded.travelled };
  }
  if (comparison === undefined) return notForwarded(forwarded)!;
  if (comparison.unreadable) return unreadable(forwarded);
  const others = comparison.differences.filter((each) => !isOfSystem(each) && !isOfModel(each));
  return outcomeOfFaults(forwarded, {
    good: 'all fields arrive as they were sent, also those nobody knows',
    faults: others
      .filter((each) => !isLesser(each))
      .map(tell)
      .slice(0, 5),
    lesser: others.filter(isLesser).map(tell).slice(0, 2),
    remedy:
      'have the gateway pass the body on as it is: new clients send fields that no gateway knows yet, and a changed prompt is not found in the cache',
    details: comparison.differences.filter(isOfModel).map(({ is }) => `the model ${is}, which a gateway may do`),
  });
}

function unreadable({ travelled }: Forwarded): SelfCheckOutcome {
  return {
    verdict: 'failed',
    found: 'what arrives at the upstream is no JSON object',
    remedy: 'have the gateway, and what is between it and its upstream, pass the body on as it is',
    ...travelled,
  };
}

/** Whether the blocks of `system` keep their order, kinds and fields, with nothing before the attribution block. */
export async function checkSystem(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const { forwarded, comparison, sent } = await compare(subject, echo);
  if (comparison === undefined)
    return isExplicitRefusal(forwarded) ? refusedWhole(forwarded) : notForwarded(forwarded)!;
  if (comparison.unreadable) return unreadable(forwarded);
  const { faults, lesser } = systemFaults(sent, forwarded.received!.body, comparison.differences.filter(isOfSystem));
  return outcomeOfFaults(forwarded, {
    good: 'the blocks of "system" arrive in their order, the attribution block first',
    faults,
    lesser,
    remedy:
      'have the gateway leave "system" as it is, and give the prompts of an organisation to clients by managed policies',
  });
}

function refusedWhole({ travelled }: Forwarded): SelfCheckOutcome {
  return {
    verdict: 'skipped',
    found: 'the request was refused for its unknown fields: see forwarding.fields',
    ...travelled,
  };
}

function systemFaults(
  sent: string,
  came: Buffer,
  differences: readonly Difference[],
): { faults: string[]; lesser: string[] } {
  if (differences.length === 0) return { faults: [], lesser: [] };
  const before = blocksOf(sent);
  const after = blocksOf(came.toString());
  if (!Array.isArray(after)) return { faults: ['"system" was merged into one text'], lesser: [] };
  if (after.length === before!.length) return { faults: sameLengthFaults(before!, after, differences), lesser: [] };
  const places = placesOf(before!, after);
  if (places === undefined)
    return { faults: [`blocks of "system" were changed: ${tell(differences[0]!)}`], lesser: [] };
  const first = places[0]!;
  return first > 0
    ? { faults: [`${first} ${first === 1 ? 'block was' : 'blocks were'} put before the attribution block`], lesser: [] }
    : { faults: [], lesser: ['a block was put behind the attribution block: that has to be in the audit log'] };
}

function sameLengthFaults(
  before: readonly string[],
  after: readonly string[],
  differences: readonly Difference[],
): string[] {
  const is_sorted = [...before].sort().join() === [...after].sort().join();
  return is_sorted ? ['the blocks of "system" are in another order'] : differences.map(tell).slice(0, 3);
}

/** Each block of `system` as text that does not depend on how it is written; `undefined` where there is no list. */
function blocksOf(json: string): string[] | undefined {
  const { system } = fieldsOf(JSON.parse(json));
  return Array.isArray(system) ? system.map((block) => JSON.stringify(sorted(block))) : undefined;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort()
      .map(([key, below]) => [key, sorted(below)]),
  );
}

/** Where the blocks that were sent are among those that arrived; `undefined` where not all are there in their order. */
function placesOf(before: readonly string[], after: readonly string[]): number[] | undefined {
  const places: number[] = [];
  for (const block of before) {
    const place = after.indexOf(block, (places.at(-1) ?? -1) + 1);
    if (place < 0) return undefined;
    places.push(place);
  }
  return places;
}

const digest = (body: string | Buffer) => createHash('sha256').update(body).digest('hex');

/** Whether the body arrives byte for byte, but for the name of the model. */
export async function checkBytes(subject: Subject, echo: Echo): Promise<SelfCheckOutcome> {
  const { forwarded, comparison, sent } = await compare(subject, echo);
  if (comparison === undefined)
    return isExplicitRefusal(forwarded) ? refusedWhole(forwarded) : notForwarded(forwarded)!;
  const came = forwarded.received!.body;
  const { same_bytes, differences, rewritten, unreadable: is_unreadable } = comparison;
  const is_mapped = !same_bytes && isOnlyMapped(sent, came, subject.model ?? '');
  const is_good = same_bytes || is_mapped;
  const other = differences.find((each) => !isOfModel(each));
  const how = rewritten.length === 0 ? '' : `: ${rewritten[0]}`;
  const fault =
    other === undefined
      ? `the content is the same, but it was written anew${how}`
      : `the content is not the same: ${tell(other)}`;
  return outcomeOfFaults(forwarded, {
    good: `${came.length} bytes arrive as they were sent${is_mapped ? ', but for the name of the model' : ''}`,
    faults: is_unreadable ? ['what arrives is no JSON object'] : [],
    lesser: is_good || is_unreadable ? [] : [fault],
    remedy:
      'have the gateway forward the bytes it received: the order of keys is a part of prompts, and a cache finds only what is the same',
    details: [
      `SHA-256 of what was sent: ${digest(sent)}`,
      ...(same_bytes ? [] : [`SHA-256 of what arrived: ${digest(came)}`]),
      ...(is_good ? [] : rewritten.slice(1, 4).map((way) => `also changed: ${way}`)),
    ],
  });
}

/** Whether nothing but the name of the model was put in the place of another. */
function isOnlyMapped(sent: string, came: Buffer, model: string): boolean {
  const [before = '', behind = ''] = sent.split(JSON.stringify(model), 2);
  const text = came.toString();
  const name = text.slice(before.length, text.length - behind.length);
  return text.startsWith(before) && text.endsWith(behind) && /^"[^"\\]*"$/.test(name);
}
