import { afterEach } from 'node:test';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium } from 'playwright-core';
import { atProcessEnd } from '../file-end.ts';
import { pageClock } from '../suite-clock.ts';
import { findChromium } from './chromium.ts';

/** A page of a private window, and its events. */
export type Watched = Awaited<ReturnType<typeof watch>>;

/** Timeout for a busy machine; nothing waits this long when all is well. */
const TIMEOUT_MS = 15_000;

async function watch(context: BrowserContext) {
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  /** Console errors, uncaught errors and breaches of the content security policy. */
  const complaints: string[] = [];
  const requested: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => requested.push(request.url()));
  return { page, context, complaints, requested };
}

let shared: Promise<Browser> | undefined;

async function launch(): Promise<Browser> {
  const { executable, env } = await findChromium();
  return chromium.launch({ executablePath: executable, env: { ...process.env, ...env } });
}

/** Closes the browser of this process where it is of no more use; otherwise it ends with the last test file. */
export async function closeBrowser(): Promise<void> {
  const browser = await shared?.catch(() => undefined);
  shared = undefined;
  await browser?.close();
}
atProcessEnd(closeBrowser);

/** A real browser for the tests of a file; the first that opens a window starts it. Tests have windows that share nothing. */
export function useBrowser() {
  const contexts: BrowserContext[] = [];
  afterEach(() => Promise.all(contexts.splice(0).map((context) => context.close())));
  return {
    async open(options: BrowserContextOptions = {}): Promise<Watched> {
      shared ??= launch();
      const context = await (await shared).newContext({ locale: 'en-US', ...options });
      contexts.push(context);
      await context.addInitScript(pageClock());
      return watch(context);
    },
  };
}
