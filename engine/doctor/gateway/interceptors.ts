/** Programs that end TLS to read it, by what their certificates say about their authority. */
const INTERCEPTORS: readonly (readonly [said: RegExp, product: string])[] = [
  [/zscaler/i, 'Zscaler'],
  [/netskope|goskope/i, 'Netskope'],
  [/palo ?alto|prisma access/i, 'Palo Alto Networks'],
  [/forti(?:net|gate)/i, 'Fortinet FortiGate'],
  [/blue ?coat|symantec web|proxysg|cloud swg/i, 'Symantec ProxySG'],
  [/cisco umbrella|opendns|cisco secure (?:access|web)|ironport/i, 'Cisco'],
  [/forcepoint|websense/i, 'Forcepoint'],
  [/mcafee|skyhigh|trellix/i, 'Skyhigh Security'],
  [/sophos/i, 'Sophos'],
  [/check ?point/i, 'Check Point'],
  [/barracuda/i, 'Barracuda'],
  [/watchguard/i, 'WatchGuard'],
  [/sonicwall/i, 'SonicWall'],
  [/iboss/i, 'iboss'],
  [/menlo security/i, 'Menlo Security'],
  [/cato networks/i, 'Cato Networks'],
  [/cloudflare gateway|gateway ca - cloudflare|cloudflare for teams/i, 'Cloudflare Gateway'],
  [/kaspersky/i, 'Kaspersky'],
  [/\beset\b/i, 'ESET'],
  [/avast|\bavg\b/i, 'Avast'],
  [/bitdefender/i, 'Bitdefender'],
  [/dr\.? ?web/i, 'Dr.Web'],
  [/adguard/i, 'AdGuard'],
  [/smoothwall|lightspeed|securly|contentkeeper/i, 'a school web filter'],
  [/mitmproxy/i, 'mitmproxy'],
  [/charles proxy/i, 'Charles Proxy'],
  [/fiddler|do_not_trust/i, 'Fiddler'],
  [/portswigger/i, 'Burp Suite'],
  [/proxyman/i, 'Proxyman'],
  [/squid/i, 'Squid'],
];

/** Which program ends TLS on the way, by the names in a chain of certificates; `undefined` where none is known. */
export function interceptorIn(names: readonly string[]): string | undefined {
  return INTERCEPTORS.find(([said]) => names.some((name) => said.test(name)))?.[1];
}
