import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { PostgresSettings } from './postgres-client.ts';

/** A wrong database URL. The message is the end of a sentence, and repeats no part that may be a password. */
export class DatabaseUrlError extends Error {
  override readonly name = 'DatabaseUrlError';
}

/** A parsed database URL. */
export interface DatabaseUrl {
  /** `host[:port]/database` without credentials; for a Unix socket, its directory in place of the host. */
  readonly label: string;
  /** Settings for a new connection; reads the certificate files. Raises file errors of Node. */
  settings(): PostgresSettings;
}

const SCHEME = /^postgres(?:ql)?:\/\//i;

const ENCODE =
  'has a user name or password with characters that must be percent-encoded: write # as %23, / as %2F, ? as %3F, @ as %40 and % as %25';

/** Values of `sslmode` in libpq (PostgreSQL documentation, section 34.19); `no-verify` is from node-postgres. */
const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'no-verify', 'verify-ca', 'verify-full'] as const;
type SslMode = (typeof SSL_MODES)[number];

/** `ssl=`, the spelling of several drivers. */
const SSL_FLAGS: Readonly<Record<string, SslMode>> = {
  ...{ true: 'verify-full', 1: 'verify-full', on: 'verify-full' },
  ...{ false: 'disable', 0: 'disable', off: 'disable' },
};

/** Modes that fall back to an unencrypted connection. */
const PLAIN_ALLOWED: readonly SslMode[] = ['allow', 'prefer'];

/**
 * Parses a database URL as libpq does (PostgreSQL documentation, section 34.1.1.2), with the parameters that platforms add. Ignores
 * other parameters, such as `pgbouncer`. Raises DatabaseUrlError.
 * @param env for PGSSLMODE, if the URL has no `sslmode`
 */
export function readDatabaseUrl(url: string, env: NodeJS.ProcessEnv = {}): DatabaseUrl {
  const text = url.trim();
  if (/%00|\0/.test(text)) throw new DatabaseUrlError('contains a NUL character: remove it');
  const { userinfo, location, path, query } = split(text);
  const params = Object.fromEntries(new URLSearchParams(query)) as Readonly<Record<string, string | undefined>>;
  const [user, password] = userinfo === undefined ? [] : credentials(userinfo);
  const { host, port } = params.host ? { ...place(location, userinfo), host: params.host } : place(location, userinfo);
  const socket = /^(\/.*?)(?:\/\.s\.PGSQL\.(\d+))?$/.exec(host ?? '');
  const used_host = socket?.[1] ?? host;
  const used_port = portOf(params.port) ?? port ?? portOf(socket?.[2]);
  const database = decoded(path) || params.dbname;
  if (!database) throw new DatabaseUrlError('names no database');
  const ssl_mode = socket === null ? sslMode(params, env) : 'disable';
  const channel_binding = channelBinding(params, ssl_mode);
  const negotiation = params.sslnegotiation === 'direct' ? requireTls('sslnegotiation=direct', ssl_mode) : undefined;
  const options = startOptions(params);
  const fixed = {
    ...definedOf({ host: used_host, port: used_port, database, options }),
    ...definedOf({ user: params.user || user, password: params.password || password }),
    ...definedOf({ application_name: params.application_name || undefined }),
    ...(negotiation && { sslnegotiation: 'direct' as const }),
    ...(PLAIN_ALLOWED.includes(ssl_mode) && { plain_allowed: true }),
    ...(channel_binding && { channel_binding }),
  };
  return {
    label: `${used_host ?? 'localhost'}${used_port === undefined ? '' : `:${used_port}`}/${database}`,
    settings: () => ({ ...fixed, ssl: tlsOptions(ssl_mode, params) }),
  };
}

interface Parts {
  readonly userinfo: string | undefined;
  readonly location: string;
  readonly path: string;
  readonly query: string;
}

