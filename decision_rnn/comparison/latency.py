"""What one action costs."""

import statistics
import time

import torch

from decision_rnn.agent import DecisionAgent
from decision_rnn.evaluation.rollout import one_thread


def action_latency(agent: DecisionAgent, actions: int = 300) -> float:
    """Median microseconds of one `act` in one environment, on one thread."""
    observation, reward = torch.zeros(1, agent.observation_dim), torch.zeros(1)
    times = []
    with one_thread(), torch.inference_mode():
        state = agent.initial_state(torch.ones(1))
        for _ in range(actions):
            begun = time.perf_counter()
            _, state = agent.act(observation, reward, None, state)
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6
