import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { Router } from 'express';
import { CLIENT_PACKAGE_PATH } from '../../base/contract/client-package.ts';
import type { GatewayConfig, Profile } from '../../base/contract/config.ts';
import { StageError } from '../../base/contract/errors.ts';
import { PACKAGE_ROOT, programVersion } from '../../base/kit/package-root.ts';
import { issuerOf } from '../../domain/identity/provider/provider.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { identityOf } from './request-identity.ts';
import { methodNotAllowed, sendError } from './send-error.ts';

interface TarFile {
  /** At most 100 characters, with slashes. */
  readonly path: string;
  readonly bytes: Buffer;
  readonly is_program?: boolean;
}

const BLOCK = 512;
/** A fixed date gives the same bytes for the same files. npm uses this one, as some programs reject 1970. */
const MODIFIED_SECONDS = Date.UTC(1985, 9, 26, 8, 15) / 1000;

function tar(files: readonly TarFile[]): Buffer {
  const parts = files.flatMap(({ path, bytes, is_program = false }) => [
    header(path, bytes.length, is_program ? 0o755 : 0o644),
    bytes,
    Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK),
  ]);
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function header(path: string, size: number, mode: number): Buffer {
  if (path.length > 100) throw new RangeError(`${path} is too long a path for an archive`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    block.write(value.toString(8).padStart(digits, '0'), at, 'latin1');
  block.write(path, 0, 'latin1');
  octal(mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(size, 124, 11);
  octal(MODIFIED_SECONDS, 136, 11);
  block.write('        0', 148, 'latin1');
  block.write('ustar\u000000', 257, 'latin1');
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  block[154] = 0;
  return block;
}

const PROGRAM = join(PACKAGE_ROOT, 'dist/client/appscli.mjs');

const DATA = [
  'LICENSE',
  'examples/profiles/vendor-names.yaml',
  'schemas/admin-api.openapi.json',
  'schemas/profile.schema.json',
];

export interface ClientPackage {
  readonly bytes: Buffer;
  readonly sha256: string;
}

type Config = Pick<GatewayConfig, 'server'>;

/** Cache of the last package, by its inputs; most reloads change none of them. */
let made: { readonly of: string; readonly package: Promise<ClientPackage | undefined> } | undefined;

/**
 * The npm package with the commands for developers, preset with the gateway's address and profile; `undefined` if the program
 * was not built or is unreadable. Reproducible: the same version, address and profile give the same bytes.
 */
export function clientPackage(config: Config): Promise<ClientPackage | undefined> {
  const { profile } = config.server;
  const gateway = issuerOf(config);
  const of = JSON.stringify([gateway, profile]);
  if (made?.of === of) return made.package;
  const packed = pack(gateway, profile).catch(() => undefined);
  made = { of, package: packed };
  // A missing or unreadable package may be there on the next request.
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
  // npm caches by address and name, whatever the version: so the name contains a hash of the content.
  const id = createHash('sha256').update(gateway).update(tar(content)).digest('hex').slice(0, 12);
  const description = {
    name: `@appscli/client-${id}`,
    version: programVersion(),
    description: `Sign in at ${gateway}, and set up coding clients for it.`,
    // Prevents `npm publish` by mistake.
    private: true,
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: '>=20.12' },
    // npx runs the first; the second is the command of an installed package.
    bin: { [`appscli-${id}`]: 'appscli.mjs', appscli: 'appscli.mjs' },
    gateway,
  };
  const text = `${JSON.stringify(description, null, 2)}\n`;
  const archive = tar([{ path: 'package/package.json', bytes: Buffer.from(text) }, ...content]);
  const bytes = await promisify(gzip)(archive, { level: 9 });
  // Byte 9 is the operating system (RFC 1952 section 2.3.1); 255 means unknown, for reproducible bytes.
  bytes[9] = 255;
  return { bytes, sha256: createHash('sha256').update(bytes).digest('hex') };
}

const NOT_BUILT = new StageError(
  'path_not_found',
  'The package for developers was not built: run "npm run build:console" where the gateway is installed from its sources, and make dist/client readable by the account that runs the gateway.',
);

/** Serves the package without authentication: it contains no secret. */
export function clientPackageRoute(config: Config): Router {
  const router = Router({ caseSensitive: true, strict: true });
  router.all(CLIENT_PACKAGE_PATH, async (req, res) => {
    const found = await clientPackage(config);
    const is_read = req.method === 'GET' || req.method === 'HEAD';
    if (!is_read || found === undefined) {
      return void sendError(res, req.path, is_read ? NOT_BUILT : methodNotAllowed(req, 'GET, HEAD'));
    }
    const etag = `"${found.sha256}"`;
    const known = (req.headers['if-none-match'] ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
    if (known.includes(etag) || known.includes('*')) res.status(304);
    res.set({
      etag,
      'content-type': 'application/gzip',
      // The address stays the same after an upgrade, so npm must revalidate each time.
      'cache-control': 'public, no-cache',
      'x-content-type-options': 'nosniff',
      [REQUEST_ID_HEADER]: identityOf(res).request_id,
    });
    res.send(found.bytes);
  });
  return router;
}
