/** Public API for unit tests of custom stages, imported as `appscli/testing`. @module */
export {
  type Facts,
  type FakeContext,
  type FakeRequest,
  openStage,
  type Recorded,
  replaceTexts,
  type ServiceStubs,
  type StageHarness,
  stageConfig,
} from './stage-harness.ts';
