/** Diagnostics about sign-in: the section `auth`, and what depends on it elsewhere. */
export const AUTH_CODES = {
  C4030: {
    title: 'The scope openid is missing',
    explanation:
      'Without the scope `openid` an identity provider hands out no ID token, so nobody can sign in. Add it, or leave `scopes` out: the scopes most providers need are then asked for.',
    example: 'auth: { oidc: { ..., scopes: [profile, email] } }',
  },
  W7050: {
    title: 'The setting has no effect',
    explanation:
      'Something else that is written, or missing, keeps this setting from ever being used. Most often it is about people who sign in, and no identity provider is named under `auth.oidc`.',
    example: 'auth: { admin_groups: [platform] }   # and no oidc, so that nobody can sign in',
  },
  W7051: {
    title: 'Clients refuse to sign in over http',
    explanation:
      'Credentials travel in the clear over http, so clients take an http address for a sign-in only from their own machine. Give the gateway an https address, with a certificate of its own or behind a proxy that has one.',
    example: 'server: { listen: 127.0.0.1:8080, public_url: http://gateway.example.com }\nauth: { oidc: { ... } }',
  },
  W7052: {
    title: 'An unverified address is enough for a domain',
    explanation:
      'With `email_verification: if_stated` an address that the provider never verified passes unless it says so, and anybody could then claim one in an allowed domain. Remove the key, unless only your own administrators set addresses at the provider.',
    example: 'auth: { oidc: { ..., allowed_email_domains: [example.com], email_verification: if_stated } }',
  },
  W7053: {
    title: 'The name of a claim looks like a path',
    explanation:
      'A claim inside another one is named by a JSON pointer (RFC 6901), which begins with a slash. Without it, the text is the name of one claim, dots and all.',
    example: 'auth: { oidc: { ..., groups_claim: realm_access.roles } }   # instead of /realm_access/roles',
  },
  W7054: {
    title: 'Anybody may sign in',
    explanation:
      'The identity provider knows everybody who ever made an account there, not just the people of one company, and nothing says who of them may use the gateway. List domains under `allowed_email_domains`, or groups under `allowed_groups`.',
    example:
      'auth:\n  oidc: { issuer_url: https://accounts.google.com, client_id: gateway, client_secret_env: UPSTREAM_KEY }',
  },
  W7055: {
    title: 'The name of a group looks like a glob',
    explanation:
      'Groups of people are compared by their exact names, so that nobody gains a right by what a group happens to be called. A star stands for itself. Only `auth.oidc.keep_groups` takes globs.',
    example: 'auth: { oidc: { ..., allowed_groups: [eng-*] } }',
  },
  W7057: {
    title: 'More groups are named than a session token has room for',
    explanation:
      'A session token carries those of the groups of its person that the configuration names, and is kept short, since proxies refuse long headers. Somebody in so many of them gets one without groups: nothing is lost, a gateway reads them from the database when it sees such a token for the first time. While the database is away, such a token is answered with 503 by a gateway that has not seen it.',
    example: 'token_groups: [{ name: all, models: ["*"], members: [team-1, team-2, ...] }]   # hundreds of them',
  },
  W7056: {
    title: 'The public URL is that of the own machine',
    explanation:
      'The gateway listens for other machines, and tells everybody who signs in a public URL that leads each of them to their own machine, where nothing answers: the sign-in waits until it is over. Write the address at which browsers and terminals reach the gateway, or listen on the own machine alone.',
    example: 'server: { listen: "0.0.0.0:8080", public_url: http://localhost:8080 }\nauth: { oidc: { ... } }',
  },
} as const;
