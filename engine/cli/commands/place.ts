import { Option } from 'commander';

/** `--base-url` of a command that otherwise works on the database of `--config`. */
export const atGateway = () =>
  new Option('--base-url <url>', 'work at this running gateway as who you signed in as').conflicts('config');
