"""One step of an agent as an ONNX model: all of `DecisionAgent.act`, in one file for any runtime.

    obs (batch, entries), reward (batch,), reset (batch,) bool, target_return (batch,), h_in_... -> actions, h_out_...

The observation is the environment's whole observation. `reset` is true where an episode begins; `h_in_...` and `reward`
are ignored there. Every output `h_out_...` is the input `h_in_...` of the same name at the next step.
"""

import contextlib
import copy
import hashlib
import io
import json
import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from decision_rnn.agent import ActingState, DecisionAgent
from decision_rnn.backbones import State
from decision_rnn.deploy.description import describe
from decision_rnn.evaluation.actor import describe_acting, window_of
from decision_rnn.evaluation.results import Result
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.evaluation.targets import check_conditioned, check_limited
from decision_rnn.training.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, cannot_write
from decision_rnn.utils.files import new_file
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import AUTO

Weights = Literal["float32", "int8"]
"""How the weights of matrix products are stored."""
STEPS = 300
"""Number of steps in the comparison with the agent at the end of every export."""
TOLERANCE = 1e-4
"""The largest difference from the agent's actions with which a file is written. Most exports stay below 1e-6;
normalising values close to zero magnifies rounding."""
INT8_TOLERANCE = 0.1
"""The same with weights in 8 bits; trained agents stay below 0.04."""
BLOCK = 32
"""Number of weights in 8 bits that share a scale. Larger blocks are no faster."""
GEMM = {"transA": 0, "transB": 0, "alpha": 1.0, "beta": 1.0}
"""ONNX's defaults of the operator that linear layers become."""
TRACED = 3
"""Batch size for tracing; a batch size of 1 would be traced as a constant."""


def export_onnx(
    trained: TrainedAgent,
    path: Path,
    target_return: float | None = None,
    results: Sequence[Result] = (),
    weights: Weights = "float32",
) -> float:
    """Write one step of an agent as an ONNX model, after checking that it acts as the agent does with a carried state.

    If the run is evaluated by a window of steps or sampled actions, a warning says that the file carries its state and
    acts greedily.

    Args:
        trained: The agent.
        path: The file; missing folders are created.
        target_return: The policy's default target return; if left out, the first of its evaluation.
        results: Its evaluations, to be recorded in the file.
        weights: `int8` to store the weights of matrix products in 8 bits.

    Returns:
        The largest difference between the file's and the agent's actions, over steps with resets in between.

    Raises:
        InputError: If the packages of the extra `onnx` are not installed, `target_return` is given for an agent trained
            by cloning, the agent contains something that ONNX cannot express or acts differently in ONNX, or the file
            cannot be written.
    """
    try:
        import onnxscript  # noqa: F401

        from decision_rnn.deploy.runtime import Policy
    except ModuleNotFoundError as error:
        raise InputError(f"an export needs the package {error.name}: pip install 'decision-rnn[onnx]'") from None
    if target_return is not None:
        check_conditioned(trained.config)
        if target_return == AUTO:
            check_limited(trained.config.condition_options)
        elif not math.isfinite(target_return):
            raise InputError(f"the target return is {target_return}: it must be auto or finite")
    agent = copy.deepcopy(trained.agent).cpu().eval()
    description = {**describe(trained, target_return, results), "weights": weights}
    data = _exported(agent, description, trained.config.condition_options.name)
    limited = trained.config.condition_options.limited
    difference = largest_difference(agent, Policy(data, str(path)), limited)
    if not difference <= (TOLERANCE if weights == "float32" else INT8_TOLERANCE):  # also rejects NaN
        cause = (
            f"its backbone {trained.config.backbone.name} or objective {trained.config.objective_options.name} may use "
            "random numbers, or compute what depends on the values or the size of a batch"
        )
        remedy = "export it with weights in float32" if weights == "int8" else cause
        raise InputError(f"the agent's actions in ONNX differ by up to {difference:.2g}: it is not exported; {remedy}")
    try:
        with new_file(path) as new:
            new.write_bytes(data)
    except OSError as error:
        raise cannot_write(path, error) from None
    settings = trained.config.evaluation
    if (of_run := describe_acting(window_of(settings), settings.actions)) != describe_acting(None):
        warn(
            f"{path.name} carries its state and acts greedily, but the run is evaluated otherwise ({of_run}). Scores "
            "can differ: evaluate the file itself"
        )
    return difference


