import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { StartError } from '../../contract/start-error.ts';
import { EXIT_FINDINGS, usageError } from '../exit-codes.ts';

const BYTES_MAX = 64 * 1024;

/** What a command can learn from whoever started it. */
export interface Input {
  /** Whether somebody is there to answer. */
  readonly answers: boolean;
  /** Asks, and returns the line that was typed; one that is `hidden` is not shown. Raises StartError when there is none. */
  line(question: string, hidden: boolean): Promise<string>;
  /** Everything on standard input. Raises StartError for more than 64 KiB. */
  all(): Promise<string>;
}

/** The process's own standard input; questions go to standard error. */
export function processInput(): Input {
  const answers = process.stdin.isTTY === true && process.stderr.isTTY === true;
  return {
    answers,
    async line(question, hidden) {
      process.stderr.write(question);
      const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
      const lines = createInterface({
        input: process.stdin,
        output: hidden ? nowhere : process.stderr,
        terminal: true,
      });
      try {
        return await new Promise<string>((resolve, reject) => {
          const stopped = () => reject(new StartError('stopped; nothing was written', { exit_code: EXIT_FINDINGS }));
          lines.once('line', resolve).once('close', stopped).once('SIGINT', stopped);
        });
      } finally {
        lines.close();
        process.stdin.pause();
        if (hidden) process.stderr.write('\n');
      }
    },
    async all() {
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > BYTES_MAX) {
          throw usageError('standard input holds more than 64 KiB, so it is no token');
        }
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString('utf8');
    },
  };
}
