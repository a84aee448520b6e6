//! What to ask and when: prompts, lengths, datasets, arrivals. Pure and seeded.
