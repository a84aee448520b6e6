//! `--shard auto`: which of how many this process is, as whoever started it says in the environment.

/// The variables of a launcher: whose they are, this process's number from 0, and how many there are.
const LAUNCHERS: [(&str, &str, &str); 4] = [
    (
        "a Kubernetes Indexed Job",
        "JOB_COMPLETION_INDEX",
        "BENCH_SHARDS",
    ),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI", "PMI_RANK", "PMI_SIZE"),
];

/// Shards of one plan, as `--shard I/N` takes them.
const MOST: u32 = 100_000;

/// What the folder of one of several shards is called; nothing of the only one.
pub(crate) fn folder((index, count): (u32, u32)) -> Option<String> {
    (count > 1).then(|| format!("shard-{index}-of-{count}"))
}

/// Which of how many, and which variables say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) index: u32,
    pub(crate) count: u32,
    names: (&'static str, &'static str),
}

impl Rank {
    /// From the environment; what is wrong with it and what to do, where it does not say, or not clearly.
    pub(crate) fn find(
        told: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, (String, &'static str)> {
        let mut found: Option<Self> = None;
        let mut half = None;
        for (launcher, index, count) in LAUNCHERS {
            let (here, lacking) = match (told(index), told(count)) {
                (Some(index_told), Some(count_told)) => {
                    let rank = Self::of((index, count), (&index_told, &count_told))?;
                    if let Some(other) = found.filter(|other| !other.agrees(rank)) {
                        return Err((
                            format!("{other} and {rank}, which disagree"),
                            "unset the variables of the launcher that did not start this process, or write `--shard I/N`",
                        ));
                    }
                    found = Some(rank);
                    continue;
                }
                (Some(_), None) => (index, count),
                (None, Some(_)) => (count, index),
                (None, None) => continue,
            };
            half = half.or(Some(format!(
                "{here} is set but {lacking} is not; {launcher} sets both"
            )));
        }
        let nothing = || {
            let pairs = LAUNCHERS
                .map(|(launcher, index, count)| format!("{index} and {count} ({launcher})"));
            format!(
                "the environment does not name the shard: neither {}",
                pairs.join(", nor ")
            )
        };
        found.ok_or_else(|| {
            let help = "start it with srun, mpirun or as an Indexed Job (docs/scale.md), or write `--shard I/N`";
            (half.unwrap_or_else(nothing), help)
        })
    }

    fn of(
        names: (&'static str, &'static str),
        texts: (&str, &str),
    ) -> Result<Self, (String, &'static str)> {
        let number = |name: &str, text: &str| {
            let wrong = || format!("{name} is `{text}`, which is not a whole number up to {MOST}");
            let read = text.trim().parse::<u32>().ok();
            read.filter(|number| *number <= MOST)
                .ok_or_else(|| (wrong(), "set it to a whole number, or write `--shard I/N`"))
        };
        let (index, count) = (number(names.0, texts.0)?, number(names.1, texts.1)?);
        let rank = Self {
            index,
            count,
            names,
        };
        if index < count {
            return Ok(rank);
        }
        Err((
            format!("{rank}: shard numbers start at 0 and must be below the number of shards"),
            "correct them, or write `--shard I/N`",
        ))
    }

    fn agrees(self, other: Self) -> bool {
        (self.index, self.count) == (other.index, other.count)
    }

    pub(crate) fn part(self) -> (u32, u32) {
        (self.index, self.count)
    }

    /// As `--shard` is written.
    pub(crate) fn text(self) -> String {
        format!("{}/{}", self.index, self.count)
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (index, count) = self.names;
        write!(f, "{index} is {} and {count} is {}", self.index, self.count)
    }
}
