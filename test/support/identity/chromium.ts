import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { access, constants, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Names another browser for the tests; for systems the packaged one is not built for. */
const OVERRIDE = 'APPSCLI_TEST_CHROMIUM';

export interface Chromium {
  readonly executable: string;
  readonly env: Readonly<Record<string, string>>;
}

const PACKAGE = new URL('../package.json', import.meta.resolve('@sparticuz/chromium'));

// The package unpacks into the temporary directory itself, and takes a half-written browser there for a whole one. So
// it is given a directory of its own that gets its name when everything is in it: test files run in parallel.
async function unpack(into: string): Promise<void> {
  const directory = await mkdtemp(`${into}-`);
  const script = "const { default: c } = await import('@sparticuz/chromium'); await c.executablePath();";
  try {
    await run(process.execPath, ['--input-type=module', '-e', script], {
      cwd: import.meta.dirname,
      // With this it also unpacks the shared libraries that a bare system lacks.
      env: { ...process.env, TMPDIR: directory, AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x' },
    });
    await writeFile(join(directory, 'fonts.conf'), fontsConf(join(into, 'fonts')));
    await rename(directory, into);
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    if (!existsSync(into)) throw error;
  }
}

function fontsConf(directory: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>${directory}</dir>
  <cachedir>${join(directory, 'cache')}</cachedir>
  <alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
</fontconfig>
`;
}

// Beside the packages it outlives a run of the suite, whose temporary directory does not; where these can't be written
// it is unpacked for the run.
async function unpacked(): Promise<string> {
  const { version } = JSON.parse(await readFile(PACKAGE, 'utf8'));
  const name = `appscli-test-chromium-${version}-${process.getuid?.() ?? 'user'}`;
  const cache = join(import.meta.dirname, '..', '..', '..', 'node_modules', '.cache');
  const writable = await mkdir(cache, { recursive: true })
    .then(() => access(cache, constants.W_OK))
    .then(() => true)
    .catch(() => false);
  const directory = join(writable ? cache : tmpdir(), name);
  if (!existsSync(directory)) await unpack(directory);
  const { uid } = await stat(directory);
  if (process.getuid !== undefined && uid !== process.getuid()) {
    throw new Error(`${directory} belongs to somebody else, and so would the browser in it; remove it or set TMPDIR`);
  }
  return directory;
}

/** The error of a browser that was started for its version; `undefined` on success. */
async function startError({ executable, env }: Chromium): Promise<string | undefined> {
  try {
    await run(executable, ['--version'], { env: { ...process.env, ...env }, timeout: 30_000 });
    return undefined;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    return stderr?.trim() || message;
  }
}

/** Finds a Chromium that starts here, unpacking the packaged one on first use. */
export async function findChromium(): Promise<Chromium> {
  const other = process.env[OVERRIDE];
  if (other !== undefined) {
    const wanted = { executable: other, env: {} };
    const found = await startError(wanted);
    if (found === undefined) return wanted;
    throw new Error(`the browser that ${OVERRIDE} names does not start: ${found}`);
  }
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(
      `the packaged Chromium is for Linux on x64, and this is ${process.platform} on ${process.arch}; set ${OVERRIDE} to the executable of a Chromium or Chrome`,
    );
  }
  const directory = await unpacked();
  const own = { FONTCONFIG_FILE: join(directory, 'fonts.conf') };
  const plain = { executable: join(directory, 'chromium'), env: own };
  const missing = await startError(plain);
  if (missing === undefined) return plain;
  // The system's own libraries come first where it has them: those of the package need a newer C library than the
  // browser does.
  const provided = { ...plain, env: { ...own, LD_LIBRARY_PATH: join(directory, 'al2023', 'lib') } };
  const still = await startError(provided);
  if (still === undefined) return provided;
  throw new Error(
    `the packaged Chromium does not start: ${missing}; with the libraries packaged with it: ${still}. Install libnss3, libnspr4 and libexpat1 (their names on Debian), or set ${OVERRIDE} to the executable of a Chromium or Chrome`,
  );
}