@torch.inference_mode()
def largest_difference(agent: DecisionAgent, policy: Any, limited: bool) -> float:
    """The largest difference between the actions of a policy and of its agent on the same random observations, with
    actions scaled to [-1, 1].

    Every row has its own target return and begins a new episode at random, on average every fifty steps. Of discrete
    actions it is the share that is another, or 0 up to one in a hundred: rounding may turn a choice that is nearly a
    tie.
    """
    generator, batch = torch.Generator().manual_seed(0), TRACED + 2
    scale = float(getattr(agent.condition, "scale", 1.0))
    target = scale * (1 + torch.arange(batch)) / batch * 4
    if limited:
        target[-1] = AUTO
    state, memory = agent.initial_state(target), policy.initial_state(batch)
    worst, others = 0.0, 0
    mean, std = torch.zeros(policy.observation_layout.size), torch.ones(policy.observation_layout.size)
    seen = slice(None) if agent.encoder.index is None else agent.encoder.index
    mean[seen], std[seen] = agent.encoder.mean, agent.encoder.std
    with one_thread():
        for _ in range(STEPS):
            observation = mean + std * torch.randn(batch, len(mean), generator=generator)
            reward = scale / 1000 * torch.rand(batch, generator=generator)
            reset = torch.rand(batch, generator=generator) < 0.02
            action, state, _ = agent.act(observation, reward, state.reset(agent.initial_state(target), reset))
            found, memory = policy.step(observation.numpy(), reward.numpy(), reset.numpy(), target.numpy(), memory)
            difference = np.abs(found - action.numpy()) / agent.action_scale.radius.numpy()
            worst = float(np.maximum(worst, difference.max()))  # unlike max(), keeps NaN
            others += int((difference.max(1) > 0).sum())
    share = others / (STEPS * batch)
    return (share if share > 0.01 else 0.0) if agent.action_layout.categorical.all() else worst


