"""The command line: one file per command, with `add_arguments(parser)` and `run(command)`."""

COMMANDS = {
    "data": "list, make, inspect, import, export or remove datasets",
    "record": "play a policy or an agent, and write its episodes as a dataset",
    "train": "train an agent, evaluate it and print its normalised scores",
    "evaluate": "evaluate the last checkpoint of a run, or any other agent",
    "compare": "train variants over datasets and seeds, and print their tables",
    "play": "watch an agent in its environment, in a window, a browser or as a video",
    "export": "write an agent as an ONNX file, which acts without torch",
    "package": "write an agent as one folder to share, and push it to the Hugging Face Hub",
}
RUN_COMMANDS = ("train", "compare")
"""Commands that take the options of a run."""
