import type { Response } from 'express';
import type { FeedEvent, LiveFeed } from '../../admin/requests/live-feed.ts';
import { jsonText } from '../../kit/text/printable.ts';

/** A sign of life at least as often, so that nothing on the way takes the connection for dead. */
const HEARTBEAT_MS = 3000;
/** A reader that takes so little that more than this waits for it is cut off; it comes back and goes on where it was. */
const WAITING_BYTES_MAX = 1_048_576;

/**
 * Sends events as they come (`text/event-stream`), until the reader leaves, the gateway stops, or whoever reads may no longer.
 * @param mayGoOn asked at each sign of life; raises where the credential is worth nothing any more.
 * Raises what keeps it from beginning.
 */
export async function sendFeed(
  res: Response,
  feed: LiveFeed,
  { headers, mayGoOn }: { readonly headers: Readonly<Record<string, string>>; mayGoOn(): Promise<unknown> },
): Promise<void> {
  const early: FeedEvent[] = [];
  let is_open = false;
  const write = ({ id, event, data }: FeedEvent) => {
    if (res.writableLength > WAITING_BYTES_MAX) res.destroy();
    else res.write(`id: ${id}\nevent: ${event}\ndata: ${jsonText(data)}\n\n`);
  };
  const end = () => void res.end();
  const stop = await feed.open({ send: (event) => (is_open ? write(event) : early.push(event)), end });
  if (res.destroyed) return stop();
  // Proxies that keep answers back to compress or collect them would keep this one for ever.
  res.writeHead(200, { ...headers, 'x-accel-buffering': 'no' });
  res.write(': begins\n\n');
  is_open = true;
  for (const event of early) write(event);
  const timer = setInterval(() => {
    res.write(':\n\n');
    mayGoOn().catch(() => {
      res.write('event: ended\ndata: {}\n\n');
      end();
    });
  }, HEARTBEAT_MS);
  timer.unref();
  await new Promise<void>((resolve) => res.once('close', resolve));
  clearInterval(timer);
  stop();
}
