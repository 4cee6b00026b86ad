/** Headers of an answer that are kept from clients for one reason. */
export interface OriginHeaders {
  /** In lower case; one that ends in `*` stands for all names that begin so. */
  readonly names: readonly string[];
  /** What they would do, ending a sentence that begins with "it". */
  readonly effect: string;
}

/**
 * Response headers that act on the whole host an answer comes from, or on the proxies in front of it, not on the answer.
 * That host is the gateway, and an upstream has no say over it. No client of a model API needs one of them.
 */
export const ORIGIN_HEADERS: readonly OriginHeaders[] = [
  { names: ['set-cookie', 'set-cookie2'], effect: "sets cookies for the gateway's host, its own sign-in among them" },
  { names: ['clear-site-data'], effect: "deletes what a browser keeps for the gateway's host, sign-ins included" },
  { names: ['strict-transport-security'], effect: "makes browsers refuse plain HTTP to the gateway's host for months" },
  { names: ['public-key-pins*', 'expect-ct'], effect: "pins certificates for the gateway's host" },
  { names: ['alt-svc'], effect: 'sends the next requests for the gateway to another address' },
  {
    names: ['access-control-*', 'timing-allow-origin', 'cross-origin-*'],
    effect: 'lets pages of other sites read what the gateway answers',
  },
  {
    names: ['nel', 'report-to', 'reporting-endpoints', 'content-security-policy*', 'attribution-reporting-*'],
    effect: "makes browsers report what happens at the gateway's host to somebody else",
  },
  { names: ['accept-ch*', 'critical-ch'], effect: "makes browsers tell more about themselves to the gateway's host" },
  {
    names: ['service-worker-allowed', 'service-worker-navigation-preload'],
    effect: "widens what scripts may take over at the gateway's host",
  },
  { names: ['refresh'], effect: 'sends a browser on to another address' },
  {
    names: ['www-authenticate', 'authentication-info', 'proxy-authentication-info'],
    effect: "asks the caller for a password; what the upstream refuses is the gateway's credential, never the caller's",
  },
  {
    names: ['sec-*', 'secure-session-*', 'set-login', 'activate-storage-access', 'origin-trial'],
    effect: "changes how browsers treat sessions and sites at the gateway's host",
  },
  {
    names: ['x-accel-redirect', 'x-sendfile', 'x-lighttpd-send-file', 'x-reproxy-url'],
    effect: 'makes a reverse proxy in front of the gateway answer with a file or address of its own',
  },
];

const NAMES = ORIGIN_HEADERS.flatMap(({ names }) => names);
const EXACT: ReadonlySet<string> = new Set(NAMES.filter((name) => !name.endsWith('*')));
const FAMILIES = NAMES.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
// One expression, as this is asked for every header of every answer.
const FAMILY = new RegExp(`^(?:${FAMILIES.join('|')})`);

/** Whether a response header, in lower case, acts on the gateway's host and is kept from clients. */
export function actsOnOrigin(name: string): boolean {
  return EXACT.has(name) || FAMILY.test(name);
}
