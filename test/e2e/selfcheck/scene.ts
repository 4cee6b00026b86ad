/** Our own gateway as `appscli selfcheck` sees it, with an upstream of its own for each model, so that checks may run side by side. */
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { cli } from '../../cli/support.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway, type ConfigSections, ONE_ATTEMPT } from '../../support/gateway.ts';

export type Scene = Awaited<ReturnType<typeof openScene>>;

export type Report = Awaited<ReturnType<Scene['check']>>;

interface CheckOptions {
  readonly base_url?: string;
  readonly arguments?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

type ModelUpstream = Readonly<Record<string, unknown>>;

export const UPSTREAMS = {
  messages: {
    type: 'vendor',
    api_key_env: 'TEST_UPSTREAM_KEY',
    profile: 'anthropic',
    supports: { prompt_cache_1h: true, count_tokens: true },
  },
  chat: { type: 'compat', protocols: ['chat'], auth_token_env: 'TEST_UPSTREAM_KEY' },
  responses: { type: 'compat', protocols: ['responses'], auth_token_env: 'TEST_UPSTREAM_KEY' },
} as const satisfies Readonly<Record<string, ModelUpstream>>;

const PRICING = { input: 3, output: 15 };

export async function openScene(
  models: Readonly<Record<string, keyof typeof UPSTREAMS>>,
  sections: ConfigSections = {},
) {
  const ports = new Map<string, number>();
  for (const model of Object.keys(models)) ports.set(model, await freePort());
  const upstreams = Object.entries(models).map(([model, protocol]) => ({
    name: `of-${model}`,
    base_url: `http://127.0.0.1:${ports.get(model)}${protocol === 'messages' ? '' : '/v1'}`,
    ...UPSTREAMS[protocol],
    ...ONE_ATTEMPT,
  }));
  const gateway = await bootGateway({
    upstream_url: upstreams[0]!.base_url,
    config: {
      upstreams,
      models: Object.keys(models).map((id) => ({ id, max_output_tokens: 64_000, pricing: PRICING })),
      routing: {
        default_upstream: upstreams[0]!.name,
        rules: Object.keys(models).map((model) => ({ name: model, models: [model], upstream: `of-${model}` })),
      },
      ...sections,
    },
  });
  return {
    gateway,
    /** Runs `appscli selfcheck` with the upstream of this model, at the gateway or at something in front of it. */
    async check(model: string, { base_url = gateway.url, arguments: more = [], env = {} }: CheckOptions = {}) {
      const where = ['--base-url', base_url, '--token-env', 'TEST_TOKEN', '--model', model];
      const echo = ['--echo', `127.0.0.1:${ports.get(model)}`];
      // How often one caller may query the arrival of requests is limited.
      const token = await gateway.newToken({ user: `${model}@example.com` });
      // Programs of coding clients that are installed here stay out of it.
      const around = { ...process.env, PATH: '/nowhere', TEST_TOKEN: token, ...env };
      const ended = await cli(['selfcheck', ...where, ...echo, '--json', ...more], { env: around });
      const results = (JSON.parse(ended.stdout) as { checks: CheckResult[] }).checks;
      const checks = new Map(results.map((result) => [result.id, result]));
      const having = (verdict: CheckResult['verdict']) =>
        results.filter((result) => result.verdict === verdict).map(({ id }) => id);
      if (`${ended.stdout}${ended.stderr}`.includes(token)) throw new Error('the report holds the token');
      return { ...ended, checks, having };
    },
    close: () => gateway.close(),
  };
}
