import type { Answer } from './read-answer.ts';

interface Product {
  readonly name: string;
  readonly server?: RegExp;
  /** Whether that server name is only in answers of its own, and not in those it passes on. */
  readonly only_own?: true;
  readonly page?: RegExp;
}

/** Who had a hand in an answer. */
export interface Maker {
  readonly name: string;
  /** Whether it made the answer itself, or may only have passed it on. */
  readonly is_own: boolean;
}

/** Proxies, load balancers and servers, with how their own pages are told. */
const PRODUCTS: readonly Product[] = [
  { name: 'Envoy', page: /^(upstream connect error|no healthy upstream|upstream request timeout)/ },
  {
    name: 'HAProxy',
    page: /<h1>\d{3} [\w ]+<\/h1>\s*(No server is available|The server didn't respond in time|The server returned an invalid|Your browser (sent|didn't send)|Request forbidden by administrative|You need a valid user)/,
  },
  { name: 'Varnish', page: /Guru Meditation/ },
  { name: 'Zscaler', page: /zscaler/i },
  { name: 'FortiGate', page: /fortiguard|fortigate/i },
  { name: 'F5 BIG-IP', page: /The requested URL was rejected\. Please consult/ },
  { name: 'Squid', page: /<!-- ERR_|squid-cache\.org/ },
  { name: 'nginx', page: /<hr><center>(nginx|openresty)/ },
  { name: 'Apache', page: /<address>Apache/ },
  { name: 'Amazon CloudFront', server: /^CloudFront/i, only_own: true },
  { name: 'AWS load balancer', server: /^awselb/i, only_own: true },
  { name: 'Azure Application Gateway', server: /^Microsoft-Azure-Application-Gateway/i, only_own: true },
  { name: 'Akamai', server: /^AkamaiGHost/i, only_own: true },
  { name: 'Kong', server: /^kong/i, only_own: true },
  { name: 'Traefik', page: /^no available server$/ },
  { name: 'IIS', server: /^Microsoft-IIS/i },
  { name: 'Envoy', server: /^(istio-)?envoy$/i },
  { name: 'Caddy', server: /^Caddy/i },
  { name: 'nginx', server: /^(nginx|openresty)/i },
  { name: 'Apache', server: /^Apache/i },
  { name: 'Cloudflare', server: /^cloudflare/i },
];

/** Who made an answer or passed it on, as far as its page and its headers tell. */
export function makerOf({ headers, text }: Pick<Answer, 'headers' | 'text'>): Maker | undefined {
  const page = text.slice(0, 20_000);
  const server = String(headers.server ?? '');
  const maker = PRODUCTS.find((product) => product.page?.test(page));
  if (maker !== undefined) return { name: maker.name, is_own: true };
  const passer = PRODUCTS.find((product) => product.server?.test(server));
  return passer === undefined ? undefined : { name: passer.name, is_own: passer.only_own === true };
}
