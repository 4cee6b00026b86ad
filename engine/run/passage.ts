import type { Duplex } from 'node:stream';
import { StageError } from '../contract/errors.ts';
import type { ResponseConverter } from '../contract/stage.ts';
import type { UpstreamResponse } from '../contract/upstream-response.ts';
import { decompressor } from '../kit/decompressor.ts';
import { isEventStream, isPlain } from '../kit/media-type.ts';
import { definitionFor, keepAliveOf } from '../protocols/definitions.ts';
import { endsWithError } from '../protocols/read-error.ts';
import { endSaidIn } from '../protocols/stop-reasons.ts';
import type { RequestContext } from './context.ts';
import { makeConverter } from './conversion.ts';
import { behind, makeRewriter } from './rewriting/rewrite-answer.ts';
import type { UpstreamHead } from './upstream-head.ts';
import { WholeEvents } from './whole-events.ts';

/** The way of an upstream's bytes to the client. */
export interface Passage {
  /** Whether the head goes out before there are bytes for the client; otherwise the first of them bring it. */
  readonly head_first: boolean;
  write(chunk: Buffer): void;
  /** The upstream has ended: well, or behind what is whole, and then what it began to say is left out. */
  end(is_well: boolean): void;
  /** Whether the client has its end, which may be an error, should nothing more come, however the upstream ends it. */
  hasEnd(): boolean;
  /** The client takes nothing more for now. */
  pause(): void;
  resume(): void;
  /** Tells the client that a silent stream is alive; absent where nothing can be added to the stream. */
  keepAlive?(): void;
  /** Lets go of what it holds; nothing is written any more. */
  close(): void;
}

/** Where a passage leads, and whom it tells. */
export interface PassageEnds {
  send(bytes: Buffer | string): void;
  /** Everything was sent; `last` comes behind it. */
  done(last?: Buffer | string): void;
  /** The bytes could not be converted. */
  fail(error: unknown): void;
  /** Waits until `listen` is called back before more is taken from the upstream. */
  hold(listen: (resume: () => void) => void): void;
}

/**
 * Opens the way for a response whose head the `response` hooks have seen: through the converter that a stage wants, or as
 * the bytes are. Raises upstream_invalid for an encoding that cannot be converted, and what making the converter raises.
 */
export function openPassage(
  ctx: RequestContext,
  upstream: UpstreamResponse,
  head: UpstreamHead,
  ends: PassageEnds,
): Passage {
  const translator = makeConverter(ctx, head);
  const rewriter = makeRewriter(ctx, head);
  const converter = rewriter === undefined ? translator : behind(translator, rewriter);
  const inflate = converter && prepare(upstream.headers['content-encoding'], head);
  const to_events = isEventStream(head.get('content-type'));
  // Proxies before us that keep an answer until it is complete let a stream through for this, whatever the upstream's own say.
  if (to_events) head.set('x-accel-buffering', 'no');
  const events = to_events && isOpen(head) ? new WholeEvents(ends.send, ctx.room()) : undefined;
  if (events !== undefined) ctx.endEvents = (error) => endOf(ctx, events, converter, error);
  const from_events = isEventStream(upstream.headers['content-type']);
  const passage =
    converter === undefined
      ? plainPassage(events, ends)
      : convertingPassage(from_events ? converter : counted(ctx, converter), inflate, events, from_events, ends);
  const keep_alive = keepAliveOf(ctx.pipeline.spec.match.protocol);
  if (events === undefined || keep_alive === undefined) return passage;
  return {
    ...passage,
    keepAlive() {
      if (!events.inside) ends.send(keep_alive);
    },
  };
}

/** Whether events can be added to the end: compressed ones cannot be read, and a stated length would be exceeded. */
function isOpen(head: UpstreamHead): boolean {
  return isPlain(head.get('content-encoding')) && head.get('content-length') === undefined;
}

/** Takes off the head what no longer holds of converted bytes. */
function prepare(encoding: string | undefined, head: UpstreamHead): Duplex | undefined {
  head.remove('content-length');
  if (isPlain(encoding)) return undefined;
  const inflate = decompressor(encoding!);
  if (inflate === undefined) {
    const problem =
      'The upstream compressed its answer in a way the gateway cannot read, although it was asked not to.';
    throw new StageError('upstream_invalid', problem);
  }
  head.remove('content-encoding');
  return inflate;
}

