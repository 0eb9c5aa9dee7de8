"""Operations that mixers share: recurrences, chunks of time and complex numbers."""
