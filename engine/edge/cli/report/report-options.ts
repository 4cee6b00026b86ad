import { json, option } from '../options.ts';

/** Options of commands that report checks. */
export const REPORT_OPTIONS = [
  json('print a JSON object'),
  option('--strict', 'exit with 1 for warnings'),
  option('--verbose', 'print all details, also of successful checks'),
];