class _Step(nn.Module):
    """`DecisionAgent.act` with the target return, constant in an episode, as an input separate from the state."""

    def __init__(self, agent: DecisionAgent) -> None:
        super().__init__()
        self.agent = agent

    def forward(
        self, obs: Tensor, reward: Tensor, reset: Tensor, target_return: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        # One row of the initial state is broadcast, so that the batch size stays dynamic.
        initial = self.agent.initial_state(torch.zeros(1))
        before = initial.unflatten((target_return, *state) if self.agent.condition.takes_target else state)
        initial = initial._replace(condition=self.agent.condition.initial_state(target_return))
        action, after, _ = self.agent.act(obs, reward, before.reset(initial, reset))
        return action, *_carried(self.agent, after)


def _exported(agent: DecisionAgent, description: dict[str, Any], condition: str) -> bytes:
    """The step as the bytes of an ONNX model, whose metadata are the description and the layout of the state.

    `condition` is the condition's name.
    """
    begin = agent.initial_state(torch.zeros(1))
    initial = _carried(agent, begin)
    number = len(begin.condition) - int(agent.condition.takes_target)
    conditions = [condition] if number == 1 else [f"{condition}_{i}" for i in range(number)]
    labels = [*conditions, "previous_action", "timestep", *(f"memory_{i}" for i in range(len(begin.memory)))]
    labels += [f"plan_{i}" for i in range(len(begin.plan))]
    batch = torch.export.Dim("batch", min=1)
    vector = torch.zeros(TRACED)
    first = (
        torch.zeros(TRACED, description["observation"]["size"]),
        vector,
        torch.tensor([True, False, True]),
        vector.clone(),
    )
    state: State = tuple(part.repeat_interleave(TRACED, dim=0) for part in initial)
    shapes = (*({0: batch} for _ in first), tuple({0: batch} for _ in state))
    outputs = ["actions", *(f"h_out_{label}" for label in labels)]
    step = _Step(agent).requires_grad_(False)
    layout = [
        {
            "input": f"h_in_{label}",
            "output": f"h_out_{label}",
            "dtype": str(part.dtype).removeprefix("torch."),
            "shape": list(part.shape[1:]),
            "initial": _initial(part[0]),
        }
        for label, part in zip(labels, initial, strict=True)
    ]
    try:
        with _quiet():
            program = torch.export.export(step, (*first, *state), dynamic_shapes=shapes, strict=False)
            exported: Any = torch.onnx.export(
                program,
                (),
                dynamo=True,
                input_names=["obs", "reward", "reset", "target_return", *(f"h_in_{label}" for label in labels)],
                output_names=outputs,
                custom_translation_table={torch.ops.aten.lerp.Tensor: _lerp()},
                verbose=False,
            )
            return _serialized(exported.model, outputs, {**description, "state": layout})
    except Exception as error:  # torch.export and onnxscript have no common base class
        reason = " ".join(str(error).strip().split("\n")[0].split())[:200].removesuffix(".")
        raise InputError(
            f"the agent cannot be exported ({type(error).__name__}: {reason}): what its backbone and objective do in a "
            "step must be torch operations that ONNX has, without Python that depends on values"
        ) from error


def _serialized(model: Any, outputs: Sequence[str], description: dict[str, Any]) -> bytes:
    """The bytes of the file: the model with its metadata, which end with the checksum of what is before it. It has
    these names of its outputs and a batch dimension "batch", and nothing about the machine that exported it."""
    import onnx
    import onnx_ir
    from onnx_ir.passes import common

    from decision_rnn.deploy.runtime import DIGEST_KEY, DIGEST_SIZE, FORMAT, FORMAT_KEY, POLICY_KEY

    common.OutputFixPass()(model)  # otherwise two outputs may be one value, which has one name
    common.ClearMetadataAndDocStringPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    model.metadata_props.clear()
    model.producer_name, model.producer_version = "decision-rnn", None
    for value, name in zip(model.graph.outputs, outputs, strict=True):
        value.name = name
    for value in (*model.graph.inputs, *model.graph.outputs):
        value.shape = onnx_ir.Shape(["batch", *value.shape[1:]])
    proto = onnx_ir.to_proto(model)
    if description["weights"] == "int8":
        _store_int8(proto)
    onnx.checker.check_model(proto)
    entries = {FORMAT_KEY: FORMAT, POLICY_KEY: json.dumps(description), DIGEST_KEY: "0" * DIGEST_SIZE}
    onnx.helper.set_model_props(proto, entries)
    data = proto.SerializeToString(deterministic=True)[:-DIGEST_SIZE]
    return data + hashlib.sha256(data).hexdigest().encode()


def _store_int8(proto: Any) -> None:
    """Replace the linear layers of a model by onnxruntime's operator with weights in 8 bits, symmetric in blocks of
    `BLOCK` inputs of an output. It rounds a layer's inputs to 8 bits too, in the same blocks.

    Layers that are smaller than a block, of observations and actions, are few weights and stay as they are.
    """
    from onnx import helper, numpy_helper

    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    replaced = set()
    for node in proto.graph.node:
        name = node.input[1] if node.op_type == "Gemm" else ""
        options = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
        if name not in arrays or {**GEMM, **options} != {**GEMM, "transB": 1}:
            continue
        outputs, inputs = arrays[name].shape
        if inputs % BLOCK or outputs < BLOCK:
            continue
        if name not in replaced:
            blocks = arrays[name].reshape(outputs, -1, BLOCK)
            scale = np.maximum(np.abs(blocks).max(2) / 127, np.finfo(np.float32).tiny)
            whole = (np.rint(blocks / scale[..., None]) + 128).astype(np.uint8)
            added = (
                numpy_helper.from_array(array, f"{name}.{kind}") for kind, array in (("int8", whole), ("scale", scale))
            )
            proto.graph.initializer.extend(added)
            replaced.add(name)
        read = [node.input[0], f"{name}.int8", f"{name}.scale", "", "", *node.input[2:]]
        sizes = {"N": outputs, "K": inputs, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
        node.CopyFrom(helper.make_node("MatMulNBits", read, node.output, node.name, domain="com.microsoft", **sizes))
    replaced -= {name for node in proto.graph.node for name in node.input}
    kept = [tensor for tensor in proto.graph.initializer if tensor.name not in replaced]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _carried(agent: DecisionAgent, state: ActingState) -> State:
    """The tensors of a state without the target, which is an input of its own."""
    return state.flatten()[int(agent.condition.takes_target) :]


def _initial(value: Tensor) -> Any:
    """A state's initial value for JSON, with text for what JSON has no numbers for, as in slots that are not written
    yet; a single number if all entries are equal."""
    numbers = [x if math.isfinite(x) else str(x) for x in value.double().flatten().tolist()]
    if not numbers or numbers.count(numbers[0]) < len(numbers):
        return np.reshape(np.array(numbers, object), value.shape).tolist()
    return numbers[0]


def _lerp() -> Any:
    """start + weight (end - start) in three operators; torch's translation, exact at both ends, takes nine."""
    from onnxscript import opset18 as op

    def lerp(start: Any, end: Any, weight: Any) -> Any:
        return op.Add(start, op.Mul(weight, op.Sub(end, start)))

    return lerp


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress what the exporter logs and prints: warnings about missing packages and its own internals, and the whole
    graph where something cannot be exported."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
