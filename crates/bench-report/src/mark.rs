//! Signs behind numbers that want a second thought, explained only where one was used.

/// What a sign behind a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mark {
    /// Fewer than 10 / (1 − q) values.
    FewSamples,
    /// The stamps behind it are bounds, and the other end differs by more than 1 %.
    Bounded,
    /// The cell has a reason to doubt.
    Doubtful,
    /// The cell has a reason not to believe.
    Untrusted,
    /// An estimate, not a measurement.
    Estimate,
    /// With failures as +∞ the quantile does not exist.
    Failures,
}

impl Mark {
    /// One column wide.
    pub(crate) fn sign(self) -> char {
        match self {
            Self::FewSamples => '*',
            Self::Bounded => '~',
            Self::Doubtful => '?',
            Self::Untrusted => '!',
            Self::Estimate => '≈',
            Self::Failures => '∞',
        }
    }

    /// What the legend says.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::FewSamples => {
                "few samples: fewer than 10 / (1 − q) values stand behind this percentile"
            }
            Self::Bounded => {
                "bounded stamps: with the other end of their bounds this differs by more than 1 %"
            }
            Self::Doubtful => "doubtful: see the reasons under trust",
            Self::Untrusted => "untrusted: see the reasons under trust",
            Self::Estimate => "an estimate, not a measurement",
            Self::Failures => {
                "of completed requests; with failures counted as never answered it is unbounded"
            }
        }
    }
}
