"""One step of an agent as an ONNX model: all of `DecisionAgent.act`, in one file for any runtime.

    obs (batch, entries), reward (batch,), reset (batch,) bool, target_return (batch,), h_in_... -> actions, h_out_...

The observation is the environment's whole observation. `reset` is true where an episode begins; `h_in_...` and `reward`
are ignored there. Every output `h_out_...` is the input `h_in_...` of the same name at the next step.
"""

import contextlib
import copy
import io
import json
import logging
import warnings
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from decision_rnn.agent import DecisionAgent
from decision_rnn.agent.objectives.gmm import GMM
from decision_rnn.config import to_dict
from decision_rnn.evaluation.actor import evaluation_settings
from decision_rnn.evaluation.rollout import one_thread
from decision_rnn.evaluation.targets import check_target, default_return
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError, importing, one_line
from decision_rnn.utils.files import new_file
from decision_rnn.utils.machine import versions
from decision_rnn.utils.messages import warn
from decision_rnn.utils.parsing import AUTO, TargetReturn, convert, to_json

STEPS = 300
"""Number of steps in the comparison with the agent at the end of every export."""
TOLERANCE = 1e-4
"""The largest difference from the agent's actions with which a file is written. Most exports stay below 1e-6;
normalising values close to zero magnifies rounding."""
TRACED = 3
"""Batch size for tracing; a batch size of 1 would be traced as a constant."""
SEED = 1_000_003
"""The seed of a model's first random draw; those of others are multiples of it."""
PACKAGES = ("decision-rnn", "torch", "numpy", "onnx", "onnxscript", "onnxruntime")


def export_onnx(
    trained: TrainedAgent,
    path: Path | str,
    target_return: float | str | None = None,
    actions: Literal["greedy", "sampled"] | None = None,
) -> float:
    """Write one step of an agent as an ONNX model, after checking that it acts as the agent does with a carried state;
    if it samples its actions, that without noise it takes the most probable ones.

    A file that samples draws the same noise again whenever it is loaded. If the run is evaluated by a window of steps,
    a warning says that the file carries its state.

    Args:
        trained: The agent.
        path: The file; missing folders are created.
        target_return: The policy's default target return, or `auto`; if left out, the first of its evaluation.
        actions: Whether the file samples its actions; if left out, as the run is evaluated.

    Returns:
        The largest difference between the file's and the agent's actions, over steps with resets in between.

    Raises:
        InputError: If the packages of the extra `onnx` are not installed, `target_return` is invalid or given for an
            agent trained by cloning, the agent cannot sample actions, contains what ONNX cannot express, or acts
            differently in ONNX.
    """
    path = Path(path)
    with importing("export", "onnx"):
        import onnxscript  # noqa: F401

        from decision_rnn.deploy.runtime import Policy
    target: float | None = convert(target_return, TargetReturn | None, "target_return")
    if target is not None:
        check_target(trained.config, target)
    windowed = trained.config.evaluation.inference == "window"
    settings = evaluation_settings(trained.config.evaluation, inference="recurrent", actions=actions)
    trained.agent.check_acting(settings.actions, settings.inference)
    trained = replace(trained, config=replace(trained.config, evaluation=settings))
    agent, samples = copy.deepcopy(trained.agent).cpu().eval(), settings.actions == "sampled"
    data = _exported(agent, describe(trained, target), trained.config.condition.name, samples)
    difference = largest_difference(agent, Policy(_without_noise(data) if samples else data))
    if not difference <= TOLERANCE:  # also rejects NaN
        raise InputError(
            f"the agent's actions in ONNX differ by up to {difference:.2g}: backbone and "
            "objective may not use random numbers, or compute what depends on the values or the size of a batch"
        )
    with new_file(path) as new:
        new.write_bytes(data)
    if windowed:
        warn(f"{path.name} carries its state, unlike the run (window of {settings.window}): evaluate the file itself")
    return difference


