import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { NEUTRAL_FEATURE_PREFIX } from '../../base/contract/client-telemetry.ts';
import type { BuildCliNames, CodingCliNames, MessagesClientNames, Profile } from '../../base/contract/config.ts';

/** Names of the files, keys and variables of coding clients. */
export interface ClientNames {
  readonly messages: MessagesClientNames;
  readonly coding_cli: CodingCliNames;
  readonly build_cli: BuildCliNames;
}

/** Neutral names, which no real client uses. */
const NEUTRAL: ClientNames = {
  messages: {
    program: 'client',
    folder_variable: 'CLIENT_CONFIG_DIR',
    settings_file: '~/.client/settings.json',
    managed_file: {
      linux: '/etc/client/managed-settings.json',
      macos: '/Library/Application Support/Client/managed-settings.json',
      windows: 'C:\\Program Files\\Client\\managed-settings.json',
    },
    variable_prefix: 'VENDOR',
    feature_prefix: NEUTRAL_FEATURE_PREFIX,
  },
  coding_cli: {
    program: 'codingcli',
    folder_variable: 'CODINGCLI_HOME',
    config_file: '~/.codingcli/config.toml',
    managed_file: {
      linux: '/etc/codingcli/config.toml',
      macos: '/etc/codingcli/config.toml',
      windows: 'C:\\ProgramData\\CodingCLI\\config.toml',
    },
    auth_file: '~/.codingcli/auth.json',
    key_name: 'COMPAT_API_KEY',
    auth_flag: 'requires_compat_auth',
    key_variable: 'CODINGCLI_API_KEY',
    built_in_providers: ['compat'],
    ignored_variables: ['COMPAT_BASE_URL'],
  },
  build_cli: {
    program: 'buildcli',
    folder_variable: 'BUILDCLI_HOME',
    config_file: '~/.buildcli/config.toml',
    managed_file: { linux: '/etc/buildcli/managed_config.toml', macos: '/etc/buildcli/managed_config.toml' },
    key_variable: 'BUILD_VENDOR_API_KEY',
    older_key_variable: 'BUILDCLI_API_KEY',
    session_file: '~/.buildcli/auth.json',
    enforced_file: { linux: '/etc/buildcli/requirements.toml', macos: '/etc/buildcli/requirements.toml' },
    model_variable: 'BUILDCLI_DEFAULT_MODEL',
    overlay_variables: ['BUILDCLI_CONFIG', 'BUILDCLI_CONFIG_PATH'],
    ignored_variables: ['COMPAT_BASE_URL', 'COMPAT_API_KEY'],
  },
};

/** The names in a profile; neutral ones by default. */
export function clientNames(profile: Profile | undefined): ClientNames {
  const { messages, coding_cli, build_cli } = profile?.clients ?? {};
  return {
    messages: { ...NEUTRAL.messages, ...messages },
    coding_cli: { ...NEUTRAL.coding_cli, ...coding_cli },
    build_cli: { ...NEUTRAL.build_cli, ...build_cli },
  };
}

/** The path of a client's file: `~/` is HOME; a folder variable replaces the whole folder. */
export function pathOfFile(name: string, env: NodeJS.ProcessEnv, folder_variable?: string): string {
  if (!name.startsWith('~/')) return name;
  const folder = folder_variable === undefined ? undefined : env[folder_variable];
  if (folder !== undefined && folder !== '') return resolve(folder, basename(name));
  const home = env.HOME === undefined || env.HOME === '' ? homedir() : env.HOME;
  return join(home, name.slice(2));
}
