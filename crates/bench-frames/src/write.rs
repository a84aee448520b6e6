//! Frames as files: each grows by batches under another name, and has its own when it is whole.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bench_schema::{NewFile, Reading, RequestRecord, RunRecord, no_formula};
use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, CsvWriter, DataFrame, DataType, ParquetCompression, ParquetWriter, PolarsError,
    PolarsResult, SerWriter as _,
};

use crate::FramesError;
use crate::cells::Histograms;
use crate::journals::{self, Request};
use crate::table::{Run, Table, run_name};

/// What a frame is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Compressed with zstd.
    Parquet,
    /// For programs that read no Parquet; several times larger. Null is empty; a text that a spreadsheet would take for a formula
    /// gets an apostrophe.
    Csv,
}

/// Rows of a batch.
const REQUESTS: usize = 10_000;
const VALUES: usize = 40_000;

/// What a run is called in a folder of many, by when it began and its own folder's name, and where it lies there:
/// `date=2026-01-28/benchmark=throughput/run=174628-NAME`, which polars, `DuckDB` and `DataFusion` read as columns.
pub fn partition(dir: &Path, record: &RunRecord) -> (String, PathBuf) {
    let (date, time) = record.started_at.split_once('T').unwrap_or_default();
    let time = time.chars().take(8).filter(|c| *c != ':');
    // what would end the name of a folder, or the key of a partition
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '_'
        }
    };
    let own = run_name(dir);
    let name: String = time.chain(['-']).chain(own.chars().map(plain)).collect();
    let folder = PathBuf::from(format!("date={date}"))
        .join(format!("benchmark={}", record.experiment.as_str()))
        .join(format!("run={name}"));
    (name, folder)
}

/// Write a run as files called `requests`, `tokens`, `readings` and, as Parquet, `cells` and `histograms`, into `out`; gives their paths.
///
/// `name` is what the column `run` says. `record` is the run's record, which may have been recovered. `request` and `reading` give its journals, one value at a time, each read once: memory stays
/// bounded however long the run was. A run without a journal has a file without rows.
///
/// # Errors
/// Those of the journals, [`FramesError::Write`] or [`FramesError::Polars`]; nothing is left of the files then.
pub fn write_run<E: From<FramesError>>(
    (name, record): (&str, &RunRecord),
    (out, format): (&Path, Format),
    mut request: impl FnMut() -> Result<Option<RequestRecord>, E>,
    mut reading: impl FnMut() -> Result<Option<Reading>, E>,
) -> Result<Vec<PathBuf>, E> {
    let runs = [Run {
        name: name.to_owned(),
        record,
    }];
    let [run] = &runs;
    let create = |name: &str| Growing::create(&out.join(name), format);
    let mut requests = (journals::request_table(&runs), create("requests")?);
    let mut events = (journals::event_table(), create("tokens")?);
    let mut readings = (journals::reading_table(), create("readings")?);
    let cells = journals::by_id(run);
    let mut histograms = Histograms::default();
    while let Some(record) = request()? {
        journals::events(&record, |event| events.0.push(&event));
        let request = Request::of(run, &cells, record);
        histograms.add(&request);
        requests.0.push(&request);
        pour(&mut events, VALUES)?;
        pour(&mut requests, REQUESTS)?;
    }
    while let Some(reading) = reading()? {
        journals::values(reading, |value| readings.0.push(value));
        pour(&mut readings, VALUES)?;
    }
    pour(&mut requests, 0)?;
    pour(&mut events, 0)?;
    pour(&mut readings, 0)?;
    let mut files = vec![requests.1, events.1, readings.1];
    if format == Format::Parquet {
        let mut file = create("cells")?;
        file.batch(crate::cells::frame(&runs)?)?;
        files.push(file);
        let mut file = create("histograms")?;
        file.batch(histograms.frame(run)?)?;
        files.push(file);
    }
    let named = files.into_iter().map(Growing::finish);
    Ok(named.collect::<Result<Vec<_>, FramesError>>()?)
}