def describe(trained: TrainedAgent, target_return: float | None = None) -> dict[str, Any]:
    """What the file says of the agent and of its inputs and outputs, as JSON values; arguments of `export_onnx`."""
    config, agent, data = trained.config, trained.agent, trained.provenance
    layouts = agent.observation_layout, agent.action_layout
    names = data.observation_names or layouts[0].names, data.action_names or layouts[1].names
    spaces: Any = [
        {"size": layout.size, "names": list(entries)} | ({} if layout.flat else {"layout": layout.to_json()})
        for layout, entries in zip(layouts, names, strict=True)
    ]
    bounds: Any = gymnasium.spaces.flatten_space(agent.action_space)
    moments = [[None if x != x else x for x in each] for each in agent.encoder.moments(layouts[0].size).tolist()]
    target = (default_return(config, data) if target_return is None else target_return) or 0.0
    return {
        "environment_id": data.environment_id,
        "observation": {**spaces[0], "mean": moments[0], "std": moments[1]},
        "action": {**spaces[1], "low": bounds.low.tolist(), "high": bounds.high.tolist()},
        "target_return": {
            "input": "target_return",
            "conditioned": config.condition.takes_target,
            "default": "auto" if target == AUTO else float(target),
            "value": min(float(target), float(np.finfo(np.float32).max)),
            "auto": config.condition.limited,
            "reads_reward": config.condition.reads_reward,
        },
        "training": {
            "config": to_dict(config.portable),
            "provenance": to_json(data),
            "step": trained.step,
            "seconds": round(trained.seconds, 2),
            "parameters": trained.parameters,
            "backbone_parameters": trained.backbone_parameters,
        },
        "versions": versions(PACKAGES),
    }


@torch.inference_mode()
def largest_difference(agent: DecisionAgent, policy: Any) -> float:
    """The largest difference between the actions of a policy and of its agent, scaled to [-1, 1], on the same random
    observations, with resets. If the agent chooses, among discrete actions or the modes of a mixture, up to one in a
    hundred may be another: rounding may turn a choice that is nearly a tie."""
    generator, batch = torch.Generator().manual_seed(0), TRACED + 2
    scale = float(getattr(agent.condition, "scale", 1.0))
    target = scale * (1 + torch.arange(batch)) / batch * 4
    if policy.limited:
        target[-1] = AUTO
    state, memory = agent.initial_state(target), policy.initial_state(batch)
    mean, std = torch.zeros(policy.observation_layout.size), torch.ones(policy.observation_layout.size)
    entries = slice(None) if agent.encoder.index is None else agent.encoder.index
    mean[entries], std[entries] = agent.encoder.mean, agent.encoder.std
    differences = []
    with one_thread():
        for step in range(STEPS):
            observation = mean + std * torch.randn(batch, len(mean), generator=generator)
            reward = scale / 1000 * torch.rand(batch, generator=generator)
            reset = (torch.rand(batch, generator=generator) < 0.02) | (step == 0)
            action, state, _ = agent.act(observation, reward, state.reset(agent.initial_state(target), reset))
            played, memory = policy.step(observation.numpy(), reward.numpy(), reset.numpy(), target.numpy(), memory)
            differences.append(np.abs(played - action.numpy()) / agent.action_scale.radius.numpy())
    largest = np.max(differences, axis=2)
    equal = largest <= TOLERANCE
    chooses = agent.action_layout.categorical.all() or any(isinstance(module, GMM) for module in agent.modules())
    ties = chooses and equal.mean() >= 0.99 and np.isfinite(largest).all()
    return float(np.max(largest, where=equal, initial=0.0) if ties else np.max(largest))


class _Step(nn.Module):
    """`DecisionAgent.act` with resets, at which the state is the initial one for a target return."""

    def __init__(self, agent: DecisionAgent, samples: bool) -> None:
        super().__init__()
        self.agent, self.samples = agent, samples

    def forward(
        self, obs: Tensor, reward: Tensor, reset: Tensor, target_return: Tensor, *state: Tensor
    ) -> tuple[Tensor, ...]:
        # One row of the initial state is broadcast, so that the batch size stays dynamic.
        initial = self.agent.initial_state(torch.zeros(1))
        before = initial.unflatten(state)
        initial = initial._replace(condition=self.agent.condition.initial_state(target_return))
        action, after, _ = self.agent.act(obs, reward, before.reset(initial, reset), self.samples)
        return action, *after.flatten()


