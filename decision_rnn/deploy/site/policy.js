// A policy as `decision-rnn export` writes it: one step of an agent as an ONNX model.

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array };
const RECENT = 100; // actions, over which the time of one is averaged: browsers round it

export class Policy {
  /** `ort` is the module of onnxruntime-web, `bytes` the file, and `metadata` what it says of itself, from page.json. */
  static async load(ort, bytes, metadata) {
    const session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"], logSeverityLevel: 4 });
    return new Policy(ort, session, metadata);
  }

  constructor(ort, session, metadata) {
    Object.assign(this, { ort, session, metadata, actions: 0, microseconds: 0 }); // of an action, recently
    this.initial = metadata.state.map(({ input, dtype, shape }) => {
      const size = shape.reduce((product, side) => product * side, 1);
      return [input, new ort.Tensor(dtype, new ARRAYS[dtype](size), [1, ...shape])]; // zeros: ignored where reset is true
    });
    this.stateBytes = this.initial.reduce((sum, [, tensor]) => sum + tensor.data.byteLength, 0);
    this.reset(0);
  }

  /** Begin an episode with this target return. */
  reset(target) {
    this.target = new this.ort.Tensor("float32", [target], [1]);
    this.state = this.initial;
    this.begins = 1;
  }

  /** The action at an observation, after the reward of the action before; the reward of the first is ignored. */
  async act(observation, reward) {
    const { Tensor } = this.ort;
    const began = performance.now();
    const outputs = await this.session.run({
      obs: new Tensor("float32", Float32Array.from(observation), [1, observation.length]),
      reward: new Tensor("float32", [reward], [1]),
      reset: new Tensor("bool", Uint8Array.of(this.begins), [1]),
      target_return: this.target,
      ...Object.fromEntries(this.state),
    });
    this.actions += 1;
    this.microseconds += (1000 * (performance.now() - began) - this.microseconds) / Math.min(this.actions, RECENT);
    this.begins = 0;
    this.state = this.metadata.state.map(({ input, output }) => [input, outputs[output]]);
    return outputs.actions.data;
  }
}