/** Splits a URL without decoding. A raw `/`, `?` or `#` in a password ends the authority early. */
function split(text: string): Parts {
  const scheme = SCHEME.exec(text);
  if (scheme === null) throw new DatabaseUrlError('is not a PostgreSQL URL');
  const [, authority = '', path = '', query = '', rest = ''] =
    /^([^/?#]*)\/?([^?#]*)(?:\?([^#]*))?(.*)$/s.exec(text.slice(scheme[0].length)) ?? [];
  const names = query.split('&').map((pair) => pair.split('=', 1)[0]!);
  // A database URL has no fragment, and no @ in the database or in parameter names.
  if (rest !== '' || path.includes('@') || names.some((name) => /[@/]/.test(name))) throw new DatabaseUrlError(ENCODE);
  const at = authority.lastIndexOf('@');
  const userinfo = at < 0 ? undefined : authority.slice(0, at);
  return { userinfo, location: authority.slice(at + 1), path, query };
}

function credentials(userinfo: string): readonly (string | undefined)[] {
  const colon = userinfo.indexOf(':');
  const parts = colon < 0 ? [userinfo] : [userinfo.slice(0, colon), userinfo.slice(colon + 1)];
  return parts.map((part) => decoded(part) || undefined);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new DatabaseUrlError(ENCODE);
  }
}

function place(location: string, userinfo: string | undefined) {
  if (location.includes(',')) {
    throw new DatabaseUrlError('names several hosts: name one, such as an address that always points to the primary');
  }
  const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/s.exec(location) ?? [];
  // With a raw / or ? in a password, user and password look like host and port.
  if (port && userinfo === undefined && !/^\d+$/.test(port)) throw new DatabaseUrlError(ENCODE);
  return { host: decoded(host.replace(/^\[(.*)\]$/, '$1')) || undefined, port: portOf(port) };
}

function portOf(text: string | undefined): number | undefined {
  if (!text) return undefined;
  const port = Number(text);
  if (!/^\d+$/.test(text) || port < 1 || port > 65535) {
    throw new DatabaseUrlError('has a port that is not a number from 1 to 65535');
  }
  return port;
}

type Params = Readonly<Record<string, string | undefined>>;

function sslMode({ sslmode, ssl, sslrootcert, sslcert, sslnegotiation }: Params, env: NodeJS.ProcessEnv): SslMode {
  const stated = sslmode || (ssl && (SSL_FLAGS[ssl] ?? ssl)) || undefined;
  const mode = stated === undefined ? undefined : knownMode(stated, 'an unknown sslmode');
  if (mode === 'disable') return mode;
  // With public certificate authorities, only the host name identifies the server.
  if (sslrootcert === 'system' || (mode === 'verify-ca' && !sslrootcert)) return 'verify-full';
  if (mode === 'require' && sslrootcert) return 'verify-ca';
  if (mode !== undefined) return mode;
  if (sslrootcert || sslcert) return 'verify-full';
  if (sslnegotiation === 'direct') return 'require';
  return knownMode(env.PGSSLMODE || 'prefer', 'no sslmode, and PGSSLMODE is set to an unknown one');
}

/** An unknown value is an error, because it may have been meant to require encryption. */
function knownMode(stated: string, what: string): SslMode {
  const mode = SSL_MODES.find((known) => known === stated);
  if (mode === undefined) throw new DatabaseUrlError(`has ${what}; there are ${SSL_MODES.join(', ')}`);
  return mode;
}

function channelBinding({ channel_binding }: Params, mode: SslMode): 'require' | undefined {
  if (channel_binding !== 'require') return undefined;
  requireTls('channel_binding=require', mode);
  return channel_binding;
}

function requireTls(what: string, mode: SslMode): true {
  if (mode !== 'disable' && !(what.startsWith('sslnegotiation') && PLAIN_ALLOWED.includes(mode))) return true;
  throw new DatabaseUrlError(`has ${what}, which needs encryption: add sslmode=require or sslmode=verify-full`);
}

/** Session options. `schema` is Prisma's parameter for the search path. */
function startOptions({ options, schema }: Params): string | undefined {
  if (!schema || schema === 'public') return options || undefined;
  const quoted = `"${schema.replaceAll('"', '""')}"`.replace(/[\s\\]/g, '\\$&');
  return [options, `-c search_path=${quoted}`].filter(Boolean).join(' ');
}

function tlsOptions(mode: SslMode, params: Params): false | ConnectionOptions {
  if (mode === 'disable') return false;
  const { sslcert, sslkey, sslpassword, sslrootcert } = params;
  const fileOf = (path: string | undefined) => (path ? readFileSync(path, 'utf8') : undefined);
  return {
    ...definedOf({ cert: fileOf(sslcert), key: fileOf(sslkey), passphrase: sslpassword || undefined }),
    ...definedOf({ ca: sslrootcert === 'system' ? undefined : fileOf(sslrootcert) }),
    rejectUnauthorized: mode.startsWith('verify-'),
    // verify-ca accepts any host name.
    ...(mode === 'verify-ca' && { checkServerIdentity: () => undefined }),
  };
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function definedOf<T extends object>(values: T): Defined<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Defined<T>;
}
