import { existsSync } from 'node:fs';
import type { GatewayConfig } from '../contract/config.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { type LoadOptions, load } from '../load/index.ts';
import { ConfigurationError } from '../source/configuration-error.ts';
import type { Loaded } from '../source/spec.ts';

/** Loads a configuration that is to run: nothing in it may be wrong. Raises ConfigurationError. */
export async function loadToRun(
  config_file: string,
  options: LoadOptions,
): Promise<{ config: GatewayConfig; loaded: Loaded }> {
  const loaded = await loadExisting(config_file, options);
  const broken = loaded.diagnostics.some(({ severity }) => severity === 'error');
  if (broken || loaded.config === undefined) throw new ConfigurationError(config_file, loaded);
  return { config: loaded.config, loaded };
}

/**
 * Loads a configuration to look at the data it leads to. A mistake in a pipeline doesn't matter for that, as revoking a
 * token must not wait for its correction. Raises ConfigurationError.
 */
export async function loadToRead(config_file: string, options: LoadOptions): Promise<GatewayConfig> {
  const loaded = await loadExisting(config_file, options);
  if (loaded.config === undefined) throw new ConfigurationError(config_file, loaded);
  return loaded.config;
}

function loadExisting(config_file: string, options: LoadOptions): Promise<Loaded> {
  if (existsSync(config_file)) return load(config_file, options);
  throw new StartError(`${config_file} does not exist; name the configuration to use with --config`, {
    exit_code: EXIT_CONFIGURATION,
  });
}