function endOf(
  ctx: RequestContext,
  { inside, latest }: WholeEvents,
  converter: ResponseConverter | undefined,
  error: StageError,
): string {
  // What was broken off inside an event ends there, and the client's parser begins anew.
  const between = inside ? '\n\n' : '';
  try {
    const own = converter?.fail?.(error);
    if (own !== undefined) return between + own;
  } catch {
    // The converter is what failed; the engine's own words do as well.
  }
  const { protocol } = ctx.pipeline.spec.match;
  const sequence_number = protocol === 'responses' ? nextNumber(latest.toString()) : 0;
  const stream = {
    request_id: ctx.peek('request.id')!,
    model: ctx.peek('request.model') ?? '',
    created_at: Math.floor(ctx.peek('request.received_at')! / 1000),
    sequence_number,
  };
  return between + definitionFor(protocol, ctx).errors.breakOff(error, stream);
}

/** The number that follows the last event of a Responses stream. Inside texts of a model the quotes would be escaped. */
function nextNumber(events: string): number {
  const last = events.lastIndexOf('"sequence_number":');
  return last < 0 ? 0 : 1 + Number.parseInt(events.slice(last + '"sequence_number":'.length), 10) || 0;
}

/** A converter that keeps a whole document, whose bytes are counted. Raises overloaded where they have no room. */
function counted(ctx: RequestContext, converter: ResponseConverter): ResponseConverter {
  const room = ctx.room();
  let size = 0;
  return {
    ...converter,
    write(chunk) {
      size += chunk.length;
      if (!room.hold(size)) throw noRoom();
      return converter.write(chunk);
    },
  };
}

function noRoom(): StageError {
  const problem = 'The gateway has no room for the answer, which it must hold as a whole to change it.';
  return new StageError('overloaded', problem, { headers: { 'retry-after': '1' } });
}

/** Whether the events that were let through last say that the answer is whole, or what went wrong with it. */
function saysEnd(events: WholeEvents | undefined): boolean {
  if (events === undefined || events.inside) return false;
  const { latest } = events;
  return endSaidIn(latest) === 'whole' || endsWithError(latest);
}

function plainPassage(events: WholeEvents | undefined, { send, done }: PassageEnds): Passage {
  return {
    head_first: true,
    write: events === undefined ? send : (chunk) => events.push(chunk),
    end(is_well) {
      if (is_well) events?.end();
      done();
    },
    hasEnd: () => saysEnd(events),
    pause() {},
    resume() {},
    close() {},
  };
}

function convertingPassage(
  converter: ResponseConverter,
  inflate: Duplex | undefined,
  events: WholeEvents | undefined,
  from_events: boolean,
  ends: PassageEnds,
): Passage {
  let over = false;
  let is_well = true;
  const attempt = (convert: () => Buffer | string): Buffer | string | undefined => {
    try {
      return convert();
    } catch (error) {
      over = true;
      ends.fail(error);
      return undefined;
    }
  };
  const emit = (bytes: Buffer | string | undefined) => {
    if (bytes === undefined || bytes.length === 0) return;
    if (events === undefined) ends.send(bytes);
    else if (typeof bytes === 'string') events.pushText(bytes);
    else events.push(bytes);
  };
  const convert = (chunk: Buffer) => {
    if (!over) emit(attempt(() => converter.write(chunk)));
  };
  const finish = () => {
    if (over) return;
    const last = attempt(() => converter.end());
    if (last === undefined) return;
    if (events === undefined) return ends.done(last);
    emit(last);
    if (is_well) events.end();
    ends.done();
  };
  inflate?.on('data', convert).on('end', finish);
  inflate?.on('error', () => {
    if (over) return;
    over = true;
    ends.fail(new StageError('upstream_invalid', 'The upstream compressed its answer wrongly; it cannot be read.'));
  });
  return {
    head_first: from_events && events !== undefined,
    write(chunk) {
      if (inflate === undefined) convert(chunk);
      else if (!over && !inflate.write(chunk)) ends.hold((resume) => inflate.once('drain', resume));
    },
    end(well) {
      is_well = well;
      if (inflate === undefined) finish();
      else inflate.end();
    },
    hasEnd: () => !over && (converter.hasEnd?.() ?? saysEnd(events)),
    pause: () => void inflate?.pause(),
    resume: () => void inflate?.resume(),
    close() {
      over = true;
      inflate?.destroy();
    },
  };
}
