/** A real browser reads the gateway's responses on pages of listed origins, and nothing elsewhere. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { PACKAGE_ROOT } from '../../../engine/base/kit/package-root.ts';
import { bootGateway, serverSection } from '../../support/gateway.ts';
import { useBrowser } from '../../support/identity/browser.ts';
import { answerChunks, messageEvents, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { use } from '../../support/use.ts';
import { messagesBody } from '../support/client.ts';

const browser = useBrowser();
const site = createServer(async ({ url = '' }, res) => {
  const module = /^\/openai\/([\w/-]+\.m?js)$/.exec(url)?.[1];
  const file = module && (await readFile(join(PACKAGE_ROOT, 'node_modules/openai', module)).catch(() => undefined));
  if (module !== undefined && file === undefined) return void res.writeHead(404).end();
  res.setHeader('content-type', file ? 'text/javascript' : 'text/html').end(file ?? '<title>chat</title>');
});
const port = await ownPort(site);
/** The same page, at an origin that is listed and at one that is not. */
const listed = `http://localhost:${port}`;
const other = `http://127.0.0.1:${port}`;
const cors = { origins: [listed] };
const upstream = use(() => startUpstream(answerChunks(messageEvents())));
const gateway = use(() =>
  bootGateway({ upstream_url: upstream.url, config: { server: { ...serverSection({}), cors } } }),
);

async function visit(origin: string): Promise<Page> {
  const { page } = await browser.open();
  await page.goto(`${origin}/`);
  return page;
}

/** Sends a request as a script of the page does, and returns what the script can read. */
function fetchFrom(page: Page, token: string) {
  const input = { url: `${gateway.url}/v1/messages`, token, body: messagesBody({ stream: true }) };
  return page.evaluate(async ({ url, token, body }) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}`, 'x-app': 'page' };
    try {
      const response = await fetch(url, { method: 'POST', headers, body });
      return { status: response.status, id: response.headers.get('x-gateway-request-id'), text: await response.text() };
    } catch (error) {
      return { failed: (error as Error).name };
    }
  }, input);
}

test('a page of a listed origin streams, and reads an error with its request id', async () => {
  const page = await visit(listed);
  const served = await fetchFrom(page, gateway.token);
  assert.equal(served.status, 200);
  assert.match(served.text ?? '', /message_stop/);
  const refused = await fetchFrom(page, 'gw_nonsense');
  assert.equal(refused.status, 401);
  assert.match(refused.text ?? '', /malformed/);
  for (const { id } of [served, refused]) assert.match(id ?? '', /^[0-9a-f-]{36}$/);
});

test('a page of another origin reads nothing', async () => {
  assert.deepEqual(await fetchFrom(await visit(other), gateway.token), { failed: 'TypeError' });
});

test('an official SDK streams in a page of a listed origin', async () => {
  const page = await visit(listed);
  const said = await page.evaluate(
    async ({ baseURL, apiKey, module }) => {
      const { default: OpenAI } = await import(module);
      const client = new OpenAI({ baseURL, apiKey, dangerouslyAllowBrowser: true });
      const messages = [{ role: 'user', content: 'Say hello.' }];
      const stream = await client.chat.completions.create({ model: 'coder-1', messages, stream: true });
      let text = '';
      for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? '';
      return text;
    },
    { baseURL: `${gateway.url}/v1`, apiKey: gateway.token, module: `${listed}/openai/index.mjs` },
  );
  assert.equal(said, 'Hello there.');
});
