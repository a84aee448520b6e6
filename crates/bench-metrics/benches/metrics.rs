//! Speed of the arithmetic.

fn main() {}
