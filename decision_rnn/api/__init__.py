"""What `import decision_rnn` offers: training, evaluating, comparing, recording; a thin layer."""
