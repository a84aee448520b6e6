//! The embedded target: an OpenAI-compatible server over a simulated or a real CPU engine.
