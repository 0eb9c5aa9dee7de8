// A policy as `decision-rnn export` writes it: one step of an agent as an ONNX model, with its description inside.

import { BODIES } from "./environment.js";

const FIRST_INPUTS = ["obs", "reward", "reset", "target_return"];
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
};
const RECENT = 100; // actions, over which the time of one is averaged: browsers round it
const METADATA_FIELD = 14; // metadata_props of onnx.ModelProto: pairs of key (1) and value (2)

/** A fault of what the user gave: its message is one sentence. */
export class InputError extends Error {}

/** The pairs of text in an ONNX file's metadata, read from its protocol buffer; throws RangeError if it is none. */
export function readMetadata(bytes) {
  const entries = {};
  for (const [number, value] of fields(bytes)) {
    if (number !== METADATA_FIELD) continue;
    const pair = Object.fromEntries([...fields(value)].map(([part, text]) => [part, new TextDecoder().decode(text)]));
    entries[pair[1]] = pair[2];
  }
  return entries;
}

function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (at >= bytes.length || scale > 2 ** 49) throw new RangeError("not a protocol buffer");
      const byte = bytes[at++];
      value += (byte % 128) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    const kind = key % 8;
    if (kind === 0) varint();
    else if (kind === 1) at += 8;
    else if (kind === 5) at += 4;
    else if (kind === 2) {
      const size = varint();
      if (at + size > bytes.length) throw new RangeError("not a protocol buffer");
      yield [Math.floor(key / 8), bytes.subarray(at, at + size)];
      at += size;
    } else throw new RangeError("not a protocol buffer");
  }
}

/** What the file says of its policy; throws InputError if it is none, or of another environment. */
export function describe(bytes, source, environmentId) {
  let metadata;
  try {
    const entries = readMetadata(bytes);
    if (!entries.decision_rnn) throw new RangeError("no description");
    metadata = JSON.parse(entries.decision_rnn);
  } catch {
    throw new InputError(
      `${source} is not a policy of decision_rnn, or of an earlier version: replace it by a file that decision-rnn ` +
        "export wrote.",
    );
  }
  const own = metadata.training?.config?.evaluation?.environment_id ?? metadata.environment_id;
  if (own !== environmentId) {
    const made = own in BODIES ? "make a page for it with decision-rnn play --browser" : "no page can play it";
    throw new InputError(`${source} is a policy for ${own}, and this page plays ${environmentId}: ${made}.`);
  }
  return metadata;
}

export class Policy {
  /** Load a policy for an environment; `ort` is the module of onnxruntime-web. */
  static async load(ort, bytes, source, environment, environmentId) {
    const metadata = describe(bytes, source, environmentId);
    let session;
    try {
      session = await ort.InferenceSession.create(bytes, { executionProviders: ["wasm"], logSeverityLevel: 4 });
    } catch (error) {
      const reason = String(error.message ?? error).slice(0, 200);
      throw new InputError(`${source} is damaged, or onnxruntime cannot run it (${reason}): export the policy again.`);
    }
    const expected = [...FIRST_INPUTS, ...(metadata.state ?? []).map((part) => part.input)];
    const missing = expected.filter((name) => !session.inputNames.includes(name));
    if (missing.length) throw new InputError(`${source} lacks the inputs ${missing.join(", ")}: export the policy again.`);
    const sizes = [metadata.observation?.size, metadata.action?.size];
    if (sizes[0] !== environment.observationSize || sizes[1] !== environment.actionSize) {
      throw new InputError(
        `${source} reads ${sizes[0]} numbers and acts with ${sizes[1]}, and ${environmentId} has ` +
          `${environment.observationSize} and ${environment.actionSize}: export a policy of this environment.`,
      );
    }
    return new Policy(ort, session, metadata, source);
  }

  constructor(ort, session, metadata, source) {
    Object.assign(this, { ort, session, metadata, source, actions: 0, microseconds: 0 }); // of an action, recently
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
