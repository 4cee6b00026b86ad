import type { Answer } from './read-answer.ts';

interface Product {
  readonly name: string;
  readonly server?: RegExp;
  /** A header that only this one sends. */
  readonly header?: string;
  readonly page?: RegExp;
}

/** Proxies, load balancers and servers, with how their own pages are told. Those that others stand behind come last. */
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
  { name: 'Squid', server: /^squid/i, header: 'x-squid-error' },
  { name: 'nginx', page: /<hr><center>(nginx|openresty)/ },
  { name: 'Apache', page: /<address>Apache/ },
  { name: 'Amazon CloudFront', server: /^CloudFront/i },
  { name: 'AWS load balancer', server: /^awselb/i },
  { name: 'Azure Application Gateway', server: /^Microsoft-Azure-Application-Gateway/i },
  { name: 'Akamai', server: /^AkamaiGHost/i },
  { name: 'Kong', server: /^kong/i },
  { name: 'Traefik', page: /^no available server$/ },
  { name: 'IIS', server: /^Microsoft-IIS/i },
  { name: 'Envoy', server: /^(istio-)?envoy$/i },
  { name: 'Caddy', server: /^Caddy/i },
  { name: 'nginx', server: /^(nginx|openresty)/i },
  { name: 'Apache', server: /^Apache/i },
  { name: 'Cloudflare', server: /^cloudflare/i },
];

/** Who made an answer that no API makes, as far as its page and its headers tell. */
export function productOf({ headers, text }: Answer): string | undefined {
  const page = text.slice(0, 20_000);
  const server = String(headers.server ?? '');
  return PRODUCTS.find(
    (product) =>
      product.page?.test(page) ||
      product.server?.test(server) ||
      (product.header !== undefined && headers[product.header] !== undefined),
  )?.name;
}
