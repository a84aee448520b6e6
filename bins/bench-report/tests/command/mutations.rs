//! Damage of every kind to the files of a run, drawn by chance that is the same each time: whoever reads it is refused by name, or told beside the numbers and not
//! left to trust them, or gets the numbers of the whole run.
//!
//! `MUTATIONS=300 cargo test -p bench-report-command mutations` draws that many for each kind of run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bench_schema::{
    BEGIN_FILE, JOURNAL_FILE, JournalFile, Nanos, RequestRecord, RunRecord, TrustVerdict,
};
use serde_json::Value;

use crate::journals::{open_run, part};
use crate::support::{command, killed, lines, requests, stored};

/// Drawn for each kind of run.
fn mutations() -> usize {
    let asked = std::env::var_os("MUTATIONS");
    asked.map_or(5, |text| text.to_str().unwrap().parse().unwrap())
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % most.max(1)
    }
}

/// The records of a run in two parts, its readings, and the list that tells what all of them hold.
fn left(folder: &Path, run: &Value, records: &[RequestRecord]) -> PathBuf {
    let folder = killed(folder, run, &[]);
    for (number, some) in records.chunks(records.len().div_ceil(2)).enumerate() {
        let name = JournalFile::Requests.part_name(u32::try_from(number).unwrap());
        fs::write(folder.join(name), lines(some)).unwrap();
    }
    let begun = serde_json::from_value::<RunRecord>(run.clone()).unwrap();
    let begun = begun.to_json().unwrap();
    for name in ["run.json", BEGIN_FILE] {
        fs::write(folder.join(name), &begun).unwrap();
    }
    let journals =
        [JournalFile::Requests, JournalFile::Readings].map(|file| file.parts_in(&folder));
    let begun = folder.join(BEGIN_FILE);
    let listed = journals.iter().flatten().chain([&begun]).map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        part(name, &fs::read_to_string(path).unwrap())
    });
    let list: Vec<_> = listed.collect();
    fs::write(
        folder.join(JOURNAL_FILE),
        serde_json::to_string(&list).unwrap(),
    )
    .unwrap();
    folder
}

/// The same as a run that ended leaves it, its `run.json` with a digest.
fn whole(folder: &Path, run: &Value, records: &[RequestRecord]) -> PathBuf {
    let folder = left(folder, run, records);
    let name = folder.to_str().unwrap();
    assert_eq!(command(&["recover", name]).code, Some(0));
    let mut run = stored(&folder);
    (run.complete, run.incomplete_reason) = (true, None);
    run.trust = bench_schema::Trust::from_reasons(Vec::new());
    fs::write(folder.join("run.json"), run.to_json().unwrap()).unwrap();
    for page in ["report.md", "report.html"] {
        fs::remove_file(folder.join(page)).unwrap();
    }
    folder
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| name(entry.unwrap())).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::remove_dir_all(to).ok();
    fs::create_dir(to).unwrap();
    for name in names(from) {
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
}

