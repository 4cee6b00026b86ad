import { encodeRequest } from './otlp/codec.ts';
import { type KeyValue, listOf, type Message, POINT_HOLDERS, SHAPES, type Signal } from './otlp/messages.ts';
import type { Permitted } from './permitted.ts';

/** A piece of an export request that can be sent by itself. */
export interface OutgoingPiece {
  /** In protobuf. Pieces of one signal after one another are one request. */
  readonly bytes: Buffer;
  /** Spans, data points or log records. */
  readonly items: number;
}

/** Items in one piece, and points of metrics, so that making one takes some milliseconds. */
const PIECE_ITEMS = 64;
const PIECE_POINTS = 512;

/** What of a request may go to a destination, piece by piece, with `caller` on every resource. */
export function* outgoingPieces(
  signal: Signal,
  request: Message,
  permitted: Permitted,
  caller: readonly KeyValue[],
): Generator<OutgoingPiece> {
  const { groups, scopes, items } = SHAPES[signal];
  for (const group of listOf(request, groups)) {
    const owner = permitted.owner(group.resource as Message | undefined);
    const resource = { ...owner, attributes: [...listOf<KeyValue>(owner, 'attributes'), ...caller] };
    for (const part of listOf(group, scopes)) {
      const scope = permitted.owner(part.scope as Message | undefined);
      for (const some of slices(signal, listOf(part, items))) {
        const kept = some.map((item) => permitted.item(signal, item)).filter((item) => item !== undefined);
        const count = signal === 'metrics' ? points(kept) : kept.length;
        if (count === 0) continue;
        const piece = {
          [groups]: [
            {
              ...permitted.texts({ schemaUrl: group.schemaUrl ?? '' }),
              resource,
              [scopes]: [{ ...permitted.texts({ schemaUrl: part.schemaUrl ?? '' }), scope, [items]: kept }],
            },
          ],
        };
        yield { bytes: encodeRequest(signal, piece), items: count };
      }
    }
  }
}

/** Items in the pieces they are sent in. */
function* slices(signal: Signal, items: readonly Message[]): Generator<readonly Message[]> {
  let slice: Message[] = [];
  let weight = 0;
  for (const item of items) {
    for (const one of signal === 'metrics' ? withFewPoints(item) : [item]) {
      slice.push(one);
      weight += signal === 'metrics' ? points([one]) : 0;
      if (slice.length < PIECE_ITEMS && weight < PIECE_POINTS) continue;
      yield slice;
      slice = [];
      weight = 0;
    }
  }
  if (slice.length > 0) yield slice;
}

/** A metric as several of the same, none of which has more points than a piece may have. */
function withFewPoints(metric: Message): readonly Message[] {
  for (const holder of POINT_HOLDERS) {
    const all = listOf(metric[holder], 'dataPoints');
    if (all.length <= PIECE_POINTS) continue;
    return Array.from({ length: Math.ceil(all.length / PIECE_POINTS) }, (_, at) => {
      const dataPoints = all.slice(at * PIECE_POINTS, (at + 1) * PIECE_POINTS);
      return { ...metric, [holder]: { ...(metric[holder] as Message), dataPoints } };
    });
  }
  return [metric];
}

function points(metrics: readonly Message[]): number {
  let count = 0;
  for (const metric of metrics)
    for (const holder of POINT_HOLDERS) count += listOf(metric[holder], 'dataPoints').length;
  return count;
}

/** How many spans, data points or log records a request has. */
export function itemsIn(signal: Signal, request: Message): number {
  const { groups, scopes, items } = SHAPES[signal];
  let count = 0;
  for (const group of listOf(request, groups)) {
    for (const part of listOf(group, scopes)) {
      const all = listOf(part, items);
      count += signal === 'metrics' ? points(all) : all.length;
    }
  }
  return count;
}
