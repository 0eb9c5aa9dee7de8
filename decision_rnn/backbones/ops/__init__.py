"""Operations that mixers share: recurrences, chunks of time, convolutions and rotary positions."""
