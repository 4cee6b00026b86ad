import { setTimeout as delay } from 'node:timers/promises';
import { EVENT_STREAM, type Exchange, message, messageEvents } from '../../support/model-provider/scripted-upstream.ts';

/** Answers after a random while, as JSON or as a stream in pieces, so that a crash meets requests at every stage. */
export async function answerSlowly({ received, res }: Exchange): Promise<void> {
  const pause = () => delay(Math.random() * 40);
  await pause();
  if (!received.body.includes('"stream":true')) {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify(message()));
    return;
  }
  res.writeHead(200, EVENT_STREAM as string[]);
  for (const event of messageEvents()) {
    res.write(event);
    await pause();
  }
  res.end();
}
