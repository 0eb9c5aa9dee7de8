"""Offline reinforcement learning with return-conditioned agents and swappable sequence backbones.

A policy, conditioned on a return or a goal, is trained in parallel over time and acts one step at a time with a state
of fixed size:

    run = decision_rnn.train("standin/hopper-medium", backbone="mingru")
    print(run.evaluate([3600]))

Data
    open_dataset                 a dataset by name: `Dataset`, its `DatasetSpec` and its episodes, an `EpisodeStore`
    record, import_log           episodes of a policy or an agent, or of log files, as a dataset `local/NAME`
    write_store, merge_datasets  episodes in memory (`Episode`) or of several datasets as one
    split_dataset                a dataset split by episodes, to train on and held out
    remove_dataset               remove a local dataset
    StepStream                   batches of segments of episodes, as in training

Agents
    train                        a `Run`: its folder, its metrics and its agent
    evaluate, compare            the scores of an agent; those of variants over datasets and seeds
    load_agent                   an agent by any of its names, a `TrainedAgent`
    EnvironmentActor             an agent in a loop of your own
    read_comparison              a comparison from its folder

Extensions, each a class in a module of your own
    register_backbone            a layer: `SequenceMixer` and its options, `BackboneConfig`;
                                 see `backbones.testing.check_mixer`
    register_condition           what an agent is conditioned on: `Condition`, `ConditionConfig`
    register_objective           a head and its loss: `Objective`, `ObjectiveConfig`
    register_metric              what is measured in an episode: `Metric`
    register_source              where datasets come from: `Source`

Invalid input raises `InputError`, a ValueError.
"""

import lazy_loader

__version__ = "1.0.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