/// Hands the rows of a table to its file, where there are so many.
fn pour<R>((table, file): &mut (Table<'_, R>, Growing), least: usize) -> Result<(), FramesError> {
    if table.rows() < least {
        return Ok(());
    }
    file.batch(table.frame()?)
}

/// A file that grows by batches.
struct Growing {
    out: Out,
    format: Format,
    parquet: Option<BatchedWriter<Out>>,
    begun: bool,
}

impl Growing {
    fn create(path: &Path, format: Format) -> Result<Self, FramesError> {
        let extension = match format {
            Format::Parquet => "parquet",
            Format::Csv => "csv",
        };
        Ok(Self {
            out: Out::create(path.with_extension(extension))?,
            format,
            parquet: None,
            begun: false,
        })
    }

    /// Takes the next rows; the first call, perhaps without rows, tells the schema.
    fn batch(&mut self, frame: DataFrame) -> Result<(), FramesError> {
        if self.begun && frame.height() == 0 {
            return Ok(());
        }
        let written = match self.format {
            Format::Parquet => self.parquet(frame),
            Format::Csv => harmless(frame).and_then(|mut frame| {
                let csv = CsvWriter::new(&mut self.out);
                csv.include_header(!self.begun).finish(&mut frame)
            }),
        };
        self.begun = true;
        written.map_err(|error| self.out.reason(error))
    }

    fn parquet(&mut self, mut frame: DataFrame) -> PolarsResult<()> {
        if self.parquet.is_none() {
            let writer = ParquetWriter::new(self.out.clone())
                .with_compression(ParquetCompression::Zstd(None));
            self.parquet = Some(writer.batched(frame.schema())?);
        }
        frame.align_chunks_par();
        match &mut self.parquet {
            Some(writer) if frame.height() > 0 => writer.write_batch(&frame),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<PathBuf, FramesError> {
        if let Some(writer) = &self.parquet {
            writer.finish().map_err(|error| self.out.reason(error))?;
        }
        self.out.finish()
    }
}

/// The frame with texts that a spreadsheet takes for texts.
fn harmless(mut frame: DataFrame) -> PolarsResult<DataFrame> {
    let original = frame.clone();
    let columns = original.columns().iter();
    for column in columns.filter(|column| *column.dtype() == DataType::String) {
        let texts = column.str()?.iter();
        let texts = texts.map(|text| text.map(|text| no_formula(text).into_owned()));
        let texts: Vec<Option<String>> = texts.collect();
        frame.with_column(Column::new(column.name().clone(), texts))?;
    }
    Ok(frame)
}

/// What polars writes into. It keeps what the system said where that failed, for polars' own words may be of something else.
#[derive(Clone)]
struct Out(Rc<RefCell<Part>>);

struct Part {
    path: PathBuf,
    file: NewFile,
    failed: Option<io::Error>,
}

impl Out {
    fn create(path: PathBuf) -> Result<Self, FramesError> {
        let file = NewFile::create(&path).map_err(FramesError::write(&path))?;
        Ok(Self(Rc::new(RefCell::new(Part {
            path,
            file,
            failed: None,
        }))))
    }

    fn with<T>(&self, act: impl FnOnce(&mut NewFile) -> io::Result<T>) -> io::Result<T> {
        let mut part = self.0.borrow_mut();
        let done = act(&mut part.file);
        if let (Err(error), None) = (&done, &part.failed) {
            let again = || io::Error::new(error.kind(), error.to_string());
            let code = error.raw_os_error().map(io::Error::from_raw_os_error);
            part.failed = Some(code.unwrap_or_else(again));
        }
        done
    }

    /// Why something could not be written.
    fn reason(&self, told: PolarsError) -> FramesError {
        let mut part = self.0.borrow_mut();
        match part.failed.take() {
            Some(source) => FramesError::write(&part.path)(source),
            None => told.into(),
        }
    }

    fn finish(self) -> Result<PathBuf, FramesError> {
        let named = self.with(NewFile::finish);
        let path = self.0.borrow().path.clone();
        named.map_err(FramesError::write(&path)).map(|()| path)
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(Write::flush)
    }
}
