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
  if (res.req.method === 'HEAD') return void res.writeHead(200, headers).end();
  const early: FeedEvent[] = [];
  let is_open = false;
  // What is written to an answer that has ended is an error nobody catches: a reader may take long for the end.
  const write = (text: string) => {
    if (res.writableLength > WAITING_BYTES_MAX) res.destroy();
    else if (!res.writableEnded && !res.destroyed) res.write(text);
  };
  const tell = ({ id, event, data }: FeedEvent) => write(`id: ${id}\nevent: ${event}\ndata: ${jsonText(data)}\n\n`);
  const end = () => void res.end();
  const stop = await feed.open({ send: (event) => (is_open ? tell(event) : early.push(event)), end });
  if (res.destroyed) return stop();
  // Proxies that keep answers back to compress or collect them would keep this one for ever.
  res.writeHead(200, { ...headers, 'x-accel-buffering': 'no' });
  write(': begins\n\n');
  is_open = true;
  for (const event of early) tell(event);
  const timer = setInterval(() => {
    // Whoever has not taken the end by now never will.
    if (res.writableEnded) return void res.destroy();
    write(':\n\n');
    mayGoOn().catch(() => {
      write('event: ended\ndata: {}\n\n');
      end();
    });
  }, HEARTBEAT_MS);
  timer.unref();
  await new Promise<void>((resolve) => res.once('close', resolve));
  clearInterval(timer);
  stop();
}
