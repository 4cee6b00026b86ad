import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { printable } from '../../engine/base/kit/text/printable.ts';
import { selfcheck } from '../../engine/edge/cli/selfcheck.ts';
import type { SelfCheck } from '../../engine/edge/selfcheck/check.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import { collectingTerminal } from '../cli/support.ts';
import { HTTP_HARM, startHostile, TCP_HARM } from './hostile-gateways.ts';

const TOKEN = 'gw_never/told+to=Zx8qWv3R%20else';
const SECONDS = 0.5;

const CARELESS: SelfCheck = {
  id: 'messages.careless',
  title: 'An answer',
  expected: 'a message',
  uses: { input: 10, output: 10 },
  async run(subject) {
    const { status, headers, body, ending } = await subject.ask({
      path: '/v1/messages',
      json: { model: subject.model },
    });
    const text = body.toString();
    const all = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    return {
      verdict: 'failed',
      found: text,
      came: `${status} ${ending} ${text}`,
      remedy: text,
      details: [...all, text],
    };
  },
};

/** The whole terminal output, before the terminal filters it. */
async function check(base_url: string, model: string | undefined) {
  const said: string[] = [];
  const keep = (text: string) => void said.push(text);
  const { terminal } = collectingTerminal();
  const context = {
    terminal: { ...terminal, data: keep, info: keep, verbatim: keep },
    env: { TOKEN, PATH: '' },
    stages: async () => [],
  };
  const input = { baseUrl: base_url, tokenEnv: 'TOKEN', maxUsd: 1, timeout: SECONDS };
  const exit_code = await selfcheck(context, { ...input, ...(model && { model }), verbose: true }, [
    CARELESS,
    ...CHECKS,
  ]);
  return { exit_code, said: said.join('') };
}

describe('a self-check of a gateway that', { concurrency: 6 }, () => {
  for (const harm of [...Object.keys(HTTP_HARM), ...Object.keys(TCP_HARM)]) {
    it(`${harm} ends, fails, and shows neither the token anywhere nor anything to the terminal`, async () => {
      const gateway = await startHostile(harm);
      try {
        const { exit_code, said } = await check(
          gateway.url,
          harm === 'lists the token as a model' ? undefined : 'coder-1',
        );
        assert.ok([1, 69].includes(exit_code), `exit code ${exit_code}`);
        assert.equal(said, printable(said));
        assert.ok(!said.includes(TOKEN) && !said.includes(encodeURIComponent(TOKEN)) && !/zx8qwv3r/i.test(said));
        assert.ok(said.length < 200_000, `${said.length} characters`);
        assert.equal(gateway.elsewhere(), 0);
      } finally {
        gateway.close();
      }
    });
  }
});
