import type { StageDefinition } from '../engine/api.ts';
import audit from './audit.ts';
import authenticate from './authenticate.ts';
import checkBudget from './check-budget.ts';
import forward from './forward.ts';
import includeUsage from './include-usage.ts';
import listModels from './list-models.ts';
import managedSettings from './managed-settings.ts';
import meterUsage from './meter-usage.ts';
import readBody from './read-body.ts';
import reject from './reject.ts';
import reportHealth from './report-health.ts';
import reportSpending from './report-spending.ts';
import resolveRoute from './resolve-route.ts';
import respond from './respond.ts';
import routeTo from './route-to.ts';
import translate from './translate.ts';

/** The shipped stages, in the usual order of a pipeline. */
export const stages: readonly StageDefinition[] = [
  authenticate,
  readBody,
  resolveRoute,
  routeTo,
  checkBudget,
  meterUsage,
  translate,
  includeUsage,
  forward,
  listModels,
  managedSettings,
  reportSpending,
  reportHealth,
  respond,
  reject,
  audit,
];
