"""What `import decision_rnn` offers: training, evaluating, comparing, recording. Thin: the work is done below."""
