"""Small networks in plain numpy: layers with exact lengths of each row's gradient, optimizers, programs to train."""