/// One thing that befalls one file; `None` where it changed nothing, or where the run was killed and the file only grew: what was written after its list
/// cannot be held against anything, and is said to be so.
#[expect(clippy::too_many_lines, reason = "an arm for each kind of damage")]
fn mutate(run: &Path, other: &Path, ended: bool, chance: &mut Chance) -> Option<String> {
    let names: Vec<String> = names(run).into_iter().collect();
    let journals: Vec<_> = names.iter().filter(|n| n.starts_with("requests")).collect();
    let any = chance.below(names.len() + 2 * journals.len());
    let name = names
        .get(any)
        .unwrap_or_else(|| journals[any % journals.len()]);
    let path = run.join(name);
    let before = fs::read(&path).unwrap();
    let mut bytes = before.clone();
    let mut rows: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let (row, at) = (chance.below(rows.len()), chance.below(before.len()));
    let few = (row + 1 + chance.below(5)).min(rows.len());
    let what = match chance.below(13) {
        0 => {
            bytes[at] ^= 1 << chance.below(8);
            format!("a bit of byte {at} flipped")
        }
        1 => {
            let digits = before
                .iter()
                .enumerate()
                .filter(|(_, b)| b.is_ascii_digit());
            let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
            let at = digits[chance.below(digits.len())];
            bytes[at] = b'0' + (bytes[at] - b'0' + 1) % 10;
            format!("the digit at byte {at} one more")
        }
        2 => {
            rows.drain(row..few);
            bytes = rows.concat();
            format!("lines {row}..{few} lost")
        }
        3 => {
            let again = rows[row..few].to_vec();
            rows.splice(row..row, again);
            bytes = rows.concat();
            format!("lines {row}..{few} doubled")
        }
        4 => {
            let second = chance.below(rows.len());
            rows.swap(row, second);
            bytes = rows.concat();
            format!("lines {row} and {second} swapped")
        }
        5 => {
            bytes.truncate(at);
            format!("cut at byte {at}")
        }
        6 => {
            bytes = rows[..row].concat();
            format!("cut after line {row}")
        }
        7 => {
            bytes.clear();
            "emptied".to_owned()
        }
        8 => {
            fs::remove_file(&path).unwrap();
            return Some(format!("{name} lost"));
        }
        9 => {
            bytes = fs::read(other.join(name)).unwrap();
            "that of another run".to_owned()
        }
        10 => {
            let theirs = fs::read(other.join(name)).unwrap();
            let theirs: Vec<&[u8]> = theirs.split_inclusive(|byte| *byte == b'\n').collect();
            rows.insert(row, theirs[chance.below(theirs.len())]);
            bytes = rows.concat();
            format!("a line of another run before line {row}")
        }
        11 => {
            let next = JournalFile::Requests.part_name(u32::try_from(journals.len()).unwrap());
            fs::write(run.join(&next), &bytes).unwrap();
            return Some(format!("{name} copied as {next}"));
        }
        _ => {
            let second = run.join(&names[chance.below(names.len())]);
            bytes = fs::read(&second).unwrap();
            fs::write(&second, &before).unwrap();
            format!("in the place of {}", second.display())
        }
    };
    fs::write(&path, &bytes).unwrap();
    let changed = bytes != before && (ended || !bytes.starts_with(&before));
    changed.then(|| format!("{name}: {what}"))
}

/// What a command gave.
struct Answer {
    code: Option<i32>,
    /// What it made, by the names of files; nothing where it refused.
    numbers: Option<BTreeMap<String, Vec<u8>>>,
    /// What a result that it made says of itself.
    trust: Option<TrustVerdict>,
    said: String,
}

impl Answer {
    /// What is told, whatever its numbers are.
    fn told(&self) -> BTreeSet<String> {
        let plain = |line: &str| line.replace(|c: char| c.is_ascii_digit(), "#");
        self.said.lines().map(plain).collect()
    }
}

/// Of a command that prints, or of one that fills `made`.
fn ask(arguments: &[&str], made: Option<&Path>) -> Answer {
    let said = command(arguments);
    let gave = matches!(said.code, Some(0 | 3 | 4));
    let mut answer = Answer {
        code: said.code,
        numbers: None,
        trust: None,
        said: said.err,
    };
    let Some(made) = made else {
        answer.numbers = gave.then(|| BTreeMap::from([("out".to_owned(), said.out.into_bytes())]));
        return answer;
    };
    if gave && made.join("run.json").exists() {
        let run: RunRecord = stored(made);
        answer.trust = Some(run.trust.verdict);
        let cells = bench_schema::to_json(&run.cells).unwrap();
        answer.numbers = Some(BTreeMap::from([("cells".to_owned(), cells.into_bytes())]));
    } else if gave {
        let files = names(made).into_iter();
        let files = files.map(|name| (name.clone(), fs::read(made.join(name)).unwrap()));
        answer.numbers = Some(files.collect());
    } else if !arguments.contains(&"recover") {
        let left = fs::read_dir(made).map_or(0, Iterator::count);
        assert!(left == 0, "{arguments:?} left {left} files");
    }
    answer
}

