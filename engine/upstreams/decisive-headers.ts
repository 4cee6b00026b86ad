import type { IncomingHttpHeaders } from 'node:http';

/**
 * Request headers that choose who serves or pays, or that say on whose behalf and from where a request came, as proxies and
 * sign-ins in front of the gateway do. They are dropped on the way to an upstream, unless its `allow_headers` lists them: clients
 * send some of them by habit, and without them a request is charged to the account of the upstream's credential, which is what the
 * operator chose; the way to the gateway is not the way to the upstream, whose router or server would go by it.
 */
export interface DecisiveHeaders {
  /** A whole name, or how names begin when it ends with `*`; lower case. */
  readonly name: string;
  readonly decides: 'model' | 'price' | 'account' | 'route' | 'origin';
  readonly meaning: string;
  readonly source: string;
}

const row = (name: string, decides: DecisiveHeaders['decides'], meaning: string, source: string): DecisiveHeaders => ({
  name,
  decides,
  meaning,
  source,
});

const rows = (
  names: string,
  decides: DecisiveHeaders['decides'],
  meaning: string,
  source: string,
): readonly DecisiveHeaders[] => names.split(' ').map((name) => row(name, decides, meaning, source));

const ADDRESS = 'the address from which the request came';
const PERSON = 'who asks, as a sign-in in front of the gateway says';
const CERTIFICATE = 'the certificate of the client, as a proxy in front of the gateway saw it';
const HOST = 'the host that is served';
const SCHEME = 'the scheme by which the request came';

