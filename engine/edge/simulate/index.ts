/**
 * What tests of an operator's own stages import, as `appscli/testing`.
 * @module
 */
export { replaceTexts } from './replace-texts.ts';
export {
  type Facts,
  type FakeContext,
  openStage,
  type Recorded,
  type RequestWishes,
  type ServiceWishes,
  type StageHarness,
  stageConfig,
} from './stage-harness.ts';
