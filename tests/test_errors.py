from decision_rnn.errors import InputError, did_you_mean


def test_did_you_mean_suggests_only_close_names() -> None:
    assert did_you_mean("mingur", ("minlstm", "mingru")) == "did you mean mingru? "
    assert did_you_mean("transformer", ("minlstm", "mingru")) == ""
    assert did_you_mean("mingur", ("minlstm", "mingru"), likeness=0.99) == ""


def test_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)