/// What every command that reads a run says of it, beside another.
fn everything(run: &Path, other: &Path) -> BTreeMap<String, Answer> {
    let (mine, theirs) = (run.to_str().unwrap(), other.to_str().unwrap());
    let json = ["--output", "json"];
    let mut answers = BTreeMap::new();
    for arguments in [
        &["render", mine][..],
        &["compare", mine, theirs],
        &["compare", theirs, mine],
        &["gate", theirs, mine, "--max-regression", "all:5%"],
        &["pivot", mine, theirs],
        &["capacity", mine],
    ] {
        let name = arguments.join(" ");
        answers.insert(name, ask(&[arguments, &json[..]].concat(), None));
    }
    let made = run.with_file_name("made");
    for format in ["csv", "parquet", "vllm", "aiperf", "json"] {
        fs::remove_dir_all(&made).ok();
        let out = ["--out", made.to_str().unwrap()];
        let export = [&["export", mine, "--format", format][..], &out].concat();
        answers.insert(format!("export {format}"), ask(&export, Some(&made)));
    }
    copy(run, &made);
    let recover = ["recover", "--anew", made.to_str().unwrap()];
    answers.insert("recover".to_owned(), ask(&recover, Some(&made)));
    answers
}

fn merged(run: &Path, other: &Path) -> BTreeMap<String, Answer> {
    let made = run.with_file_name("made");
    fs::remove_dir_all(&made).ok();
    let paths = [&made, run, other].map(|path| path.to_str().unwrap());
    let merge = ["merge", "--out", paths[0], paths[1], paths[2]];
    BTreeMap::from([("merge".to_owned(), ask(&merge, Some(&made)))])
}

/// Draws damage to `run`, of which `asked` says the numbers beside `other`; `strange` is a run of other numbers.
fn endures(
    (run, other, strange): (&Path, &Path, &Path),
    asked: fn(&Path, &Path) -> BTreeMap<String, Answer>,
) {
    let place = run.with_file_name("place");
    copy(run, &place);
    let ended = stored(run).complete;
    let whole = asked(&place, other);
    for (name, answer) in &whole {
        assert!(answer.numbers.is_some(), "{name}: {}", answer.said);
    }
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut drawn = 0;
    while drawn < mutations() {
        copy(run, &place);
        let Some(what) = mutate(&place, strange, ended, &mut chance) else {
            continue;
        };
        drawn += 1;
        for (name, found) in asked(&place, other) {
            let (whole, said) = (&whole[&name], &found.said);
            let of = format!("{what}, {name}");
            assert!(matches!(found.code, Some(0..=4)), "{of}: {said}");
            match &found.numbers {
                None => assert!(
                    said.contains(".json") || said.contains("run"),
                    "{of}: {said}"
                ),
                same if *same == whole.numbers => {}
                Some(_) => {
                    let more = found.told().difference(&whole.told()).count();
                    assert!(more > 0, "{of}: other numbers without a word: {said}");
                    let trusted = found.trust == Some(TrustVerdict::Trusted);
                    assert!(!trusted, "{of}: other numbers that are trusted: {said}");
                }
            }
        }
    }
}

/// Runs of the same plan that differ in how fast and when they were.
fn plans() -> [(Value, f64); 2] {
    let mut later = open_run();
    later["started_at"] = "2026-11-21T13:00:00Z".into();
    later["clock"]["unix_epoch_ns"] = 1_795_086_400_000_000_000_i64.into();
    [(open_run(), 1.0), (later, 1.3)]
}

#[test]
fn a_damaged_run_that_ended_never_gives_other_numbers_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let [run, other] = plans().map(|(run, stretch)| {
        let records = requests("c4", 4, 60, Nanos::ZERO, stretch);
        whole(&folder.path().join(stretch.to_string()), &run, &records)
    });
    endures((&run, &other, &other), everything);
}

#[test]
fn a_damaged_run_that_was_killed_never_gives_other_numbers_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let [run, other] = plans().map(|(run, stretch)| {
        let records = requests("c4", 4, 60, Nanos::ZERO, stretch);
        left(&folder.path().join(stretch.to_string()), &run, &records)
    });
    endures((&run, &other, &other), everything);
}

#[test]
fn a_damaged_shard_is_never_merged_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let shard = |name: &str, of: &(Value, f64), index: u64| {
        let mut run = of.0.clone();
        run["config"]["shard"] = format!("{index}/2").into();
        let records = requests("c4", 4, 60, Nanos::ZERO, of.1).into_iter();
        let mine: Vec<_> = records.filter(|r| r.id % 2 == index).collect();
        whole(&folder.path().join(name), &run, &mine)
    };
    let [plan, later] = plans();
    let (zero, one) = (shard("zero", &plan, 0), shard("one", &plan, 1));
    endures((&zero, &one, &shard("strange", &later, 0)), merged);
}