/** Every request header that is known to do so, the caller's own credential apart. */
export const DECISIVE_HEADERS: readonly DecisiveHeaders[] = [
  row('cookie', 'account', 'a session at the upstream, and with it somebody', 'RFC 6265'),
  row('cookie2', 'account', 'a session at the upstream, and with it somebody', 'RFC 2965'),
  row('api-key', 'account', 'a credential', 'Azure OpenAI reference'),
  row('ocp-apim-subscription-key', 'account', 'a credential', 'Azure API Management'),
  row('x-goog-api-key', 'account', 'a credential', 'Gemini API reference'),
  row('x-goog-user-project', 'account', 'the project that pays', 'Google Cloud, quota project'),
  row('x-amz-security-token', 'account', 'a credential', 'AWS signature version 4'),
  row('x-auth-token', 'account', 'a credential', 'several self-hosted servers'),
  row('openai-organization', 'account', 'the organization that pays', 'OpenAI API reference, authentication'),
  row('openai-project', 'account', 'the project that pays', 'OpenAI API reference, authentication'),
  row('chatgpt-account-id', 'account', 'the account that pays', 'coding CLI, signed in'),
  row('anthropic-workspace-id', 'account', 'the workspace that pays', 'Messages API reference, create a message'),
  row('anthropic-user-profile-id', 'account', 'for whom it is, and who may pay', 'Messages API reference'),
  row('x-vertex-ai-llm-*', 'price', 'the capacity that serves the request', 'Vertex AI, consumption options'),
  row('x-amzn-bedrock-*', 'price', 'service tier and latency', 'Amazon Bedrock, InvokeModel'),
  row('azureml-model-deployment', 'model', 'the deployment of a model', 'Azure Machine Learning, online endpoints'),
  row('x-ms-model-mesh-model-name', 'model', 'the model', 'Azure AI model inference'),
  row('x-openrouter-*', 'route', 'settings of a router', 'OpenRouter API reference'),
  row('x-portkey-*', 'route', 'target, credential and retries of a router', 'Portkey documentation, headers'),
  row('helicone-*', 'route', 'target, fallbacks and model of a router', 'Helicone documentation, header directory'),
  row('cf-aig-*', 'route', 'credential, cost and retries of a router', 'Cloudflare AI Gateway, headers'),
  row('x-litellm-*', 'route', 'routing tags and customer of a router', 'LiteLLM proxy, request headers'),
  row('x-pass-*', 'route', 'headers that a router passes on', 'LiteLLM proxy, forward client headers'),
  row('x-bf-*', 'route', 'credential and target of a router', 'Bifrost documentation'),
  row('x-tfy-*', 'route', 'target of a router', 'TrueFoundry AI Gateway'),
  row('x-original-url', 'route', 'the path that is served', 'Internet Information Services, ASP.NET; Symfony'),
  row('x-original-uri', 'route', 'the path that is served', 'nginx, authentication by subrequest'),
  row('x-rewrite-url', 'route', 'the path that is served', 'Internet Information Services, URL rewriting'),
  row('x-forwarded-uri', 'route', 'the path that is served', 'Traefik and Caddy, forwarded authentication'),
  row('x-forwarded-path', 'route', 'the path that is served', 'Kong, proxy headers'),
  row('x-http-method*', 'route', 'the method that is served', 'several web frameworks, method override'),
  row('x-method-override', 'route', 'the method that is served', 'several web frameworks, method override'),
  row(
    'x-envoy-original-*',
    'route',
    'the host or path that is served',
    'Envoy, original destination and path rewriting',
  ),
  row(
    'x-envoy-*',
    'route',
    'retries and time limits, and from where the request came',
    'Envoy, HTTP header manipulation',
  ),
  row(
    'x-forwarded-*',
    'route',
    `${HOST}, its scheme, port and prefix, and ${ADDRESS}`,
    'reverse proxies (MDN, X-Forwarded-*)',
  ),
  ...rows('forwarded forwarded-for x-forwarded', 'route', `${HOST}, and ${ADDRESS}`, 'RFC 7239 and what was before it'),
  row('x-original-*', 'route', `${HOST}, or ${ADDRESS}`, 'ingress-nginx; ASP.NET, forwarded headers'),
  ...rows(
    'x-host x-http-host x-http-host-override x-host-override x-proxy-host proxy-host x-request-host x-target-host x-backend-host x-upstream-host x-destination-host',
    'route',
    HOST,
    'several proxies and web frameworks',
  ),
  ...rows('x-scheme x-url-scheme front-end-https', 'route', SCHEME, 'ingress-nginx; Internet Information Services'),
  ...rows(
    'x-script-name script-name x-base-path',
    'route',
    'the prefix of what is served',
    'WSGI servers behind a proxy',
  ),
  ...rows(
    'x-forward-for x-real-ip x-real-port x-client-ip client-ip x-cluster-client-ip x-originating-ip x-remote-ip x-remote-addr',
    'origin',
    ADDRESS,
    'reverse proxies and balancers',
  ),
  ...rows('true-client-ip akamai-* x-akamai-*', 'origin', ADDRESS, 'Akamai; Cloudflare'),
  ...rows('proxy-client-ip wl-proxy-* x-proxyuser-ip', 'origin', ADDRESS, 'WebLogic and other application servers'),
  row('cf-*', 'origin', `${ADDRESS}, its country, and who asks`, 'Cloudflare, HTTP headers; Cloudflare Access'),
  ...rows(
    'fastly-* fly-* cloudfront-* x-vercel-* x-nf-* do-connecting-ip ali-cdn-real-ip incap-client-ip',
    'origin',
    ADDRESS,
    'Fastly, Fly.io, CloudFront, Vercel, Netlify, DigitalOcean, Alibaba Cloud, Imperva',
  ),
  ...rows('x-azure-* x-arr-* x-appengine-*', 'origin', ADDRESS, 'Azure Front Door and App Service; App Engine'),
  ...rows(
    'remote-user remote-groups remote-email remote-name x-remote-user x-remote-group x-remote-extra-* x-webauth-* x-auth-request-*',
    'account',
    PERSON,
    'Authelia, Kubernetes, Grafana, oauth2-proxy',
  ),
  ...rows(
    'x-authentik-* x-pomerium-* tailscale-user-* x-goog-iap-* x-goog-authenticated-user-* x-amzn-oidc-* x-ms-client-principal* x-ms-token-*',
    'account',
    PERSON,
    'authentik, Pomerium, Tailscale, Identity-Aware Proxy, Application Load Balancer, App Service',
  ),
  ...rows(
    'x-consumer-* x-anonymous-consumer x-authenticated-* x-credential-* x-userinfo x-user-info x-jwt-assertion x-jwt-payload x-token-payload',
    'account',
    PERSON,
    'Kong, Apache APISIX, WSO2, Envoy, Istio',
  ),
  ...rows(
    'client-cert client-cert-chain x-client-cert* ssl-client-* x-ssl-* x-amzn-mtls-*',
    'account',
    CERTIFICATE,
    'RFC 9440; nginx, Apache httpd, Application Load Balancer',
  ),
  row('x-orq-*', 'route', 'target of a router', 'orq.ai documentation'),
  row('ai-gateway-*', 'route', 'provider and credential of a router', 'Vercel AI Gateway'),
];

