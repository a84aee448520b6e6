//! What the fuzz targets do with their bytes.

pub mod bodies;
