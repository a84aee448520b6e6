//! What can go wrong before the first reading. After that nothing is an error: what cannot be read is named in a reading.

/// Why a sampler could not be started, or a page not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message says what each field is")]
pub enum HardwareError {
    /// The operating system refused a thread.
    #[error(
        "cannot start the sampler thread `{worker}`; raise the limit on threads or disable that source"
    )]
    Thread {
        worker: String,
        source: std::io::Error,
    },
    /// A page holds no metric at all.
    #[error("not a metrics page in the Prometheus text format: {why}; check the address")]
    NotMetrics { why: String },
    /// The answer of a Prometheus server's query API is not what it should be.
    #[error("not a response of the Prometheus query API: {why}; check the address and the query")]
    NotAQueryAnswer { why: String },
}
