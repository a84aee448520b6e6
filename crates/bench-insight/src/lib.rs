//! The meaning of the numbers: findings with evidence, bottlenecks, regimes, capacity, what to try. Pure.
