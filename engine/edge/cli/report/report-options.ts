import { json, option } from '../options.ts';

/** Options of commands that report checks. */
export const REPORT_OPTIONS = [
  json('print a JSON object with everything'),
  option('--strict', 'exit with 1 for warnings, too'),
  option('--verbose', 'tell everything of checks that went well, too'),
];
