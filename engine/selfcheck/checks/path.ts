import type { SelfCheck } from '../check.ts';
import { probeHeaders, probeLargeBody, probeStream } from '../path/probes.ts';
import { probeSignIn } from '../path/sign-in-page.ts';

/** What lies between here and a gateway of this program, which says how requests reach it. Free, and certain. */
export const PATH_CHECKS: readonly SelfCheck[] = [
  {
    id: 'path.headers',
    title: 'Headers and bodies on the way to the gateway',
    expected: 'version and beta headers, unknown headers, the query and the body arrive as they were sent.',
    run: probeHeaders,
  },
  {
    id: 'path.stream',
    title: 'Streams on the way from the gateway',
    expected: 'every event arrives when it is made, not when a proxy has a buffer full or the answer is complete.',
    run: probeStream,
  },
  {
    id: 'path.large_body',
    title: 'Large requests on the way to the gateway',
    expected: 'a request of 2 MiB arrives whole; coding clients send several in long sessions.',
    run: probeLargeBody,
  },
  {
    id: 'path.sign_in',
    title: 'The sign-in page of the console',
    expected: 'a browser is led to the identity provider, and from there back to this address.',
    run: ({ root_url, ask }) =>
      probeSignIn({ root_url, get: (path) => ask({ path, token: null, headers: { accept: 'text/html' } }) }),
  },
];
