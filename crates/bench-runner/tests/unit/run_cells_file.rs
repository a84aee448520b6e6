use std::fs;
use std::os::unix::fs::MetadataExt as _;

use bench_schema::RunRecord;

use super::*;
use crate::progress::Progress;
use crate::redact::Secrets;

#[test]
fn many_cells_are_told_whole_at_any_time_and_the_file_is_not_written_anew_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let progress = Progress::new(false, Secrets::default());
    let directory = RunDirectory::at(folder.path().join("run"), progress).unwrap();
    let path = directory.path().unwrap().join(CELLS_FILE);
    let read =
        || -> Vec<CellProgress> { serde_json::from_slice(&fs::read(&path).unwrap()).unwrap() };
    let inode = || fs::metadata(&path).unwrap().ino();
    let run = include_str!("../../../../fixtures/results/v1.2/run.json");
    let mut cell = RunRecord::from_json(run).unwrap().cells.swap_remove(0);
    let mut file = CellsFile::new(&directory);
    let mut of_file = None;
    for i in 0..50_i64 {
        cell.id = format!("c{i}");
        cell.ended_early = (i % 7 == 0).then(|| "10 of 10 requests failed: \"]\"".to_owned());
        file.begin(&cell.id, Stamp::new(10 * i)).unwrap();
        assert_eq!(*of_file.get_or_insert_with(inode), inode());
        let told = read();
        assert_eq!(i64::try_from(told.len()), Ok(i + 1));
        assert!(told.iter().rev().skip(1).all(|cell| cell.ended.is_some()));
        assert_eq!(told.last().unwrap().ended, None);
        file.end(&cell, Stamp::new(10 * i + 9)).unwrap();
        let told = read().pop().unwrap();
        assert_eq!(
            (&told.cell, &told.ended_early),
            (&cell.id, &cell.ended_early)
        );
        assert_eq!(told.ended, Some(Stamp::new(10 * i + 9)));
    }
    assert_eq!(inode(), of_file.unwrap());
    // one that is gone, or that somebody changed, is written as a whole
    fs::remove_file(&path).unwrap();
    file.begin("again", Stamp::new(1_000)).unwrap();
    assert_eq!(read(), file.cells);
    fs::write(&path, "[]").unwrap();
    file.end(&cell, Stamp::new(1_001)).unwrap();
    assert_eq!(read(), file.cells);
}
