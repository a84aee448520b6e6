//! Frames as files.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use bench_schema::RunRecord;
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, CsvWriter, DataFrame, DataType, ParquetCompression, ParquetReader, ParquetWriter,
    SerReader as _, SerWriter as _,
};

use crate::FramesError;
use crate::cells::stream_cells;
use crate::journals::{stream_readings, stream_requests, stream_tokens};
use crate::run::Run;
use crate::table::Sink;

/// Write a frame as Parquet, compressed with zstd. A file that is there is replaced as a whole.
///
/// # Errors
/// [`FramesError::Write`] or [`FramesError::Polars`].
pub fn write_parquet(frame: &DataFrame, path: &Path) -> Result<(), FramesError> {
    let mut file = ParquetFile::create(path)?;
    file.batch(frame.clone())?;
    file.finish().map(drop)
}

/// Read a Parquet file back as a frame.
///
/// # Errors
/// [`FramesError::Read`] or [`FramesError::Polars`].
pub fn read_parquet(path: &Path) -> Result<DataFrame, FramesError> {
    let file = File::open(path).map_err(FramesError::read(path))?;
    Ok(ParquetReader::new(file).finish()?)
}

/// Write a frame as CSV. Null is empty; a text that a spreadsheet would take for a formula gets an apostrophe.
///
/// # Errors
/// As for [`write_parquet`].
pub fn write_csv(frame: &DataFrame, path: &Path) -> Result<(), FramesError> {
    let mut file = CsvFile::create(path)?;
    file.batch(frame.clone())?;
    file.finish().map(drop)
}

/// The frame with texts that a spreadsheet takes for texts.
fn harmless(mut frame: DataFrame) -> Result<DataFrame, FramesError> {
    let original = frame.clone();
    for column in original
        .columns()
        .iter()
        .filter(|column| *column.dtype() == DataType::String)
    {
        let texts: Vec<Option<String>> = column
            .str()?
            .iter()
            .map(|text| text.map(no_formula))
            .collect();
        frame.with_column(Column::new(column.name().clone(), texts))?;
    }
    Ok(frame)
}

fn no_formula(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

/// Write a run as `requests.parquet`, `tokens.parquet`, `readings.parquet` and `cells.parquet` into `out`; gives their paths.
///
/// `record` is the run's record, which may have been recovered; the journals are streamed from `dir` in batches, so that memory stays
/// bounded however long the run was. A run without a journal has a file without rows.
///
/// # Errors
/// As for [`crate::requests`] and [`write_parquet`].
pub fn write_run(dir: &Path, record: &RunRecord, out: &Path) -> Result<Vec<PathBuf>, FramesError> {
    let mut written = journals(dir, record, out, "parquet", ParquetFile::create)?;
    let mut file = ParquetFile::create(&out.join("cells.parquet"))?;
    stream_cells(&[Run::of(dir, Cow::Borrowed(record))], &mut file)?;
    written.push(file.finish()?);
    Ok(written)
}

/// The same as `requests.csv`, `tokens.csv` and `readings.csv`, for programs that read no Parquet; several times larger.
///
/// # Errors
/// As for [`write_run`].
pub fn write_run_csv(
    dir: &Path,
    record: &RunRecord,
    out: &Path,
) -> Result<Vec<PathBuf>, FramesError> {
    journals(dir, record, out, "csv", CsvFile::create)
}

/// A file that grows by batches and has its name when it is whole.
trait Growing: Sink + Sized {
    fn finish(self) -> Result<PathBuf, FramesError>;
}

/// Requests, tokens and readings, each as a file of its own.
fn journals<F: Growing>(
    dir: &Path,
    record: &RunRecord,
    out: &Path,
    extension: &str,
    create: fn(&Path) -> Result<F, FramesError>,
) -> Result<Vec<PathBuf>, FramesError> {
    let runs = [Run::of(dir, Cow::Borrowed(record))];
    let [run] = &runs;
    let write = |name: &str, fill: &dyn Fn(&mut F) -> Result<(), FramesError>| {
        let mut file = create(&out.join(format!("{name}.{extension}")))?;
        fill(&mut file)?;
        file.finish()
    };
    Ok(vec![
        write("requests", &|file| stream_requests(&runs, file))?,
        write("tokens", &|file| stream_tokens(run, file))?,
        write("readings", &|file| stream_readings(run, file))?,
    ])
}

/// The file beside `path` that is written first, in a folder that is there.
fn part(path: &Path) -> Result<PathBuf, FramesError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(FramesError::write(folder))?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    Ok(PathBuf::from(part))
}

/// A Parquet file that grows by batches.
struct ParquetFile {
    path: PathBuf,
    part: PathBuf,
    writer: Option<BatchedWriter<BufWriter<File>>>,
}

impl ParquetFile {
    fn create(path: &Path) -> Result<Self, FramesError> {
        Ok(Self {
            path: path.to_owned(),
            part: part(path)?,
            writer: None,
        })
    }
}

impl Growing for ParquetFile {
    fn finish(self) -> Result<PathBuf, FramesError> {
        if let Some(writer) = &self.writer {
            writer.finish()?;
        }
        drop(self.writer);
        fs::rename(&self.part, &self.path).map_err(FramesError::write(&self.path))?;
        Ok(self.path)
    }
}

impl Sink for ParquetFile {
    fn batch(&mut self, mut frame: DataFrame) -> Result<(), FramesError> {
        if self.writer.is_none() {
            let file = File::create(&self.part).map_err(FramesError::write(&self.part))?;
            let writer = ParquetWriter::new(BufWriter::new(file))
                .with_compression(ParquetCompression::Zstd(None))
                .batched(frame.schema())?;
            self.writer = Some(writer);
        }
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        if frame.height() > 0 {
            frame.align_chunks_par();
            writer.write_batch(&frame)?;
        }
        Ok(())
    }
}

/// A CSV file that grows by batches, its heading first.
struct CsvFile {
    path: PathBuf,
    part: PathBuf,
    out: BufWriter<File>,
    begun: bool,
}

impl CsvFile {
    fn create(path: &Path) -> Result<Self, FramesError> {
        let part = part(path)?;
        let file = File::create(&part).map_err(FramesError::write(&part))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            out: BufWriter::new(file),
            begun: false,
        })
    }
}

impl Growing for CsvFile {
    fn finish(mut self) -> Result<PathBuf, FramesError> {
        self.out.flush().map_err(FramesError::write(&self.part))?;
        drop(self.out);
        fs::rename(&self.part, &self.path).map_err(FramesError::write(&self.path))?;
        Ok(self.path)
    }
}

impl Sink for CsvFile {
    fn batch(&mut self, frame: DataFrame) -> Result<(), FramesError> {
        if self.begun && frame.height() == 0 {
            return Ok(());
        }
        CsvWriter::new(&mut self.out)
            .include_header(!self.begun)
            .finish(&mut harmless(frame)?)?;
        self.begun = true;
        Ok(())
    }
}