def _exported(agent: DecisionAgent, description: dict[str, Any], condition: str, samples: bool) -> bytes:
    """The step as the bytes of an ONNX model, whose metadata are the description and the layout of the state."""
    from onnxscript import opset18 as op

    step, begin = _Step(agent, samples).requires_grad_(False), agent.initial_state(torch.zeros(1))
    initial, number = begin.flatten(), len(begin.condition)
    labels = [condition] if number == 1 else [f"{condition}_{i}" for i in range(number)]
    labels += ["previous_action", "timestep", *(f"memory_{i}" for i in range(len(begin.memory)))]
    labels += [f"plan_{i}" for i in range(len(begin.plan))]
    description["state"] = [
        {
            "input": f"h_in_{label}",
            "output": f"h_out_{label}",
            "dtype": str(part.dtype).removeprefix("torch."),
            "shape": list(part.shape[1:]),
        }
        for label, part in zip(labels, initial, strict=True)
    ]
    observation, reward = torch.zeros(TRACED, description["observation"]["size"]), torch.zeros(TRACED)
    first = observation, reward, torch.tensor([True, False, True]), reward.clone()
    state = tuple(part.repeat_interleave(TRACED, dim=0) for part in initial)
    batch = {0: torch.export.Dim("batch", min=1)}
    shapes = (*(batch for _ in first), tuple(batch for _ in state))

    def lerp(start: Any, end: Any, weight: Any) -> Any:
        """In three operators; torch's translation, exact at both ends, takes nine."""
        return op.Add(start, op.Mul(weight, op.Sub(end, start)))

    def exponential(like: Any, lambd: float = 1.0, generator: None = None) -> Any:
        """Draws of an exponential distribution of mean 1, which torch does not translate."""
        uniform: Any = op.RandomUniformLike(like)
        return op.Neg(op.Log(uniform))

    translations: Any = {torch.ops.aten.lerp.Tensor: lerp, torch.ops.aten.exponential.default: exponential}
    try:
        # The exporter logs and prints warnings about its own internals, and a whole graph where it fails.
        with contextlib.ExitStack() as stack:
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable(logging.ERROR)
            stack.enter_context(warnings.catch_warnings(action="ignore"))
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            program = torch.export.export(step, (*first, *state), dynamic_shapes=shapes, strict=False)
            exported: Any = torch.onnx.export(program, (), custom_translation_table=translations, verbose=False)
            return _serialized(exported.model, description)
    except Exception as error:  # torch.export and onnxscript have no common base class
        raise InputError(
            f"the agent cannot be exported ({type(error).__name__}: {one_line(error, 200)}): what its backbone and "
            "objective do in a step must be torch operations that ONNX has, without Python that depends on values"
        ) from error


def _serialized(model: Any, description: dict[str, Any]) -> bytes:
    """The bytes of the file: the model with its metadata, and nothing about the machine that exported it."""
    import onnx
    import onnx_ir
    from onnx_ir.passes import common

    from decision_rnn.deploy.rewrite import simplified
    from decision_rnn.deploy.runtime import FORMAT, FORMAT_KEY, POLICY_KEY

    timestep = [part["input"] for part in description["state"]].index("h_in_timestep")
    model = simplified(model, model.graph.inputs[2], model.graph.inputs[4 + timestep])
    read = _state_dependencies(model)
    description["state"] = list(compress(description["state"], read))
    model.graph.inputs[4:] = list(compress(model.graph.inputs[4:], read))
    model.graph.outputs[1:] = list(compress(model.graph.outputs[1:], read))
    common.RemoveUnusedNodesPass()(model)
    common.OutputFixPass()(model)  # otherwise two outputs may be one value, which has one name
    common.ClearMetadataAndDocStringPass()(model)
    names = ["obs", "reward", "reset", "target_return", *(part["input"] for part in description["state"]), "actions"]
    names += [part["output"] for part in description["state"]]
    for value, name in zip((*model.graph.inputs, *model.graph.outputs), names, strict=True):
        value.name, value.shape = name, onnx_ir.Shape(["batch", *value.shape[1:]])
    proto = onnx_ir.to_proto(model)
    for number, node in enumerate(proto.graph.node):
        if node.op_type.startswith("Random"):  # else each session would have another seed
            node.attribute.append(onnx.helper.make_attribute("seed", float(SEED * (1 + number))))
    onnx.checker.check_model(proto)
    entries = {FORMAT_KEY: FORMAT, POLICY_KEY: json.dumps(description, allow_nan=False)}
    onnx.helper.set_model_props(proto, entries)
    data: bytes = proto.SerializeToString(deterministic=True)
    return data


def _without_noise(data: bytes) -> bytes:
    """The model with constant draws of its random numbers: a choice's noise is that of all others, normal noise 0."""
    import onnx

    model = onnx.load_from_string(data)
    for node in model.graph.node:
        if node.op_type.startswith("Random"):
            constant = {"low": 0.5, "high": 0.5} if "Uniform" in node.op_type else {"mean": 0.0, "scale": 1e-30}
            kept = [attribute for attribute in node.attribute if attribute.name not in constant]
            del node.attribute[:]
            node.attribute.extend(kept + [onnx.helper.make_attribute(*each) for each in constant.items()])
    return model.SerializeToString()


def _state_dependencies(model: Any) -> list[bool]:
    """Whether actions depend, at any step, on each part of the state. Few depend on the previous action or the time."""
    after = dict(zip(model.graph.inputs[4:], model.graph.outputs[1:], strict=True))
    reached, values = set(), [model.graph.outputs[0]]
    while values:
        if (value := values.pop()) is not None and value not in reached:
            reached.add(value)
            values += value.producer().inputs if value.producer() else [after.get(value)]
    return [value in reached for value in after]
