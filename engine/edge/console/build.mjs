/**
 * Builds the console into `dist/console` and the program for developers into `dist/client`: `npm run build:console`, and
 * `npm install` by its prepare script. Plain JavaScript, as npm may run it on a Node.js without TypeScript support.
 * @module
 */
import { existsSync, lstatSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = import.meta.dirname;
const engine = join(root, '../..');
const outDir = join(engine, '../dist/console');

/**
 * The program that a gateway serves to developers: one file without dependencies, for older versions of Node.js. Reproducible from
 * the sources.
 */
async function buildClient(build) {
  await build({
    root: engine,
    configFile: false,
    logLevel: 'warn',
    ssr: { noExternal: true, target: 'node' },
    build: {
      ssr: join(engine, 'bin/client.ts'),
      outDir: join(engine, '../dist/client'),
      emptyOutDir: true,
      copyPublicDir: false,
      target: 'node20',
      minify: false,
      reportCompressedSize: false,
      rolldownOptions: {
        output: {
          format: 'es',
          entryFileNames: 'appscli.mjs',
          codeSplitting: false,
          banner: '#!/usr/bin/env node',
        },
      },
    },
  });
}

/** Links `node_modules/.bin/appscli` in a checkout, as in the documents; npm links only programs of dependencies. */
function linkProgram() {
  const modules = join(engine, '../node_modules');
  const link = join(modules, '.bin/appscli');
  // Shared node_modules belong to another checkout.
  if (process.platform === 'win32' || !existsSync(modules) || lstatSync(modules).isSymbolicLink()) return;
  if (lstatSync(link, { throwIfNoEntry: false }) === undefined) symlinkSync('../../engine/bin/appscli.js', link);
}

/** Precompresses files for browsers. */
function compressAll() {
  for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !/\.(?:js|css|svg)$/.test(entry.name)) continue;
    const file = join(entry.parentPath, entry.name);
    const bytes = readFileSync(file);
    writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
    writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }));
  }
}

const development = await Promise.all([import('vite'), import('@vitejs/plugin-react')]).catch((error) => {
  if (error?.code !== 'ERR_MODULE_NOT_FOUND') throw error;
});
if (development === undefined) {
  console.error('The console was not built: it needs the development packages ("npm install" without --omit=dev).');
} else {
  const [{ build, runnerImport }, { default: react }] = development;
  const generator = join(engine, '../schemas/generate/console.ts');
  // Vite defaults to development here, and would keep that mode for later builds.
  process.env.NODE_ENV = 'production';
  const { module } = await runnerImport(generator, { configFile: false });
  module.writeConsoleOperations();
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    base: '/console/',
    plugins: [react()],
    // Relative URLs between scripts, for a public URL with a path.
    experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === 'js' ? { relative: true } : undefined) },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
    },
  });
  compressAll();
  await buildClient(build);
  linkProgram();
}
