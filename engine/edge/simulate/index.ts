/**
 * Public API for unit tests of custom stages, imported as `appscli/testing`.
 * @module
 */
export { replaceTexts } from './replace-texts.ts';
export {
  type Facts,
  type FakeContext,
  type FakeRequest,
  openStage,
  type Recorded,
  type ServiceStubs,
  type StageHarness,
  stageConfig,
} from './stage-harness.ts';
