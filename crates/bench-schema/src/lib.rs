//! The nouns of a benchmark run: units, records, results; the one versioned format.
