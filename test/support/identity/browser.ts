import { after, afterEach, before } from 'node:test';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { findChromium } from './chromium.ts';

/** A page of a private window, and what happened in it. */
export interface Watched {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Console errors, uncaught errors and breaches of the content security policy. */
  readonly complaints: readonly string[];
  /** Every URL that was asked for, redirects included. */
  readonly requested: readonly string[];
}

/** One browser for the tests of a file. */
export interface TestBrowser {
  /** Opens a private window with a page; both are closed after the test. */
  open(options?: BrowserContextOptions): Promise<Watched>;
}

/** Patience with a busy machine; nothing waits this long when all is well. */
const PATIENCE_MS = 15_000;

async function watch(context: BrowserContext): Promise<Watched> {
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const complaints: string[] = [];
  const requested: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => requested.push(request.url()));
  return { page, context, complaints, requested };
}

/** Starts a real browser for the tests of a file. Each test has windows that share nothing with those of others. */
export function useBrowser(): TestBrowser {
  let browser: Browser | undefined;
  const contexts: BrowserContext[] = [];
  before(async () => {
    const { executable, env } = await findChromium();
    browser = await chromium.launch({ executablePath: executable, env: { ...process.env, ...env } });
  });
  afterEach(async () => {
    await Promise.all(contexts.splice(0).map((context) => context.close()));
  });
  after(() => browser?.close());
  return {
    async open(options = {}) {
      const context = await browser!.newContext({ locale: 'en-US', ...options });
      contexts.push(context);
      return watch(context);
    },
  };
}
