/** Vendor names for what the gateway itself writes. */
export interface Profile {
  /**
   * Begins the names of the headers that tell callers how they stand with their limits, and of those by which a translated
   * request tells its upstream the version of the Messages API.
   */
  readonly header_prefix: string;
  /** Header whose text the coding CLI shows when a limit refuses its request; none where absent. */
  readonly refusal_header?: string;
  /** What the files and variables of coding clients are called; the neutral names where it says nothing. */
  readonly clients?: {
    readonly messages?: Partial<MessagesClientNames>;
    readonly coding_cli?: Partial<CodingCliNames>;
    readonly build_cli?: Partial<BuildCliNames>;
  };
}

/** Where a client looks for what an administrator wants on every machine; nothing where it looks nowhere. */
export interface ManagedFiles {
  readonly linux?: string;
  readonly macos?: string;
  readonly windows?: string;
}

/** Names of the Messages client. */
export interface MessagesClientNames {
  /** Its settings; `~/` stands for the home directory, here and in the other files. */
  readonly settings_file: string;
  readonly managed_file: ManagedFiles;
  /** Begins its variables of address, credential and models. */
  readonly variable_prefix: string;
  /** Begins its variables of features. */
  readonly feature_prefix: string;
}

/** Names of the coding CLI. */
export interface CodingCliNames {
  readonly config_file: string;
  readonly managed_file: ManagedFiles;
  readonly auth_file: string;
  /** Key of `auth_file` that holds the credential. */
  readonly key_name: string;
  /** Key of a provider that says whether the credential of `auth_file` is used. */
  readonly auth_flag: string;
}

/** Names of the build CLI. */
export interface BuildCliNames {
  readonly config_file: string;
  readonly managed_file: ManagedFiles;
  /** Variable of the key it uses when an entry names none. */
  readonly key_variable: string;
}
