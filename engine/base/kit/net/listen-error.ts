import { EXIT_CONFIGURATION, EXIT_UNAVAILABLE, StartError } from '../../contract/start-error.ts';
import { parseListenAddress } from './addresses.ts';

/** The error of a failed listen, with its remedy. @param place source of the address: a key of gateway.yaml, or an option */
export function explainListenError(
  error: NodeJS.ErrnoException,
  listen: string,
  place = 'server.listen in gateway.yaml',
): StartError {
  const port = parseListenAddress(listen)?.port ?? 8080;
  switch (error.code) {
    case 'EADDRINUSE':
      return new StartError(`${listen} is in use by another program; stop it, or set ${place} to a free port`, {
        exit_code: EXIT_UNAVAILABLE,
        cause: error,
      });
    case 'EACCES':
    case 'EPERM':
      return new StartError(
        `this user has no permission to listen on ${listen}; set ${place} to a port from 1024 up, or run the gateway as another user`,
        { exit_code: EXIT_CONFIGURATION, cause: error },
      );
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return new StartError(
        `${listen} is not an address of this machine; set ${place} to one that is, such as 127.0.0.1:${port}, or 0.0.0.0:${port} for all`,
        { exit_code: EXIT_CONFIGURATION, cause: error },
      );
    default:
      return new StartError(`cannot listen on ${listen} (${error.message}); check ${place}`, {
        exit_code: EXIT_UNAVAILABLE,
        cause: error,
      });
  }
}
