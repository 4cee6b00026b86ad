import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Request, type Response, Router } from 'express';
import { CLIENT_PACKAGE_PATH } from '../contract/client-package.ts';
import type { GatewayConfig, Profile } from '../contract/config.ts';
import { StageError } from '../contract/errors.ts';
import { issuerOf } from '../identity/provider/issuer.ts';
import { tar } from '../kit/files/tar.ts';
import { PACKAGE_ROOT, programVersion } from '../kit/package-root.ts';
import { REQUEST_ID_HEADER } from '../run/headers.ts';
import { identityOf } from './request-identity.ts';
import { sendError } from './send-error.ts';

/** The program for developers as `engine/console/build.mjs` makes it, of one file. */
const PROGRAM = join(PACKAGE_ROOT, 'dist/client/appscli.mjs');

/** What it reads, by the same paths as here. */
const DATA = [
  'LICENSE',
  'examples/profiles/vendor-names.yaml',
  'schemas/admin-api.openapi.json',
  'schemas/profile.schema.json',
];

/** The package of a gateway, ready to be served. */
export interface ClientPackage {
  readonly bytes: Buffer;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

type Config = Pick<GatewayConfig, 'server'>;

/** The latest package by what it depends on: most changes of a configuration change neither. */
let made: { readonly of: string; readonly package: Promise<ClientPackage | undefined> } | undefined;

/**
 * The package with the commands for developers, which know the address of the gateway and what it calls their clients' files;
 * `undefined` where the program was not built or cannot be read. The same version, address and profile give the same bytes.
 */
export function clientPackage(config: Config): Promise<ClientPackage | undefined> {
  const { profile } = config.server;
  const gateway = issuerOf(config);
  const of = JSON.stringify([gateway, profile]);
  if (made?.of === of) return made.package;
  const packed = pack(gateway, profile).catch(() => undefined);
  made = { of, package: packed };
  // What is not there, or cannot be read at the moment, may be later.
  void packed.then((found) => {
    if (found === undefined && made?.package === packed) made = undefined;
  });
  return packed;
}

async function pack(gateway: string, profile: Profile): Promise<ClientPackage | undefined> {
  const paths = [PROGRAM, ...DATA.map((path) => join(PACKAGE_ROOT, path))];
  if (!paths.every((path) => existsSync(path))) return undefined;
  const [program, ...data] = await Promise.all(paths.map((path) => readFile(path)));
  const content = [
    { path: 'package/appscli.mjs', bytes: program!, is_program: true },
    ...DATA.map((path, i) => ({ path: `package/${path}`, bytes: data[i]! })),
    // JSON is YAML.
    ...(profile.clients === undefined
      ? []
      : [{ path: 'package/profile.yaml', bytes: Buffer.from(`${JSON.stringify(profile, null, 2)}\n`) }]),
  ];
  // npm keeps what it has of this address as long as the name is the same, whatever the version: so the name tells the content.
  const id = createHash('sha256').update(gateway).update(tar(content)).digest('hex').slice(0, 12);
  const description = {
    name: `@appscli/client-${id}`,
    version: programVersion(),
    description: `Sign in at ${gateway}, and set up coding clients for it.`,
    // Nobody publishes it by mistake.
    private: true,
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: '>=20.12' },
    // npx runs the first; the second is for those who install it.
    bin: { [`appscli-${id}`]: 'appscli.mjs', appscli: 'appscli.mjs' },
    gateway,
  };
  const text = `${JSON.stringify(description, null, 2)}\n`;
  const archive = tar([{ path: 'package/package.json', bytes: Buffer.from(text) }, ...content]);
  const bytes = await promisify(gzip)(archive, { level: 9 });
  // The operating system that compressed it (RFC 1952 section 2.3.1) makes no difference.
  bytes[9] = 255;
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

const NOT_BUILT = new StageError(
  'path_not_found',
  'The package for developers was not built: run "npm run build:console" where the gateway is installed from its sources, and let the user of the gateway read dist/client.',
);

/** Serves the package, to everybody: it holds no secret. */
export function clientPackageRoute(config: Config): Router {
  const router = Router({ caseSensitive: true, strict: true });
  router.all(CLIENT_PACKAGE_PATH, async (req, res) => {
    const found = await clientPackage(config);
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      const problem = `This path takes GET, HEAD, not ${req.method}.`;
      sendError(res, req.path, new StageError('method_not_allowed', problem, { headers: { allow: 'GET, HEAD' } }));
    } else if (found === undefined) sendError(res, req.path, NOT_BUILT);
    else send(req, res, found);
  });
  return router;
}

function send(req: Request, res: Response, { bytes, sha256 }: ClientPackage): void {
  const etag = `"${sha256}"`;
  const headers = {
    etag,
    // The address stays the same when the gateway is upgraded, so npm asks each time whether the package does.
    'cache-control': 'public, no-cache',
    'x-content-type-options': 'nosniff',
    [REQUEST_ID_HEADER]: identityOf(res).request_id,
  };
  const known = (req.headers['if-none-match'] ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  if (known.includes(etag) || known.includes('*')) return void res.writeHead(304, headers).end();
  res
    .writeHead(200, { ...headers, 'content-type': 'application/gzip', 'content-length': bytes.length })
    .end(req.method === 'HEAD' ? undefined : bytes);
}
