/** People who work with a gateway, each asking one thing after the other. */
import { Agent, request } from 'node:http';
import { randomOf } from '../random.ts';

/** What came of one request. */
interface Asked {
  readonly ms: number;
  readonly status: number;
  readonly text: string;
}

/** What people met with. */
export interface Experience {
  /** How long each answer took, from the first byte sent to the last one received, in milliseconds. */
  readonly durations: readonly number[];
  /** What was not answered with 200. */
  readonly failures: readonly string[];
}

/** Sends requests in the name of each token for some seconds or so many times, with pauses in between as people make them. */
export async function askHonestly(options: {
  readonly url: string;
  readonly tokens: readonly string[];
  readonly seconds?: number;
  /** How often each asks. */
  readonly times?: number;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest pause between two requests of one person. */
  readonly pause_ms: number;
}): Promise<Experience> {
  const { url, tokens, seconds = Infinity, times = Infinity, body, headers = {}, pause_ms } = options;
  const random = randomOf('pauses of honest callers');
  const agent = new Agent({ keepAlive: true });
  const durations: number[] = [];
  const failures: string[] = [];
  const end = performance.now() + seconds * 1000;

  const ask = (token: string): Promise<Asked> =>
    new Promise((resolve) => {
      const started = performance.now();
      const settle = (status: number, text: string) => resolve({ ms: performance.now() - started, status, text });
      const req = request(`${url}/v1/messages`, {
        method: 'POST',
        agent,
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'content-length': body.length,
          ...headers,
        },
      });
      req.on('error', (error) => settle(0, String(error)));
      req.on('response', (res) => {
        let text = '';
        res.setEncoding('utf8').on('data', (part) => {
          if (text.length < 500) text += part;
        });
        res.on('end', () => settle(res.statusCode!, text)).on('error', (error) => settle(0, String(error)));
      });
      req.end(body);
    });

  await Promise.all(
    tokens.map(async (token) => {
      for (let asked = 0; asked < times && performance.now() < end; asked++) {
        const { ms, status, text } = await ask(token);
        if (status === 200) durations.push(ms);
        else failures.push(`${status}: ${text}`);
        await new Promise((resolve) => setTimeout(resolve, random() * pause_ms));
      }
    }),
  );
  agent.destroy();
  return { durations, failures };
}