/** Headers whose names begin like decisive ones, and which only say who asks. */
const HARMLESS: ReadonlySet<string> = new Set(['x-openrouter-title', 'x-openrouter-categories']);

/** Words at the end of other names that choose an account, a model or a price. */
const DECISIVE_WORDS =
  /(?:^|-)(?:(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|model|deployment|fallbacks?|byok)(?:-(?:id|name|key|override|slug))?|(?:virtual|provider|api|secret)-?keys?|(?:service|price)-tier|speed-mode|service-level)$/;

const EXACT: ReadonlySet<string> = new Set(
  DECISIVE_HEADERS.map(({ name }) => name).filter((name) => !name.endsWith('*')),
);
const PREFIXES: readonly string[] = DECISIVE_HEADERS.map(({ name }) => name)
  .filter((name) => name.endsWith('*'))
  .map((name) => name.slice(0, -1));

/** How betas of the Messages protocol that lengthen the context window are written: `context-1m-2025-08-07`. */
const WINDOW_BETA = /^context-(\d{1,6})([km])(?![a-z\d])/;

const UNITS = { k: 1000, m: 1_000_000 } as const;

/** The longest context window that betas in these headers ask for, in tokens; `undefined` where they ask for none. */
export function windowAsked(headers: IncomingHttpHeaders): number | undefined {
  let longest: number | undefined;
  for (const name in headers) {
    if (!name.endsWith('-beta')) continue;
    for (const beta of String(headers[name]).split(',')) {
      const [, count, unit] = WINDOW_BETA.exec(beta.trim()) ?? [];
      if (count !== undefined) longest = Math.max(longest ?? 0, Number(count) * UNITS[unit as keyof typeof UNITS]);
    }
  }
  return longest;
}

/** Rows whose headers choose the path or the method that is served, whoever serves it. */
const OF_PATH = /\b(?:path|method)\b.* served$/;

/** Words at the end of names that choose an account, or whose credential. */
const ACCOUNT_WORDS =
  /(?:^|-)(?:organi[sz]ation|org|project|workspace|tenant|account|customer|billing|subscription|user-profile|cost-center|byok|(?:virtual|provider|api|secret)-?keys?)(?:-(?:id|name|key|override|slug))?$/;

/** What a header that is dropped decides, by its name in lower case; `undefined` for all others. */
export function decisionOf(name: string): DecisiveHeaders['decides'] | 'path' | undefined {
  if (!isDecisiveHeader(name)) return undefined;
  const known = DECISIVE_HEADERS.find((header) =>
    header.name.endsWith('*') ? name.startsWith(header.name.slice(0, -1)) : name === header.name,
  );
  if (known !== undefined) return OF_PATH.test(known.meaning) ? 'path' : known.decides;
  return ACCOUNT_WORDS.test(name) ? 'account' : 'model';
}

/** Headers of a body that the gateway may send in another form than it came. */
const OF_BODY: ReadonlySet<string> = new Set(['content-encoding', 'content-type']);

/**
 * Whether a request header, in lower case, chooses who serves or pays or says from where a request came, or is one in another
 * spelling that ends here or says what the body is.
 */
export function isDecisiveHeader(name: string): boolean {
  // Many servers take an underscore for a hyphen.
  const spelt = name.replaceAll('_', '-');
  return (
    !HARMLESS.has(spelt) &&
    ((spelt !== name && (ENDING_HERE.has(spelt) || OF_BODY.has(spelt))) ||
      EXACT.has(spelt) ||
      PREFIXES.some((prefix) => spelt.startsWith(prefix)) ||
      DECISIVE_WORDS.test(spelt))
  );
}

/** Headers that belong to one connection and never travel further (RFC 9110 section 7.6.1). */
export const CONNECTION_HEADERS: readonly string[] = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/**
 * Request headers that end here: those of the connection, the caller's credential, what is set anew, and the page that sent a
 * request, which some servers refuse although it is the gateway that asks them.
 */
export const ENDING_HERE: ReadonlySet<string> = new Set([
  ...CONNECTION_HEADERS,
  'authorization',
  'content-length',
  'expect',
  'host',
  'origin',
  'x-api-key',
]);

/**
 * Names that a Connection header adds to them, in lower case; none of those that describe the body, which are for whoever
 * reads it (RFC 9110 section 7.6.1).
 */
export function nominated(connection: string | string[] | undefined): readonly string[] {
  if (connection === undefined || connection === 'keep-alive' || connection === 'close') return [];
  return String(connection)
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => !name.startsWith('content-'));
}
